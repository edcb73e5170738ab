/*
 * rbprobe heap report: what is in heap dumps, what became more from one to the next, and who holds it. Reads files only; no
 * process is involved.
 */

#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/commands/heap_report_options.h"
#include "tracer/commands/heap_verbs.h"

#include <errno.h>
#include <string.h>

enum long_option { OPTION_RETAINERS = 0x200, OPTION_DOMINATORS, OPTION_LEAK, OPTION_SHAPES };

/* Says what is wrong; the parser returns it. */
#define WRONG(...) (message(__VA_ARGS__), EINVAL)

static int parse_path(struct heap_report_arguments *arguments, const char *path)
{
	struct heap_report *report = &arguments->report;

	if (report->dump_count == HEAP_DUMPS_MAX)
		return WRONG("heap report takes up to %d dumps, not also \"%s\"", HEAP_DUMPS_MAX, path);
	for (uint32_t i = 0; i < report->dump_count; i++)
		if (strcmp(path, "-") == 0 && strcmp(report->paths[i], "-") == 0)
			return WRONG("standard input can be read only once");
	report->paths[report->dump_count++] = path;
	return 0;
}

static error_t parse_report(int key, char *argument, struct argp_state *state)
{
	struct heap_report_arguments *arguments = state->input;

	switch (key) {
	case OPTION_RETAINERS:
		if (!*argument)
			return WRONG("--retainers takes a class, or an address as 0x...");
		arguments->report.retainers = argument;
		return 0;
	case OPTION_DOMINATORS:
		arguments->report.dominators = true;
		return 0;
	case OPTION_LEAK:
		arguments->report.leaks = true;
		return 0;
	case OPTION_SHAPES:
		arguments->report.wants_shapes = true;
		return 0;
	case ARGP_KEY_ARG:
		return parse_path(arguments, argument);
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option report_list[] = {
	{"retainers", OPTION_RETAINERS, "CLASS|ADDRESS", 0,
         "Who holds the objects of this class, or this object: the shortest paths from the roots", 2},
	{"dominators", OPTION_DOMINATORS, NULL, 0, "What classes and objects retain, and the dominator tree", 2},
	{"shapes", OPTION_SHAPES, NULL, 0,
         "Of the last dump: classes with several object shapes, and the shapes with most edges and variables", 2},
	{"leak", OPTION_LEAK, NULL, 0, "Of two or three dumps: who holds what is new, or what leaks", 2},
	{0},
};

static const struct argp options_report = {.options = report_list, .parser = parse_report};

static int report_check(void *self)
{
	const struct heap_report *report = &((struct heap_report_arguments *)self)->report;

	if (!report->dump_count)
		message("heap report needs a dump: a file, or - for standard input");
	else if (report->leaks && report->dump_count == 1)
		message("--leak compares two or three dumps; `rbprobe heap leak -p PID` takes three");
	else
		return 0;
	return STATUS_USAGE;
}

static int report_run(void *self)
{
	struct heap_report_arguments *arguments = self;
	struct error err;

	for (uint32_t i = 0; i < arguments->report.dump_count; i++)
		if (output_is_file(&arguments->invocation.output, arguments->report.paths[i])) {
			message("%s is the dump; give the report another name", arguments->report.paths[i]);
			return STATUS_USAGE;
		}
	heap_report_arguments_settle(arguments);
	if (heap_report_make(&arguments->report, &err) < 0) {
		message("%s", err.text);
		return STATUS_FAILED;
	}
	heap_report_show(arguments);
	return STATUS_DONE;
}

const struct subcommand heap_report = {
	.name = "report",
	.arguments = "FILE [FILE [FILE]]",
	.summary = "what is in dumps, what leaks, and who holds it",
	.usage = "FILE [FILE [FILE]]",
	.description =
		"Show what is in a heap dump: JSON lines as ObjectSpace.dump_all or `rbprobe heap dump` write them, also packed "
		"by gzip or zstd. \"-\" is standard input. With two dumps of the same process: what grew, and which objects are "
		"new. With three: the objects that are in the second and the third, but not in the first. They are what "
		"leaks.\v"
		"Bytes are Ruby's memsize. Objects are recognised by their addresses: do not compact the heap between dumps that "
		"are to be compared.\n\n"
		"Exit status: 0 done; 1 a file cannot be read or is no heap dump, or the output could not be written; 2 wrong "
		"usage.",
	.report = true,
	.pids = PIDS_NONE,
	.options = (const struct argp *const[]){&options_heap_report, &options_report, NULL},
	.positional = &options_report,
	.words = WORDS_FILES,
	.needs = {[LIBRARY_SIMDJSON] = true, [LIBRARY_JANSSON] = true},
	.size = sizeof(struct heap_report_arguments),
	.init = heap_report_arguments_init,
	.check = report_check,
	.run = report_run,
	.free = heap_report_arguments_free,
};
