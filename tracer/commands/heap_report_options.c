/* Options of heap reports, and showing them. See heap_report_options.h. */

#include "tracer/commands/heap_report_options.h"

#include "tracer/base/message.h"

#include <errno.h>

#define TOP_DEFAULT 10
#define TOP_HTML 200
#define CLASSES_HTML 20 /* with paths */
#define TOP_MAX 100000

enum long_option { OPTION_TOP = 0x100, OPTION_SORT, OPTION_FORMAT };

static int parse_sort(struct heap_report_arguments *arguments, const char *text)
{
	static const char *const orders[] = {[HEAP_BY_BYTES] = "bytes", [HEAP_BY_OBJECTS] = "objects", NULL};
	unsigned chosen;

	if (options_choice("--sort", text, orders, &chosen))
		return EINVAL;
	arguments->report.order = (enum heap_order)chosen;
	return 0;
}

static int parse_format(struct heap_report_arguments *arguments, const char *text)
{
	static const struct heap_format *const formats[] = {&heap_format_text, &heap_format_json, &heap_format_html};
	static const char *const names[] = {"text", "json", "html", NULL};
	unsigned chosen;

	if (options_choice("--format", text, names, &chosen))
		return EINVAL;
	arguments->format = formats[chosen];
	return 0;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct heap_report_arguments *arguments = state->input;

	switch (key) {
	case OPTION_TOP:
		return options_whole_number("--top", argument, 1, TOP_MAX, &arguments->top);
	case OPTION_SORT:
		return parse_sort(arguments, argument);
	case OPTION_FORMAT:
		return parse_format(arguments, argument);
	case 'o':
		arguments->invocation.options.output_path = argument;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option list[] = {
	{"top", OPTION_TOP, "N", 0, "Rows of each table (default 10; 200 in HTML)", 1},
	{"sort", OPTION_SORT, "bytes|objects", 0, "What comes first (default bytes)", 1},
	{"format", OPTION_FORMAT, "text|json|html", 0,
         "Tables for people, one JSON object, or a page for a browser, which needs no network", 4},
	{"output", 'o', "FILE", 0, "Write the report to FILE (default: standard output)", 4},
	{0},
};

const struct argp options_heap_report = {.options = list, .parser = parse};

void heap_report_arguments_init(void *self)
{
	((struct heap_report_arguments *)self)->format = &heap_format_text;
}

void heap_report_arguments_settle(struct heap_report_arguments *arguments)
{
	struct heap_report *report = &arguments->report;
	bool is_html = arguments->format == &heap_format_html;

	report->top = arguments->top ? (uint32_t)arguments->top : is_html ? TOP_HTML : TOP_DEFAULT;
	if (!is_html)
		return;
	report->dominators = true;
	report->leaks = report->dump_count > 1;
	report->classes_with_paths = CLASSES_HTML;
}

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
	else if (reading->end == HEAP_END_MISSING && !reading->damage.code)
		message("%s: the end of the dump is missing; only what is before that is reported", reading->name);
	if (reading->trailing_bytes)
		message("%s: the compressed data are followed by %llu bytes of something else, which were left out",
		        reading->name, (unsigned long long)reading->trailing_bytes);
	if (reading->damage.code)
		message("%s; only what is before that is reported", reading->damage.text);
}

void heap_report_show(struct heap_report_arguments *arguments)
{
	struct heap_report *report = &arguments->report;

	for (uint32_t i = 0; i < report->dump_count; i++)
		warn(&report->dumps[i].reading);
	if (report->dump_count == 2 && report->stayed == 0)
		message("the dumps have no object in common; are they of the same process?");
	if (arguments->format != &heap_format_text)
		arguments->invocation.output.width = 0;
	arguments->format->write(report, &arguments->invocation.output);
}

void heap_report_arguments_free(void *self)
{
	heap_report_free(&((struct heap_report_arguments *)self)->report);
}
