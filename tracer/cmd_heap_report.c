/* rbprobe heap report: what is in heap dumps, and what became more from one to the next. Reads files only; no process is involved. */

#include "exit_status.h"
#include "heap_report.h"
#include "heap_verbs.h"
#include "message.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>

#define TOP_DEFAULT 10
#define TOP_MAX 100000

enum long_option { OPTION_TOP = 0x100, OPTION_SORT, OPTION_FORMAT };

struct arguments {
	struct heap_report report;
	const struct heap_format *format;
};

static const struct heap_format *const formats[] = {&heap_format_text, &heap_format_json};

static const char *const orders[] = {[HEAP_BY_BYTES] = "bytes", [HEAP_BY_OBJECTS] = "objects"};

/* Says what is wrong; the parser returns it. */
#define WRONG(...) (message(__VA_ARGS__), EINVAL)

static int parse_top(struct arguments *arguments, const char *text)
{
	char *end;
	unsigned long number;

	errno = 0;
	number = strtoul(text, &end, 10);
	if (errno || end == text || *end || strchr(text, '-') || number < 1 || number > TOP_MAX)
		return WRONG("--top takes a whole number from 1 to %d, not \"%s\"", TOP_MAX, text);
	arguments->report.top = (uint32_t)number;
	return 0;
}

static int parse_sort(struct arguments *arguments, const char *text)
{
	for (unsigned i = 0; i < sizeof(orders) / sizeof(*orders); i++)
		if (strcmp(orders[i], text) == 0) {
			arguments->report.order = (enum heap_order)i;
			return 0;
		}
	return WRONG("--sort takes bytes or objects, not \"%s\"", text);
}

static int parse_format(struct arguments *arguments, const char *text)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
		if (strcmp(formats[i]->name, text) == 0) {
			arguments->format = formats[i];
			return 0;
		}
	return WRONG("--format takes text or json, not \"%s\"", text);
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

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct arguments *arguments = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->err_stream = NULL;
		return 0;
	case OPTION_TOP:
		return parse_top(arguments, argument);
	case OPTION_SORT:
		return parse_sort(arguments, argument);
	case OPTION_FORMAT:
		return parse_format(arguments, argument);
	case ARGP_KEY_ARG:
		return parse_path(arguments, argument);
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option options[] = {
	{"top", OPTION_TOP, "N", 0, "Rows of each table (default 10)", 0},
	{"sort", OPTION_SORT, "bytes|objects", 0, "What comes first (default bytes)", 0},
	{"format", OPTION_FORMAT, "text|json", 0, "Tables for people, or one JSON object", 0},
	{0},
};

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "FILE [FILE [FILE]]",
	.doc = "Show what is in a heap dump: JSON lines as ObjectSpace.dump_all or `rbprobe heap dump` write them, also packed "
	       "by gzip or "
	       "zstd. \"-\" is standard input. With two dumps of the same process: what grew, and which objects are new. With "
	       "three: "
	       "which objects of the second stayed until the third and were not in the first, which are what leaks.\v"
	       "Bytes are Ruby's memsize. Objects are found again by their addresses: do not compact the heap between dumps that "
	       "are "
	       "to be compared.\n\n"
	       "Exit status: 0 done; 1 a file cannot be read or is no heap dump, or the output could not be written; 2 wrong "
	       "usage.",
};

static void warn(const struct heap_reading *reading)
{
	uint64_t bad = reading->bad_lines - reading->cut;

	if (bad)
		message("%s: %llu of its %llu lines %s no object of a dump and %s left out; the first is line %llu",
		        reading->name, (unsigned long long)bad, (unsigned long long)reading->lines, bad == 1 ? "is" : "are",
		        bad == 1 ? "was" : "were", (unsigned long long)reading->first_bad_line);
	if (reading->cut)
		message("%s: the dump ends in the middle of a line; only what is before that is reported", reading->name);
	if (reading->damage.code)
		message("%s; only what is before that is reported", reading->damage.text);
}

static int write_report(struct arguments *arguments)
{
	struct heap_report *report = &arguments->report;
	struct output output;

	for (uint32_t i = 0; i < report->dump_count; i++)
		warn(&report->dumps[i].reading);
	if (report->dump_count == 2 && report->stayed == 0)
		message("the dumps have no object in common; are they of the same process?");
	output_open(&output, NULL, false, NULL);
	arguments->format->write(report, &output);
	if (output_close(&output) < 0) {
		message("%s", output.error.text);
		return STATUS_FAILED;
	}
	return STATUS_DONE;
}

static int report_run(int argc, char **argv)
{
	struct arguments arguments = {.report.top = TOP_DEFAULT, .format = &heap_format_text};
	struct error err;
	int status;

	argp_err_exit_status = STATUS_USAGE;
	if (argp_parse(&argp, argc, argv, 0, NULL, &arguments) != 0)
		return STATUS_USAGE;
	if (arguments.report.dump_count == 0) {
		message("heap report needs a dump: a file, or - for standard input");
		return STATUS_USAGE;
	}
	if (heap_report_make(&arguments.report, &err) == 0) {
		status = write_report(&arguments);
	} else {
		message("%s", err.text);
		status = STATUS_FAILED;
	}
	heap_report_free(&arguments.report);
	return status;
}

const struct subcommand heap_report = {
	.name = "report",
	.arguments = "FILE [FILE [FILE]]",
	.summary = "what is in dumps, and what leaks",
	.run = report_run,
};
