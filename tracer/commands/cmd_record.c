/* rbprobe record: keep what `rbprobe trace` would show, for `rbprobe replay`. */

#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/base/output_name.h"
#include "tracer/base/signals.h"
#include "tracer/cli/hook_question.h"
#include "tracer/cli/subcommand.h"
#include "tracer/cli/tracer_set.h"
#include "tracer/commands/launched.h"
#include "tracer/commands/record_flight.h"
#include "tracer/commands/trace_help.h"
#include "tracer/commands/trace_loop.h"
#include "tracer/recording/recording_fit.h"
#include "tracer/recording/sink_record.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum long_option { OPTION_MAX_SIZE = 0x200, OPTION_ROTATE, OPTION_LAST, OPTION_UNTIL };

#define FILES_MAX 1000u
#define SELECTORS_SIZE_MAX (RECORDING_PART_MAX / 2) /* of their texts in the head */
#define MSGPACK_TEXT_HEADER 5u

struct record_run {
	struct invocation invocation;
	struct recording_head head;
	struct slice *texts; /* of the selectors */
	uint64_t files;      /* --rotate; 0: one */
	struct record_flight flight;
	struct record_manner manner;
};

static error_t parse_record(int key, char *argument, struct argp_state *state)
{
	struct record_run *record = state->input;

	switch (key) {
	case OPTION_MAX_SIZE:
		return options_size("--max-size", argument, &record->invocation.options.size_max);
	case OPTION_ROTATE:
		return options_whole_number("--rotate", argument, 2, FILES_MAX, &record->files);
	case OPTION_LAST:
		return record_flight_last(&record->flight, argument);
	case OPTION_UNTIL:
		return record_flight_until(&record->flight, argument);
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option record_list[] = {
	{"max-size", OPTION_MAX_SIZE, "SIZE", 0, "Stop when the file has so many bytes; K, M or G may follow the number", 6},
	{"rotate", OPTION_ROTATE, "N", 0,
         "With --max-size: go on in another file, and keep the N newest: FILE, before it FILE.1, before that FILE.2. With "
         "--last: go on after --until, and keep the N newest files",
         6},
	{"last", OPTION_LAST, "SEC|SIZE", 0,
         "Keep only the most recent part, in memory: so many seconds, or bytes (200M, 1G). It is written at the end "
         "(Ctrl-C), "
         "with SIGUSR1, or as --until says",
         6},
	{"until", OPTION_UNTIL, "CONDITION", 0,
         "With --last: write it, and end, when a call meets slow=MS, slow-cpu=MS, raised=CLASS, call=SELECTOR, thread=NAME, "
         "within=SELECTOR, outside=SELECTOR, depth=N and, at the end, if=EXPRESSION (true when the call begins): those that "
         "are given, with commas between. Or raise=CLASS, with --raise. May be given several times: any of them",
         6},
	{0},
};

static const struct argp options_record = {.options = record_list, .parser = parse_record};

static const char *check_rotation(const struct record_run *record)
{
	const struct options *options = &record->invocation.options;

	if (!record->files || record_flight_is_wanted(&record->flight))
		return NULL;
	if (!options->size_max)
		return "--rotate needs --max-size SIZE, which says when the next file begins, or --last";
	if (output_name_has_pid(options->output_path))
		return "--rotate is for one file of all processes, not for one each (%p)";
	return options->append ? "--rotate begins files, and cannot append to one (-a)" : NULL;
}

static const char *wrong_usage(struct record_run *record)
{
	const struct invocation *invocation = &record->invocation;
	const struct options *options = &invocation->options;
	const char *wrong;

	if (!options->output_path)
		return "record writes to a file; name it with -o FILE";
	if (!invocation->words && !options->pids.count)
		return "record needs -p PID (`rbprobe ps` lists the Ruby processes), or a command after --";
	if (invocation->words && (options->pids.count || options->children))
		return "record takes processes, or a command after -- that it starts, not both";
	wrong = check_rotation(record);
	return wrong ? wrong : record_flight_check(&record->flight, options);
}

static int record_check(void *self)
{
	struct record_run *record = self;
	struct options *options = &record->invocation.options;
	const char *wrong = wrong_usage(record);
	int status;

	if (wrong) {
		message("%s", wrong);
		return STATUS_USAGE;
	}
	tracers_want_events(options);
	tracers_drop_keys(options);
	options->trace.flags |= TRACE_ENDS;
	status = options_check_trace(options);
	wrong = status ? NULL : record_flight_select(&record->flight, &options->selectors);
	if (wrong) {
		message("%s", wrong);
		return STATUS_USAGE;
	}
	return status || !record->invocation.words ? status : launched_check(options);
}

/* Those of tracers are left out, as they may match nothing. */
static void describe(struct record_run *record)
{
	const struct options *options = &record->invocation.options;
	const struct selector_list *selectors = &options->selectors;
	size_t size = 0;

	record->texts = memory_zeroed((selectors->count + 1) * sizeof(*record->texts));
	record->head = (struct recording_head){.flags = options->trace.flags,
	                                       .marks = options->trace.marks.kinds,
	                                       .slow = options->style.running,
	                                       .several = options->style.many_pids,
	                                       .selectors = record->texts};
	for (uint32_t i = 0; i < selectors->count; i++) {
		const char *text = selectors->items[i].tracer ? "" : selectors->texts[i];

		size += strlen(text) + MSGPACK_TEXT_HEADER;
		if (size > SELECTORS_SIZE_MAX)
			break;
		record->texts[record->head.selector_count++] = (struct slice){text, strlen(text)};
	}
}

static struct sink *make_sink(void *owner, struct output *output)
{
	const struct record_run *record = owner;

	return sink_record_new(output, &record->invocation.options.style, &record->head, &record->manner);
}

/* Each file of a flight recorder. */
static void say_written(void *owner, const struct sink *sink, uint64_t span_ns, const char *reason)
{
	const struct record_run *record = owner;
	const char *name = sink->output->name;
	struct buffer size = {0};

	if (record->invocation.options.quiet)
		return;
	buffer_add_size(&size, sink_record_size(sink));
	if (sink_record_is_cut(sink)) {
		buffer_add_text(&size, " (more is not kept: --last with more than ");
		buffer_add_size(&size, record->manner.last.size);
		buffer_add_char(&size, ')');
	}
	message("%s has the last %.1f s, %.*s%s%s; `rbprobe replay %s` shows it", name, (double)span_ns / 1e9, (int)size.size,
	        size.bytes, reason ? ": " : "", reason ? reason : "", name);
	buffer_free(&size);
}

static void say_nothing(void *owner)
{
	/* In any case: a file was asked for, and there is none. */
	message("nothing was recorded in that time, and nothing is written to %s",
	        ((const struct record_run *)owner)->invocation.options.output_path);
}

static void say_up_to_now(void *owner)
{
	const struct options *options = &((const struct record_run *)owner)->invocation.options;

	if (!options->quiet)
		message("%s has all that was recorded up to now", options->output_path);
}

static void say_size(const struct sink *sink)
{
	const char *name = sink->output->name;
	uint32_t older = sink_record_older(sink);
	struct buffer size = {0};

	buffer_add_size(&size, sink_record_size(sink));
	if (older == 1)
		buffer_add_format(&size, " (what was before is in %s.1)", name);
	else if (older)
		buffer_add_format(&size, " (what was before is in %s.1 to .%" PRIu32 ")", name, older);
	if (!sink->output->own_fd)
		message("the recording has %.*s", (int)size.size, size.bytes);
	else if (output_is_regular(sink->output))
		message("%s has %.*s; `rbprobe replay %s%s` shows it", name, (int)size.size, size.bytes,
		        name[0] == '-' ? "./" : "", name);
	else
		message("%s got %.*s; it is no file that can be replayed", name, (int)size.size, size.bytes);
	buffer_free(&size);
}

static void end_sink(void *owner, struct sink *sink)
{
	const struct record_run *record = owner;
	const struct options *options = &record->invocation.options;

	sink_record_end(sink);
	if (record->manner.flight) {
		if (sink_record_waits(sink) && !options->quiet)
			message("what --until waits for did not happen");
		return;
	}
	if (sink->output->flushed && !sink->output->status && !options->quiet && !output_name_has_pid(options->output_path))
		say_size(sink);
}

/* A command that is started has the terminal for itself. */
static void choose_manner(struct record_run *record)
{
	struct options *options = &record->invocation.options;

	record->manner = (struct record_manner){
		.progress = !options->quiet && !record->invocation.words && !output_name_has_pid(options->output_path),
		.path = options->output_path,
		.rotate_size = options->size_max,
		.files = (uint32_t)record->files,
		.flight = record_flight_is_wanted(&record->flight),
		.last = record->flight.last,
		.triggers = &record->flight.triggers,
		.goes_on = record->files > 0,
		.written = say_written,
		.nothing = say_nothing,
		.up_to_now = say_up_to_now,
		.owner = record,
	};
	if (record->manner.flight && !record->files)
		record->manner.files = FLIGHT_FILES_DEFAULT;
	if (record->files)
		options->size_max = 0; /* it ends files, not the recording */
}

/* Bytes that the files have to which is appended, where each process has its own. */
static uint64_t size_of_each(const struct options *options)
{
	uint64_t sum = 0;

	for (size_t i = 0; options->append && i < options->pids.count; i++) {
		char *name = output_name_of(options->output_path, options->pids.items[i]);
		struct stat status;

		if (stat(name, &status) == 0 && S_ISREG(status.st_mode))
			sum += (uint64_t)status.st_size;
		free(name);
	}
	return sum;
}

static bool is_full(const struct record_run *record)
{
	const struct options *options = &record->invocation.options;
	uint64_t bytes =
		output_name_has_pid(options->output_path) ? size_of_each(options) : output_size(&record->invocation.output);
	struct buffer size = {0};

	if (!options->size_max || bytes < options->size_max)
		return false;
	buffer_add_size(&size, bytes);
	message("%s has %.*s already, as many bytes as --max-size allows, or more; name another file", options->output_path,
	        (int)size.size, size.bytes);
	buffer_free(&size);
	return true;
}

/* One that a recording can be in; and what is renamed must be a file. */
static int check_file(const struct record_run *record)
{
	const struct output *output = &record->invocation.output;
	const struct options *options = &record->invocation.options;
	struct error err;

	if (!output_name_has_pid(options->output_path) &&
	    recording_fit(output, options->output_path, options->append, &err) < 0) {
		message("%s", err.text);
		return STATUS_FAILED;
	}
	if (is_full(record))
		return STATUS_FAILED;
	if (invocation_refuses_terminal(&record->invocation, "a recording"))
		return STATUS_USAGE;
	if ((!record->files && !record_flight_is_wanted(&record->flight)) || output_is_regular(output))
		return 0;
	message("%s renames files, and %s is none", record_flight_is_wanted(&record->flight) ? "--last" : "--rotate",
	        output->name);
	return STATUS_USAGE;
}

static int record_run(void *self)
{
	struct record_run *record = self;
	struct invocation *invocation = &record->invocation;
	struct options *options = &invocation->options;
	struct output *output = &invocation->output;
	const struct sink_maker maker = {make_sink, end_sink, record, recording_fit};
	int signals = invocation_signals(invocation), status;
	struct error question = {0};

	if (signals < 0)
		return STATUS_FAILED;
	status = check_file(record);
	if (status)
		return status;
	choose_manner(record);
	signals_take_questions();
	options_settle(options, output->fd);
	describe(record);
	if (invocation->words)
		return launched_run(invocation, &maker, signals);
	status = trace_loop(options, output, &maker, signals, 0, hook_question_possible(options) ? &question : NULL);
	if (question.code && hook_question_ask(options, question.text, signals))
		status = trace_loop(options, output, &maker, signals, 0, NULL);
	return status;
}

static void record_free(void *self)
{
	struct record_run *record = self;

	free(record->texts);
	record_flight_free(&record->flight);
}

const struct subcommand cmd_record = {
	.name = "record",
	.arguments = "-p PID[,PID...] SELECTOR...",
	.summary = "keep method calls in a file, for later",
	.usage = "-p PID SELECTOR... -o FILE\nSELECTOR... -o FILE -- COMMAND [ARGUMENT...]",
	.description =
		"Record the method calls of running Ruby processes, or of a command from the first line of its program on, for "
		"`rbprobe replay`. It costs the processes what `rbprobe trace` costs. Whatever ends it, the file can be read up "
		"to "
		"then.\v" TRACE_HELP_SELECTORS TRACE_HELP_CONDITIONS TRACE_HELP_STATUS
		" With a command, where the trace ended well, " LAUNCHED_HELP_STATUS,
	.pids = PIDS_ANY,
	.children_itself = true,
	.file_each = true,
	.timeout = TRACE_HELP_TIMEOUT,
	.options = (const struct argp *const[]){&options_selectors, &options_tracers, &options_run, &options_file, &options_trace,
                                                &options_record, &options_measure, &options_stack, &options_conditions,
                                                &options_always, &options_events, &options_engine, NULL},
	.takes_words = true,
	.needs = {[LIBRARY_ZSTD] = true},
	.size = sizeof(struct record_run),
	.check = record_check,
	.run = record_run,
	.free = record_free,
};
