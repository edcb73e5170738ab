/*
 * A report for a browser: one page, which has the report as JSON and the program that shows it, and needs no network. See
 * heap_report.h.
 */

#include "tracer/heap/heap_report.h"

#include "tracer/base/json.h"
#include "tracer/heap/heap_page.h"

static void write_html(struct heap_report *report, struct output *output)
{
	struct buffer json = {0};

	heap_report_add_json(report, &json);
	for (const char *const *part = heap_page_before; *part; part++)
		buffer_add_text(&output->buffer, *part);
	json_add_within_script(&output->buffer, &json);
	for (const char *const *part = heap_page_after; *part; part++)
		buffer_add_text(&output->buffer, *part);
	buffer_free(&json);
}

const struct heap_format heap_format_html = {.name = "html", .write = write_html};
