/*
 * rbprobe heap report: what is in heap dumps, and what became more from one to the next. Reads files only; no process
 * is involved.
 */

#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/commands/heap_verbs.h"
#include "tracer/heap/heap_report.h"

#include <errno.h>
#include <string.h>

#define TOP_DEFAULT 10
#define TOP_MAX 100000

enum long_option { OPTION_TOP = 0x100, OPTION_SORT };

struct arguments {
	struct invocation invocation;
	struct heap_report report;
	uint64_t top;
};

/* Says what is wrong; the parser returns it. */
#define WRONG(...) (message(__VA_ARGS__), EINVAL)

static int parse_sort(struct arguments *arguments, const char *text)
{
	static const char *const orders[] = {[HEAP_BY_BYTES] = "bytes", [HEAP_BY_OBJECTS] = "objects", NULL};
	unsigned chosen;

	if (options_choice("--sort", text, orders, &chosen))
		return EINVAL;
	arguments->report.order = (enum heap_order)chosen;
	return 0;
}

static int parse_path(struct arguments *arguments, const char *path)
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
	struct arguments *arguments = state->input;

	switch (key) {
	case OPTION_TOP:
		return options_whole_number("--top", argument, 1, TOP_MAX, &arguments->top);
	case OPTION_SORT:
		return parse_sort(arguments, argument);
	case ARGP_KEY_ARG:
		return parse_path(arguments, argument);
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option report_list[] = {
	{"top", OPTION_TOP, "N", 0, "Rows of each table (default 10)", 1},
	{"sort", OPTION_SORT, "bytes|objects", 0, "What comes first (default bytes)", 1},
	{0},
};

static const struct argp options_report = {.options = report_list, .parser = parse_report};

static void warn(const struct heap_reading *reading)
{
	uint64_t bad = reading->bad_lines - reading->cut;

	if (bad)
		message("%s: %llu of its %llu lines %s no object of a dump and %s left out; the first is line %llu",
		        reading->name, (unsigned long long)bad, (unsigned long long)reading->lines, bad == 1 ? "is" : "are",
		        bad == 1 ? "was" : "were", (unsigned long long)reading->first_bad_line);
	if (reading->too_large)
		message("%s: %llu of those %s a size that no process can have", reading->name,
		        (unsigned long long)reading->too_large, reading->too_large == 1 ? "has" : "have");
	if (reading->cut)
		message("%s: the dump ends in the middle of a line; only what is before that is reported", reading->name);
	if (reading->damage.code)
		message("%s; only what is before that is reported", reading->damage.text);
}

static void report_init(void *self)
{
	((struct arguments *)self)->top = TOP_DEFAULT;
}

static int report_check(void *self)
{
	if (((struct arguments *)self)->report.dump_count)
		return 0;
	message("heap report needs a dump: a file, or - for standard input");
	return STATUS_USAGE;
}

static int report_run(void *self)
{
	struct arguments *arguments = self;
	struct heap_report *report = &arguments->report;
	const struct heap_format *format = arguments->invocation.json ? &heap_format_json : &heap_format_text;
	struct error err;

	report->top = (uint32_t)arguments->top;
	if (heap_report_make(report, &err) < 0) {
		message("%s", err.text);
		return STATUS_FAILED;
	}
	for (uint32_t i = 0; i < report->dump_count; i++)
		warn(&report->dumps[i].reading);
	if (report->dump_count == 2 && report->stayed == 0)
		message("the dumps have no object in common; are they of the same process?");
	format->write(report, &arguments->invocation.output);
	return STATUS_DONE;
}

static void report_free(void *self)
{
	heap_report_free(&((struct arguments *)self)->report);
}

const struct subcommand heap_report = {
	.name = "report",
	.arguments = "FILE [FILE [FILE]]",
	.summary = "what is in dumps, and what leaks",
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
	.pids = PIDS_NONE,
	.format = "Tables for people, or one JSON object",
	.options = (const struct argp *const[]){&options_report, NULL},
	.positional = &options_report,
	.words = WORDS_FILES,
	.size = sizeof(struct arguments),
	.init = report_init,
	.check = report_check,
	.run = report_run,
	.free = report_free,
};
