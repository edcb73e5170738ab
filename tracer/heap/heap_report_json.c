/* A report for programs: one JSON object. The man page describes its members. See heap_report.h. */

#include "tracer/heap/heap_report.h"

#include "tracer/base/json.h"

#include <stdio.h>
#include <stdlib.h>

static void member_escaped(struct buffer *to, const char *key, const char *bytes, size_t size)
{
	heap_json_escaped(to, key, (struct slice){bytes, size});
}

static void add_label(struct buffer *to, const struct heap_dimension *dimension, struct slice label)
{
	const char *separator = dimension->members[1] ? memchr(label.bytes, HEAP_LABEL_SEPARATOR, label.size) : NULL;
	size_t first = separator ? (size_t)(separator - label.bytes) : label.size;

	member_escaped(to, dimension->members[0], label.bytes, first);
	if (separator)
		member_escaped(to, dimension->members[1], separator + 1, label.size - first - 1);
}

static void add_counts(struct buffer *to, const struct heap_row *row, bool compared)
{
	if (compared) {
		json_member_uint(to, "objects_before", row->before.objects);
		json_member_uint(to, "bytes_before", row->before.bytes);
	}
	json_member_uint(to, "objects", row->now.objects);
	json_member_uint(to, "bytes", row->now.bytes);
}

static void add_dimension(struct buffer *to, const struct heap_report *report, const struct heap_dimension *dimension,
                          const struct heap_summary *before, const struct heap_summary *now)
{
	struct heap_ranking ranking = {0};
	struct heap_row rest;
	uint32_t shown;

	heap_report_rank(report, dimension, before, now, &ranking);
	shown = ranking.count < report->top ? ranking.count : report->top;
	json_open_object(json_key(to, dimension->key));
	json_open_array(json_key(to, "rows"));
	for (uint32_t i = 0; i < shown; i++) {
		json_open_object(to);
		add_label(to, dimension, heap_ranking_label(&ranking, &ranking.rows[i]));
		add_counts(to, &ranking.rows[i], before);
		json_close_object(to);
	}
	json_close_array(to);
	rest = heap_ranking_rest(&ranking, shown);
	json_open_object(json_key(to, "others"));
	json_member_uint(to, "count", ranking.count - shown);
	add_counts(to, &rest, before);
	json_close_object(to);
	json_close_object(to);
	heap_ranking_free(&ranking);
}

static void add_dimensions(struct buffer *to, const struct heap_report *report, unsigned part, const struct heap_summary *before,
                           const struct heap_summary *now)
{
	for (const struct heap_dimension *dimension = heap_dimensions; dimension->title; dimension++)
		if (dimension->parts & part)
			add_dimension(to, report, dimension, before, now);
}

static void add_strings(struct buffer *to, const struct heap_summary *summary)
{
	struct heap_string_totals totals = heap_strings_totals(summary->strings);
	struct heap_duplicate *worst;
	uint32_t count;

	json_open_object(json_key(to, "strings"));
	json_open_array(json_key(to, "rows"));
	worst = heap_strings_worst(summary->strings, &count);
	for (uint32_t i = 0; i < count; i++) {
		json_open_object(to);
		member_escaped(to, "value", worst[i].text, worst[i].text_size);
		json_member_bool(to, "cut", worst[i].cut);
		json_member_uint(to, "length", worst[i].value_bytes);
		json_member_uint(to, "copies", worst[i].copies);
		json_member_uint(to, "wasted_bytes", worst[i].wasted_bytes);
		json_close_object(to);
	}
	free(worst);
	json_close_array(to);
	json_member_uint(to, "duplicated_values", totals.duplicated_values);
	json_member_uint(to, "copies", totals.copies);
	json_member_uint(to, "wasted_bytes", totals.wasted_bytes);
	json_member_uint(to, "compared", totals.compared);
	json_member_uint(to, "not_compared", totals.not_compared);
	json_member_uint(to, "not_compared_bytes", totals.not_compared_bytes);
	json_close_object(to);
}

static void add_biggest(struct buffer *to, const struct heap_summary *summary)
{
	struct buffer label = {0};

	json_open_array(json_key(to, "biggest"));
	for (uint32_t i = 0; i < summary->biggest.count; i++) {
		const struct heap_object *object = &summary->biggest.items[i];
		char address[24];

		snprintf(address, sizeof(address), "0x%llx", (unsigned long long)object->address);
		json_open_object(to);
		json_member_string(to, "address", address);
		member_escaped(to, "type", summary->types.texts[object->type].bytes, summary->types.texts[object->type].size);
		label.size = 0;
		heap_label_kind(summary, object->kind, &label);
		member_escaped(to, "class", label.bytes, label.size);
		json_member_uint(to, "bytes", object->memsize);
		if (object->has_size)
			json_member_uint(to, "length", object->size);
		if (object->site != HEAP_TABLE_NONE) {
			label.size = 0;
			heap_label_site(summary, object->site, &label);
			member_escaped(to, "site", label.bytes, label.size);
		}
		json_close_object(to);
	}
	json_close_array(to);
	buffer_free(&label);
}

static void add_objects(struct buffer *to, const struct heap_summary *summary)
{
	json_member_uint(to, "objects_without_site", summary->total.objects - summary->with_site.objects);
	add_strings(to, summary);
	add_biggest(to, summary);
}

static void add_dump(struct buffer *to, const struct heap_dump *dump)
{
	const struct heap_reading *reading = &dump->reading;

	json_open_object(to);
	json_member_string(to, "file", reading->name);
	json_member_uint(to, "objects", dump->summary.total.objects);
	json_member_uint(to, "bytes", dump->summary.total.bytes);
	json_member_uint(to, "shapes", dump->summary.shapes.objects);
	json_member_uint(to, "shape_bytes", dump->summary.shapes.bytes);
	json_member_uint(to, "roots", dump->summary.roots);
	json_member_uint(to, "free_slots", dump->summary.free_slots);
	json_member_uint(to, "own_objects", dump->own_total.objects);
	json_member_uint(to, "own_bytes", dump->own_total.bytes);
	json_member_uint(to, "lines", reading->lines);
	json_member_uint(to, "bad_lines", reading->bad_lines);
	json_member_uint(to, "dump_bytes", reading->bytes);
	json_member_uint(to, "trailing_bytes", reading->trailing_bytes);
	if (heap_reading_is_cut(reading) || reading->end == HEAP_END_FOUND)
		json_member_bool(to, "complete", !heap_reading_is_cut(reading));
	else
		json_add_null(json_key(to, "complete"));
	json_close_object(to);
}

static void add_compared(struct buffer *to, const struct heap_report *report)
{
	const struct heap_summary *compared = &report->compared;

	json_open_object(json_key(to, report->dump_count == 2 ? "new" : "retained"));
	json_member_uint(to, "objects", compared->total.objects);
	json_member_uint(to, "bytes", compared->total.bytes);
	if (report->dump_count == 2) {
		json_member_uint(to, "stayed", report->stayed);
		json_member_uint(to, "gone", report->dumps[0].summary.total.objects - report->stayed);
	} else {
		json_member_uint(to, "only_in_second", report->only_in_second);
	}
	add_dimensions(to, report, HEAP_PART_COMPARED, NULL, compared);
	add_objects(to, compared);
	json_close_object(to);
}

void heap_report_add_json(struct heap_report *report, struct buffer *to)
{
	const struct heap_summary *last = &heap_report_last(report)->summary;

	json_open_object(to);
	if (report->pid) {
		json_member_string(to, "type", "heap_leak");
		json_member_int(to, "pid", report->pid);
	}
	json_open_array(json_key(to, "dumps"));
	for (uint32_t i = 0; i < report->dump_count; i++)
		add_dump(to, &report->dumps[i]);
	json_close_array(to);
	if (report->dump_count == 1) {
		add_dimensions(to, report, HEAP_PART_DUMP, NULL, last);
		add_objects(to, last);
	} else {
		json_open_object(json_key(to, "growth"));
		add_dimensions(to, report, HEAP_PART_GROWTH, &report->dumps[0].summary, last);
		json_close_object(to);
		add_compared(to, report);
	}
	if (report->wants_shapes)
		heap_shapes_add_json(report, to);
	if (heap_report_has_holders(report))
		heap_holders_add_json(report, to);
	json_close_line(to);
}

static void write_json(struct heap_report *report, struct output *output)
{
	heap_report_add_json(report, &output->buffer);
}

const struct heap_format heap_format_json = {.name = "json", .write = write_json};
