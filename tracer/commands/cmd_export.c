/* rbprobe export: a recording or a profile in a format of other programs. Reads files only. */

#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/base/otlp_as.h"
#include "tracer/cli/subcommand.h"
#include "tracer/commands/export_html.h"
#include "tracer/commands/export_spans.h"
#include "tracer/commands/profile_show.h"
#include "tracer/commands/replay_session.h"
#include "tracer/export/call_stacks.h"
#include "tracer/export/export.h"
#include "tracer/export/held.h"
#include "tracer/html/html.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum long_option {
	OPTION_TO = 0x200,
	OPTION_CPU,
	OPTION_WALL,
	OPTION_HELD,
	OPTION_NO_IDLE,
	OPTION_OBJECTS,
	OPTION_THREADS,
	OPTION_FROM,
	OPTION_UNTIL,
	OPTION_CALLS,
};

struct exporting {
	struct invocation invocation;
	const char *path;
	const struct export_format *format;
	enum profile_weight weight;
	bool weight_given;
	bool threads;
	struct replay_when from, until;
	struct export_spans spans;  /* --to otlp */
	uint64_t calls_max;         /* --to html: of the timeline */
	struct waits *waits;        /* for who held the GVL */
	struct call_stacks *stacks; /* of a recording, where the format has a form for profiles alone */
};

static int parse_format(const char *word, struct exporting *exporting)
{
	const char *names[32] = {NULL};

	for (size_t i = 0; export_formats[i] && i + 1 < sizeof(names) / sizeof(*names); i++) {
		names[i] = export_formats[i]->name;
		if (strcmp(export_formats[i]->name, word) == 0) {
			exporting->format = export_formats[i];
			return 0;
		}
	}
	options_refuse_word("--to", word, names);
	return EINVAL;
}

static int choose(struct exporting *exporting, enum profile_weight weight)
{
	exporting->weight = weight;
	exporting->weight_given = true;
	return 0;
}

static error_t parse_export(int key, char *argument, struct argp_state *state)
{
	struct exporting *exporting = state->input;
	struct options *options = &exporting->invocation.options;

	switch (key) {
	case OPTION_TO:
		return parse_format(argument, exporting);
	case OPTION_CPU:
		return choose(exporting, PROFILE_CPU);
	case OPTION_WALL:
		return choose(exporting, PROFILE_WALL);
	case OPTION_NO_IDLE:
		return choose(exporting, PROFILE_BUSY);
	case OPTION_HELD:
		return choose(exporting, PROFILE_HELD);
	case OPTION_OBJECTS:
		return choose(exporting, PROFILE_OBJECTS);
	case OPTION_THREADS:
		exporting->threads = true;
		return 0;
	case OPTION_FROM:
		return replay_when_parse("--from", argument, &exporting->from);
	case OPTION_UNTIL:
		return replay_when_parse("--until", argument, &exporting->until);
	case OPTION_CALLS:
		return options_whole_number("--calls", argument, 1, HTML_CALLS_MAX, &exporting->calls_max);
	case 'm':
		return options_selector(options, argument);
	case ARGP_KEY_ARG:
		if (exporting->path) {
			message("export takes one file, not also \"%s\"; methods are chosen with -m", argument);
			return EINVAL;
		}
		exporting->path = argument;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option export_list[] = {
	{"to", OPTION_TO, EXPORT_FORMATS, 0, "The format", 2},
	{"cpu", OPTION_CPU, NULL, 0, "A profile: by the CPU time that threads used, and not by all time", 3},
	{"no-idle", OPTION_NO_IDLE, NULL, 0, "By time, without that for which threads waited", 3},
	{"wall", OPTION_WALL, NULL, 0, "Of a profile of the GVL: by time", 3},
	{"held", OPTION_HELD, NULL, 0, "The same: by the time for which others waited for who had the GVL", 3},
	{"objects", OPTION_OBJECTS, NULL, 0, "Of a profile of objects: their number, and not their bytes", 3},
	{"threads", OPTION_THREADS, NULL, 0, "Stacks begin with their thread", 3},
	{"calls", OPTION_CALLS, "N", 0, "html: so many calls, the longest, are in the timeline (default 1000000)", 3},
	{"methods", 'm', "SELECTOR", 0, "A recording: only calls of such methods", 10},
	{"from", OPTION_FROM, "TIME", 0, "Only calls that begin at this time or later, as `rbprobe replay` takes it", 10},
	{"until", OPTION_UNTIL, "TIME", 0, "Only calls that begin before this time", 10},
	{0},
};

static const struct argp options_export = {.options = export_list, .parser = parse_export};

static void export_init(void *self)
{
	((struct exporting *)self)->calls_max = HTML_CALLS_DEFAULT;
}

static int check_library(const struct export_format *format)
{
	char what[48];
	struct error err;

	snprintf(what, sizeof(what), "--to %s", format->name);
	for (int i = 0; i < LIBRARY_COUNT; i++)
		if (format->needs[i] && library_require((enum library)i, what, &err) < 0) {
			message("%s", err.text);
			return STATUS_FAILED;
		}
	return 0;
}

/* Bytes that a terminal would take for its commands. */
static bool is_for_no_terminal(const struct exporting *exporting)
{
	const struct options *options = &exporting->invocation.options;

	return exporting->format && exporting->format->binary && !(options->otlp_as & OTLP_AS_JSON) && !options->otlp &&
	       (!options->output_path || strcmp(options->output_path, "-") == 0) && isatty(STDOUT_FILENO);
}

static int export_check(void *self)
{
	const struct exporting *exporting = self;
	const char *wrong = options_check_filter(&exporting->invocation.options);

	if (!exporting->path)
		wrong = "which file? Give that of `rbprobe record -o FILE` or `rbprobe profile -o FILE`";
	else if (exporting->invocation.options.otlp && exporting->format != &export_otlp)
		wrong = "--otlp sends spans: it goes with --to otlp";
	else if (!exporting->invocation.options.otlp && exporting->format == &export_otlp &&
	         exporting->invocation.options.otlp_as & OTLP_AS_GZIP)
		wrong = "--otlp-as gzip packs what --otlp sends, and no file; pack that yourself: rbprobe export ... | "
			"gzip >FILE";
	else if (exporting->format && exporting->format->page && (exporting->weight_given || exporting->threads))
		wrong = "whoever reads a page chooses there: --to html goes without --cpu, --wall, --no-idle, --held, --objects "
			"and --threads";
	else if (!exporting->format)
		wrong = "which format? --to takes " EXPORT_FORMATS_SAID;
	else if (is_for_no_terminal(exporting))
		wrong = "this format is no text for a terminal: name a file with -o, or a program after a pipe";
	if (!wrong && replay_when_is_empty(&exporting->from, "--until", &exporting->until))
		return STATUS_USAGE;
	if (!wrong) {
		int status = check_library(exporting->format);

		if (!status)
			status = otlp_run_check_spans(&exporting->invocation.options);
		/* A file, too, may be JSON. */
		if (status || (exporting->format == &export_otlp && !exporting->invocation.options.otlp))
			return status;
		return otlp_run_check(&exporting->invocation.options);
	}
	message("%s", wrong);
	return STATUS_USAGE;
}

/* --- A profile */

/* 0, or an exit status after a line on stderr. */
static int write_profile(struct exporting *exporting, const struct profile *profile, const char *nothing)
{
	struct output *output = &exporting->invocation.output;
	struct profile_view view;
	struct export_left left;

	if (!exporting->weight_given)
		exporting->weight = profile_weight_usual(profile);
	view = profile_view_make(profile, exporting->weight, exporting->threads);
	output_earn(output, profile->received);
	left = exporting->format->profile(&view, output);
	if (!view.total)
		message("%s has no %s", exporting->path, nothing ? nothing : profile_unit(exporting->weight)->name);
	profile_view_free(&view);
	if (left.small && !exporting->invocation.options.quiet)
		message("%" PRIu64 " stack%s not written, as %s less than half a microsecond: %" PRIu64 " ns in all", left.small,
		        left.small == 1 ? " is" : "s are", left.small == 1 ? "it has" : "each has", left.small_ns);
	if (!left.flood)
		return STATUS_DONE;
	message("%" PRIu64 " stack%s not written: the output would be more than %u times what %s has", left.flood,
	        left.flood == 1 ? " is" : "s are", OUTPUT_FACTOR, exporting->path);
	return STATUS_FAILED;
}

/* 0, or an exit status after a line on stderr. */
static int check_profile(const struct exporting *exporting)
{
	const struct options *options = &exporting->invocation.options;

	if (!exporting->format->profile && !exporting->format->page)
		message("%s is a profile, which knows no order of calls in time; --to %s is for what `rbprobe record` has kept",
		        exporting->path, exporting->format->name);
	else if (options->selectors.count || conditions_any(&options->trace.conditions) || exporting->from.kind ||
	         exporting->until.kind)
		message("%s is a profile, of which calls cannot be chosen", exporting->path);
	else
		return 0;
	return STATUS_USAGE;
}

/* --- Recorded calls */

static const char *const weight_options[PROFILE_WEIGHTS] = {[PROFILE_WALL] = "--wall",
                                                            [PROFILE_CPU] = "--cpu",
                                                            [PROFILE_BUSY] = "--no-idle",
                                                            [PROFILE_HELD] = "--held",
                                                            [PROFILE_OBJECTS] = "--objects"};

/* The recording has what threads did. */
static bool has_states(const struct exporting *exporting)
{
	return exporting->format->held && exporting->invocation.options.trace.marks.kinds & 1u << MARK_STATE;
}

/* As filter_left's call(). */
static void on_left(void *owner, const struct stream *stream, const struct fiber *fiber, const struct method *method,
                    uint64_t start_ns, uint64_t duration_ns)
{
	struct exporting *exporting = owner;

	if (has_states(exporting))
		waits_call_left(exporting->waits, stream, fiber, method, start_ns, duration_ns);
}

static struct sink *make_sink(void *owner, struct output *output)
{
	struct exporting *exporting = owner;
	const struct sink_style *style = &exporting->invocation.options.style;

	if (exporting->format == &export_otlp)
		return export_spans_sink(&exporting->spans, output, style);
	if (exporting->format->calls) {
		struct sink *sink = sink_new(exporting->format->calls, output, style);

		if (has_states(exporting))
			((struct held_sink *)sink)->waits = exporting->waits;
		return sink;
	}
	if (!exporting->stacks)
		exporting->stacks = call_stacks_new();
	return call_stacks_sink(exporting->stacks, output, style);
}

static int write_stacks(struct exporting *exporting)
{
	const struct call_stacks *stacks = exporting->stacks;
	uint64_t open = call_stacks_open(stacks), folded = call_stacks_folded(stacks);
	int status = write_profile(exporting, call_stacks_profile(stacks), "calls that have ended");

	if (exporting->invocation.options.quiet)
		return status;
	if (open)
		message("%" PRIu64 " call%s not ended in it, and %s no time", open, open == 1 ? " has" : "s have",
		        open == 1 ? "has" : "have");
	if (folded)
		message("%" PRIu64
		        " call%s in the time of those around: a stack has %u calls at most, and there are a million stacks "
		        "at most",
		        folded, folded == 1 ? " is" : "s are", CALL_STACKS_LEVELS_MAX);
	return status;
}

static int export_calls(struct exporting *exporting, struct recording_reader *reader)
{
	struct output *output = &exporting->invocation.output;
	const struct sink_maker maker = {.make = make_sink, .owner = exporting};
	struct replay_sessions sessions;
	const struct filter_left left = {.call = on_left, .owner = exporting};
	struct error err;
	int status, written = STATUS_DONE;

	if (exporting->weight != PROFILE_WALL) {
		message("%s is a recording; %s is for profiles", exporting->path, weight_options[exporting->weight]);
		return STATUS_USAGE;
	}
	exporting->waits = waits_new();
	replay_open(&sessions, exporting->path, &exporting->invocation.options, output);
	sessions.left = &left;
	sessions.maker = &maker;
	sessions.from = exporting->from;
	sessions.to = exporting->until;
	sessions.begins = exporting->format == &export_otlp ? export_spans_begin : NULL;
	status = replay_all(&sessions, reader, &err);
	/* Ctrl-C has been taken: what is open has still to be given. */
	if (sessions.run.stop_reason)
		exporting->spans.run.wait = false;
	replay_close(&sessions);
	if (exporting->stacks)
		written = write_stacks(exporting);
	output_flush(output);
	if (status < 0)
		message("%s", err.text);
	return status < 0 && status != -ENODATA ? STATUS_FAILED : written;
}

static int export_run(void *self)
{
	struct exporting *exporting = self;
	int signals = invocation_signals(&exporting->invocation), status;
	struct profile *profile = NULL;
	struct recording_reader *reader;
	struct error err;
	bool cut;

	if (signals < 0)
		return STATUS_FAILED;
	if (replay_overwrites(&exporting->invocation.output, exporting->path))
		return STATUS_USAGE;
	if (recording_open(&reader, exporting->path, signals, &err) < 0) {
		message("%s", err.text);
		return STATUS_FAILED;
	}
	options_settle(&exporting->invocation.options, exporting->invocation.output.fd);
	status = profile_take(&profile, reader, &err);
	cut = status < 0;
	if (cut)
		message("%s", err.text);
	if (profile) {
		status = check_profile(exporting);
		if (!status && exporting->format->page)
			html_write_profile(profile, exporting->path, cut ? err.text : NULL, &exporting->invocation.output.buffer);
		else if (!status)
			status = write_profile(exporting, profile, NULL);
		if (!status && cut && err.code != -ENODATA)
			status = STATUS_FAILED;
	} else if (status == 0 && exporting->format->page) {
		status = export_html(&exporting->invocation, reader,
		                     &(struct export_html){exporting->path, (uint32_t)exporting->calls_max, exporting->from,
		                                           exporting->until});
	} else if (status == 0) {
		status = export_spans_open(&exporting->spans, &exporting->invocation.options, &exporting->invocation.output,
		                           signals);
		if (!status)
			status = export_spans_close(&exporting->spans, signals, export_calls(exporting, reader));
	} else {
		status = STATUS_FAILED;
	}
	profile_free(profile);
	recording_close(reader);
	return status;
}

static void export_free(void *self)
{
	call_stacks_free(((struct exporting *)self)->stacks);
	waits_free(((struct exporting *)self)->waits);
}

const struct subcommand cmd_export = {
	.name = "export",
	.arguments = "FILE --to FORMAT",
	.summary = "recordings and profiles for other tools",
	.usage = "FILE --to FORMAT",
	.description =
		"Write what `rbprobe record` or `rbprobe profile -o FILE` has kept in a format of other programs.\vFormats: "
		"html (a page for any browser, which needs no network: flame graph, timeline, methods, slowest calls); "
		"chrome (JSON of trace events, also for Perfetto's UI), perfetto (its own format) and otlp (OpenTelemetry's "
		"protocol, "
		"as a file or to --otlp), of recordings alone; "
		"pprof; "
		"collapsed (flamegraph.pl; its numbers are microseconds, or bytes or objects); speedscope (its JSON); callgrind "
		"(kcachegrind and "
		"callgrind_annotate); svg (a flame graph by itself). Of a recording, the last five have the own time of its "
		"calls by stack. FILE may be - for standard input.",
	.pids = PIDS_NONE,
	.options = (const struct argp *const[]){&options_export, &options_one_file, &options_otlp, &options_filter, &options_talk,
                                                NULL},
	.positional = &options_export,
	.words = WORDS_FILES,
	.needs = {[LIBRARY_ZSTD] = true},
	.size = sizeof(struct exporting),
	.init = export_init,
	.check = export_check,
	.run = export_run,
	.free = export_free,
};
