/*
 * A report for a browser: one page, which has the report as JSON and the program that shows it, and needs no network. See
 * heap_report.h.
 */

#include "tracer/heap/heap_report.h"

#include "tracer/heap/heap_page.h"

/*
 * In JSON `<` is only within texts, where an escape is the same; in HTML it could end the script. Other characters mean
 * nothing there, and json.h has seen to control characters and what is no UTF-8.
 */
static void add_within_script(struct buffer *to, const struct buffer *json)
{
	for (size_t i = 0; i < json->size; i++)
		if (json->bytes[i] == '<')
			buffer_add_text(to, "\\u003c");
		else
			buffer_add_char(to, json->bytes[i]);
}

static void write_html(struct heap_report *report, struct output *output)
{
	struct buffer json = {0};

	heap_report_add_json(report, &json);
	for (const char *const *part = heap_page_before; *part; part++)
		buffer_add_text(&output->buffer, *part);
	add_within_script(&output->buffer, &json);
	for (const char *const *part = heap_page_after; *part; part++)
		buffer_add_text(&output->buffer, *part);
	buffer_free(&json);
}

const struct heap_format heap_format_html = {.name = "html", .write = write_html};
