/* rbprobe report: add up what `rbprobe record` has kept, or compare two recordings. Reads files only. */

#include "proto/fnv.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/library.h"
#include "tracer/base/message.h"
#include "tracer/cli/subcommand.h"
#include "tracer/commands/profile_show.h"
#include "tracer/commands/replay_session.h"
#include "tracer/commands/report_diff.h"
#include "tracer/commands/report_tui.h"
#include "tracer/commands/stat_report.h"
#include "tracer/profile/profile_text.h"
#include "tracer/recording/slowest.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define SLOWEST_MAX 10000u

enum long_option {
	OPTION_TREE = 0x200,
	OPTION_BY,
	OPTION_SORT,
	OPTION_TOP,
	OPTION_HISTOGRAM,
	OPTION_SLOWEST,
	OPTION_CALLERS,
	OPTION_CALLEES,
	OPTION_FROM,
	OPTION_TO,
	OPTION_TIMELINE,
	OPTION_TUI,
	OPTION_WALL,
	OPTION_CPU,
	OPTION_NO_IDLE,
	OPTION_THREADS,
	OPTION_NO_TREE,
};

/* The selectors of a recording. */
struct asked {
	bool known;
	uint64_t sum; /* of their hashes */
};

struct report {
	struct invocation invocation;
	const char *paths[2]; /* the second one NULL: there is one */
	struct stat_view view;
	enum figures_by by;
	bool sort_given;
	bool tui;
	struct selector_list callers, callees;
	uint64_t slowest_count;
	struct slowest *slowest;
	bool timeline; /* what threads did, in the place of calls */
	struct waits *waits;
	struct replay_when from, to;
	struct figures *figures[2];
	struct asked asked[2];
	struct profile *profile; /* the file is one, and has no calls */
	struct profile_style style;
	const char *weighed; /* the last option that says by what a profile is shown; NULL: none does */
	const char *styled;  /* the last one that is for a profile; NULL: none is */
	bool read;           /* something of them, at least */
};

static int parse_by(const char *word, struct report *report)
{
	static const char *const words[] = {"method", "thread", NULL};
	unsigned chosen;

	if (options_choice("--by", word, words, &chosen))
		return EINVAL;
	report->by = chosen ? FIGURES_BY_THREAD : FIGURES_BY_METHOD;
	report->view.by = report->view.by_title = chosen ? word : NULL;
	return 0;
}

static int parse_around(const char *option, const char *text, struct selector_list *list)
{
	struct error err;

	if (selector_parse(list, text, &err) < 0) {
		message("%s: %s", option, err.text);
		return EINVAL;
	}
	if (!list->items[list->count - 1].expression_count && !selector_line(&list->items[list->count - 1]))
		return 0;
	message("%s takes a method, without expressions, not \"%s\"", option, text);
	return EINVAL;
}

static int parse_file(char *argument, struct report *report)
{
	size_t at = report->paths[0] ? 1 : 0;

	if (report->paths[at]) {
		message("report takes one recording, or two to compare, not also \"%s\"; methods are chosen with -m", argument);
		return EINVAL;
	}
	report->paths[at] = argument;
	return 0;
}

static int weigh(struct report *report, enum profile_weight weight, const char *option)
{
	report->style.weight = weight;
	report->weighed = report->styled = option;
	return 0;
}

static int switch_on(struct report *report, bool *what, const char *option)
{
	*what = true;
	report->styled = option;
	return 0;
}

static error_t parse_report(int key, char *argument, struct argp_state *state)
{
	unsigned column;
	struct report *report = state->input;
	struct options *options = &report->invocation.options;

	switch (key) {
	case OPTION_TREE:
		report->view.tree = true;
		return 0;
	case OPTION_TUI:
		report->tui = true;
		return 0;
	case OPTION_BY:
		return parse_by(argument, report);
	case OPTION_SORT:
		report->view.sort = argument;
		report->sort_given = true;
		return options_choice("--sort", argument, stat_columns_of_recording(), &column);
	case OPTION_TOP:
		return options_whole_number("--top", argument, 1, UINT32_MAX, &report->view.top);
	case OPTION_HISTOGRAM:
		report->view.histogram = true;
		return 0;
	case OPTION_SLOWEST:
		return options_whole_number("--slowest", argument, 1, SLOWEST_MAX, &report->slowest_count);
	case OPTION_CALLERS:
		return parse_around("--callers", argument, &report->callers);
	case OPTION_CALLEES:
		return parse_around("--callees", argument, &report->callees);
	case OPTION_TIMELINE:
		report->timeline = true;
		return 0;
	case OPTION_WALL:
		return weigh(report, PROFILE_WALL, "--wall");
	case OPTION_CPU:
		return weigh(report, PROFILE_CPU, "--cpu");
	case OPTION_NO_IDLE:
		return weigh(report, PROFILE_BUSY, "--no-idle");
	case OPTION_THREADS:
		return switch_on(report, &report->style.threads, "--threads");
	case OPTION_NO_TREE:
		return switch_on(report, &report->style.no_tree, "--no-tree");
	case OPTION_FROM:
		return replay_when_parse("--from", argument, &report->from);
	case OPTION_TO:
		return replay_when_parse("--to", argument, &report->to);
	case 'm':
		return options_selector(options, argument);
	case ARGP_KEY_ARG:
		return parse_file(argument, report);
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option report_list[] = {
	{"by", OPTION_BY, "method|thread", 0, "A row for each method (default), or for each thread of each method", 3},
	{"tree", OPTION_TREE, NULL, 0, "Calls by the calls around them, as a tree", 3},
	{"tui", OPTION_TUI, NULL, 0, "The same tree on the whole terminal, to unfold and search; ? shows the keys", 3},
	{"callers", OPTION_CALLERS, "SELECTOR", 0, "Who calls such a method: its calls by the recorded call directly around them",
         3},
	{"callees", OPTION_CALLEES, "SELECTOR", 0, "What such a method calls: the calls directly inside its own", 3},
	{"slowest", OPTION_SLOWEST, "N", 0, "The N calls that took longest, with their arguments, in the place of a table", 3},
	{"timeline", OPTION_TIMELINE, NULL, 0,
         "What each thread did, of a recording with --timeline: how long it ran, waited for the GVL, did without", 3},
	{"sort", OPTION_SORT, "calls|errors|total|self|mean|min|p50|p90|p99|p99.9|max|method", 0,
         "Which rows come first: those with the most in this column (default total)", 4},
	{"top", OPTION_TOP, "N", 0, "Show so many rows", 4},
	{"histogram", OPTION_HISTOGRAM, NULL, 0, "Draw how the times of each method are spread", 4},
	{NULL, 0, NULL, 0, "Of a profile, as `rbprobe profile` has them:", 5},
	{"wall", OPTION_WALL, NULL, 0, "By time, be a thread running or waiting (default)", 5},
	{"cpu", OPTION_CPU, NULL, 0, "By the CPU time that threads used", 5},
	{"no-idle", OPTION_NO_IDLE, NULL, 0, "By time, without that for which threads waited", 5},
	{"threads", OPTION_THREADS, NULL, 0, "A tree for each thread", 5},
	{"no-tree", OPTION_NO_TREE, NULL, 0, "Show the tables alone", 5},
	{"methods", 'm', "SELECTOR", 0, "Only calls of such methods", 10},
	{"from", OPTION_FROM, "TIME", 0, "Only calls that begin at this time or later, as `rbprobe replay` takes it", 10},
	{"to", OPTION_TO, "TIME", 0, "Only calls that begin before this time", 10},
	{0},
};

static const struct argp options_report = {.options = report_list, .parser = parse_report};

static void report_init(void *self)
{
	((struct report *)self)->view.sort = "total";
}

static bool is_around(const struct report *report)
{
	return report->callers.count || report->callees.count;
}

static const char *wrong_usage(const struct report *report)
{
	bool compares = report->paths[1] != NULL;

	if (!report->paths[0])
		return "which recording? Give the file of `rbprobe record -o FILE`, or two to compare";
	if (compares && (report->view.tree || report->slowest_count || report->view.histogram || report->sort_given))
		return "two recordings are compared by method: --tree, --slowest, --histogram and --sort are for one";
	if (report->tui && (compares || report->timeline || is_around(report) || report->view.by || report->view.tree ||
	                    report->slowest_count || report->view.histogram || report->view.top || report->sort_given ||
	                    report->style.threads || report->style.no_tree || report->invocation.json))
		return "--tui shows the tree of one file, and keys sort it: it goes without the options for other rows, and "
		       "without "
		       "--format json";
	if (compares && is_around(report))
		return "--callers and --callees are of one recording";
	if (is_around(report) && (report->view.by || report->view.tree || report->slowest_count))
		return "--callers and --callees have rows of their own, and go with none of --by, --tree and --slowest";
	if (report->view.tree && (report->view.by || report->view.histogram))
		return "--tree has rows of its own, and goes with neither --by nor --histogram";
	if ((report->view.tree || report->tui || is_around(report)) &&
	    conditions_at_end(&report->invocation.options.trace.conditions))
		return "--tree, --tui, --callers and --callees add up calls by the calls around them: they go with neither "
		       "--slow nor "
		       "--raised, which are about single calls";
	if (report->slowest_count && (report->view.tree || report->view.by || report->view.histogram || report->view.top))
		return "--slowest shows calls, and no table: it goes without --tree, --by, --histogram and --top";
	if (report->timeline && (compares || report->slowest_count || report->view.tree || report->view.by || is_around(report) ||
	                         report->view.histogram || report->view.top || report->sort_given))
		return "--timeline shows what threads did, and no calls: it is of one recording, and goes with --format alone";
	return options_check_filter(&report->invocation.options);
}

static int report_check(void *self)
{
	struct report *report = self;
	const char *wrong = wrong_usage(report);
	struct error err;

	if (wrong) {
		message("%s", wrong);
		return STATUS_USAGE;
	}
	if (replay_when_is_empty(&report->from, "--to", &report->to))
		return STATUS_USAGE;
	if (report->tui && library_require(LIBRARY_NCURSES, "--tui", &err) < 0) {
		message("%s", err.text);
		return STATUS_FAILED;
	}
	if (report->view.tree || report->tui)
		report->by = FIGURES_BY_PATH;
	if (is_around(report)) {
		report->by = FIGURES_BY_CALLER;
		report->view.by = report->view.by_title = "caller";
		report->view.by_none = "(no recorded call)";
	}
	return 0;
}

struct making {
	struct figures *figures;
	const struct options *options;
};

static struct sink *make_sink(void *owner, struct output *output)
{
	const struct making *making = owner;

	return figures_sink(making->figures, output, &making->options->style);
}

/* What profile_take() said. 0, or an exit status after a line on stderr. */
static int profile_taken(struct report *report, int status, const struct error *err)
{
	const struct options *options = &report->invocation.options;

	if (status < 0)
		message("%s", err->text);
	if (status < 0 && status != -ENODATA)
		return STATUS_FAILED;
	if (!report->profile || report->paths[1]) {
		message("profiles are not compared");
		return STATUS_USAGE;
	}
	if (report->view.tree || (report->by != FIGURES_BY_METHOD && !report->tui) || report->sort_given ||
	    report->view.histogram || report->slowest_count || report->timeline || options->selectors.count ||
	    conditions_any(&options->trace.conditions) || report->from.kind || report->to.kind) {
		message("%s is a profile, whose report takes --top, --format and --tui, and what --help lists for profiles",
		        report->paths[0]);
		return STATUS_USAGE;
	}
	if (report->weighed && report->profile->of_objects) {
		message("%s is a profile of objects, and has no time for %s", report->paths[0], report->weighed);
		return STATUS_USAGE;
	}
	return 0;
}

/* In whatever order. Those of tracers have no text, and are all one here; of files that were appended the first one counts. */
static void note_selectors(void *owner, const struct recording_item *item)
{
	struct asked *asked = owner;

	if (item->part != RECORDING_HEAD || asked->known)
		return;
	asked->known = true;
	for (uint32_t i = 0; i < item->head.selector_count; i++)
		asked->sum += fnv64_add(FNV64_BEGIN, item->head.selectors[i]);
}

/* 0, or an exit status after a line on stderr. */
static int add_up(struct report *report, size_t at, int signals)
{
	struct options *options = &report->invocation.options;
	struct making making = {report->figures[at], options};
	const struct sink_maker maker = {.make = make_sink, .owner = &making};
	/* What is not shown may have held the GVL all the same. */
	const struct filter_left left = {.call = waits_call_left, .owner = report->waits};
	struct replay_sessions sessions;
	struct recording_reader *reader;
	struct error err;
	int status;

	if (recording_open(&reader, report->paths[at], signals, &err) < 0) {
		message("%s", err.text);
		return STATUS_FAILED;
	}
	status = profile_take(at ? NULL : &report->profile, reader, &err);
	if (status != 0) {
		recording_close(reader);
		return profile_taken(report, status, &err);
	}
	if (report->styled) {
		message("%s is a recording; %s is for profiles", report->paths[at], report->styled);
		recording_close(reader);
		return STATUS_USAGE;
	}
	replay_open(&sessions, report->paths[at], options, &report->invocation.output);
	sessions.maker = &maker;
	sessions.left = report->slowest ? &left : NULL;
	sessions.from = report->from;
	sessions.to = report->to;
	sessions.part = report->paths[1] ? note_selectors : NULL;
	sessions.part_owner = &report->asked[at];
	status = replay_all(&sessions, reader, &err);
	report->read = report->read || status == 0 || sessions.run.sink;
	replay_close(&sessions);
	recording_close(reader);
	if (status < 0)
		message("%s", err.text);
	if (figures_left(report->figures[at]))
		message("%" PRIu64 " calls are in no row: the table would take more than %llu MiB; choose methods with -m",
		        figures_left(report->figures[at]), FIGURES_MEMORY_MAX >> 20);
	return status < 0 && status != -ENODATA ? STATUS_FAILED : STATUS_DONE;
}

static void show_table(const struct report *report, struct buffer *to)
{
	struct stat_table table = figures_table(report->figures[0]);

	if (report->invocation.json)
		stat_report_json(to, &table, &report->view, 0, NULL);
	else
		stat_report_text(to, &table, &report->view, 0);
	if (!table.count && is_around(report) && !report->invocation.options.quiet)
		message("%s: nothing that was recorded has such calls directly around it or inside; `rbprobe report` lists the "
		        "methods by their names",
		        report->paths[0]);
	stat_table_free(&table);
}

static enum profile_weight weight_of(const struct report *report)
{
	if (report->weighed || !report->profile)
		return report->style.weight;
	return profile_weight_usual(report->profile);
}

static void show_profile(const struct report *report, struct buffer *to)
{
	struct profile_style style = report->style;

	style.top = report->view.top ? (uint32_t)report->view.top : PROFILE_TOP_DEFAULT;
	style.width = report->invocation.output.width;
	style.weight = weight_of(report);
	if (report->invocation.json)
		profile_json(report->profile, &style, to);
	else
		profile_text(report->profile, &style, to);
}

static void show(struct report *report)
{
	struct buffer *to = &report->invocation.output.buffer;
	const struct report_diff diff = {report->figures[0], report->figures[1], report->view.top};

	report->view.width = report->invocation.output.width;
	if (report->profile)
		show_profile(report, to);
	else if (report->timeline)
		waits_table(report->waits, report->invocation.json, to);
	else if (report->slowest)
		slowest_show(report->slowest, to);
	else if (!report->figures[1])
		show_table(report, to);
	else if (report->invocation.json)
		report_diff_json(to, &diff);
	else
		report_diff_text(to, &diff);
}

static void say_of_threads(const struct report *report)
{
	uint64_t lost = waits_lost_count(report->waits), left_out = waits_left_out(report->waits);

	if (report->timeline && !report->profile && !waits_any(report->waits))
		message("%s does not have what threads did; `rbprobe record --timeline` keeps it", report->paths[0]);
	if (lost)
		message("%" PRIu64 " changes of threads' states were lost: what they did around these is not counted", lost);
	if (left_out)
		message("%" PRIu64 " stretches of time are not looked at: they would take more than %llu MiB", left_out,
		        WAITS_MEMORY_MAX >> 20);
}

static void say_of_selectors(const struct report *report)
{
	if (report->paths[1] && !report->invocation.options.quiet && report->asked[0].sum != report->asked[1].sum)
		message("%s and %s were recorded with other selectors, which `rbprobe replay --info` shows: a method that is new "
		        "or gone may only not have been recorded",
		        report->paths[0], report->paths[1]);
}

static int report_run(void *self)
{
	struct report *report = self;
	int signals = invocation_signals(&report->invocation), status = STATUS_DONE;

	if (signals < 0)
		return STATUS_FAILED;
	for (size_t i = 0; i < 2 && report->paths[i]; i++)
		if (replay_overwrites(&report->invocation.output, report->paths[i]))
			return STATUS_USAGE;
	options_settle(&report->invocation.options, report->invocation.output.fd);
	if (report->slowest_count || report->timeline)
		report->waits = waits_new();
	if (report->slowest_count)
		report->slowest = slowest_new((uint32_t)report->slowest_count, report->invocation.json ? slowest_json : NULL,
		                              report->waits);
	for (size_t i = 0; i < 2 && report->paths[i] && status == STATUS_DONE; i++) {
		report->figures[i] = figures_new(report->by, report->slowest);
		figures_follow(report->figures[i], report->waits);
		figures_choose(report->figures[i], &(struct figures_choice){report->callers.items, report->callees.items,
		                                                            report->callers.count, report->callees.count});
		status = add_up(report, i, signals);
	}
	/* Of a damaged file there is what came before the damage; but two are not compared then. */
	if (report->tui && (status == STATUS_DONE || report->read))
		status = report_tui(report->paths[0], report->profile, weight_of(report), report->figures[0], signals);
	else if (status == STATUS_DONE || (report->read && !report->paths[1]))
		show(report);
	if (report->waits && status == STATUS_DONE)
		say_of_threads(report);
	if (status == STATUS_DONE)
		say_of_selectors(report);
	return status;
}

static void report_free(void *self)
{
	struct report *report = self;

	figures_free(report->figures[0]);
	figures_free(report->figures[1]);
	slowest_free(report->slowest);
	waits_free(report->waits);
	selector_list_free(&report->callers);
	selector_list_free(&report->callees);
	profile_free(report->profile);
}

const struct subcommand cmd_report = {
	.name = "report",
	.arguments = "FILE [FILE2]",
	.summary = "add up a recording or two; a profile",
	.usage = "FILE\nFILE FILE2",
	.description =
		"Add up the calls that `rbprobe record` has kept: how many, how long they took, by method, thread or path; or "
		"which took longest. With two recordings, show what is different in the second one. A profile of `rbprobe "
		"profile "
		"-o` is shown as that command shows it. No process is involved. "
		"FILE may be - for standard input.",
	.pids = PIDS_NONE,
	.format = "A table, or one JSON object a line",
	.options = (const struct argp *const[]){&options_report, &options_one_file, &options_filter, &options_talk, NULL},
	.positional = &options_report,
	.words = WORDS_FILES,
	.needs = {[LIBRARY_ZSTD] = true},
	.report = true,
	.size = sizeof(struct report),
	.init = report_init,
	.check = report_check,
	.run = report_run,
	.free = report_free,
};
