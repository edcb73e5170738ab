/* A report for programs: one JSON object. The man page describes its members. See heap_report.h. */

#include "heap_report.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

static void set(json_t *object, const char *key, json_t *value)
{
	json_object_set_new_nocheck(object, key, value);
}

static void set_number(json_t *object, const char *key, uint64_t number)
{
	set(object, key, json_integer((json_int_t)number));
}

/* Text from anywhere as valid UTF-8. */
static json_t *plain_text(const char *bytes, size_t size)
{
	struct buffer valid = {0};
	json_t *text;

	buffer_add_utf8(&valid, bytes, size);
	text = json_stringn_nocheck(valid.bytes ? valid.bytes : "", valid.size);
	buffer_free(&valid);
	return text;
}

/* Text that still has JSON's escapes. Where what the dump says is no valid text, as it stands there. */
static json_t *escaped_text(const char *bytes, size_t size)
{
	struct buffer quoted = {0};
	json_t *text;

	buffer_add_char(&quoted, '"');
	buffer_add(&quoted, bytes, size);
	buffer_add_char(&quoted, '"');
	text = json_loadb(quoted.bytes, quoted.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	buffer_free(&quoted);
	return text ? text : plain_text(bytes, size);
}

static void set_label(json_t *object, const struct heap_dimension *dimension, struct slice label)
{
	const char *separator = dimension->members[1] ? memchr(label.bytes, HEAP_LABEL_SEPARATOR, label.size) : NULL;
	size_t first = separator ? (size_t)(separator - label.bytes) : label.size;

	set(object, dimension->members[0], escaped_text(label.bytes, first));
	if (separator)
		set(object, dimension->members[1], escaped_text(separator + 1, label.size - first - 1));
}

static void set_counts(json_t *object, const struct heap_row *row, bool compared)
{
	if (compared) {
		set_number(object, "objects_before", row->before.objects);
		set_number(object, "bytes_before", row->before.bytes);
	}
	set_number(object, "objects", row->now.objects);
	set_number(object, "bytes", row->now.bytes);
}

static json_t *dimension_json(const struct heap_report *report, const struct heap_dimension *dimension,
                              const struct heap_summary *before, const struct heap_summary *now)
{
	json_t *table = json_object(), *rows = json_array(), *others = json_object();
	struct heap_ranking ranking = {0};
	struct heap_row rest;
	uint32_t shown;

	heap_report_rank(report, dimension, before, now, &ranking);
	shown = ranking.count < report->top ? ranking.count : report->top;
	for (uint32_t i = 0; i < shown; i++) {
		json_t *row = json_object();

		set_label(row, dimension, heap_ranking_label(&ranking, &ranking.rows[i]));
		set_counts(row, &ranking.rows[i], before);
		json_array_append_new(rows, row);
	}
	rest = heap_ranking_rest(&ranking, shown);
	set(table, "rows", rows);
	set_number(others, "count", ranking.count - shown);
	set_counts(others, &rest, before);
	set(table, "others", others);
	heap_ranking_free(&ranking);
	return table;
}

static void set_dimensions(json_t *object, const struct heap_report *report, unsigned part, const struct heap_summary *before,
                           const struct heap_summary *now)
{
	for (const struct heap_dimension *dimension = heap_dimensions; dimension->title; dimension++)
		if (dimension->parts & part)
			set(object, dimension->key, dimension_json(report, dimension, before, now));
}

static json_t *strings_json(const struct heap_summary *summary)
{
	struct heap_string_totals totals = heap_strings_totals(summary->strings);
	json_t *strings = json_object(), *rows = json_array();
	struct heap_duplicate *worst;
	uint32_t count;

	worst = heap_strings_worst(summary->strings, &count);
	for (uint32_t i = 0; i < count; i++) {
		json_t *row = json_object();

		set(row, "value", escaped_text(worst[i].text, worst[i].text_size));
		set(row, "cut", json_boolean(worst[i].cut));
		set_number(row, "length", worst[i].value_bytes);
		set_number(row, "copies", worst[i].copies);
		set_number(row, "wasted_bytes", worst[i].wasted_bytes);
		json_array_append_new(rows, row);
	}
	free(worst);
	set(strings, "rows", rows);
	set_number(strings, "duplicated_values", totals.duplicated_values);
	set_number(strings, "copies", totals.copies);
	set_number(strings, "wasted_bytes", totals.wasted_bytes);
	set_number(strings, "compared", totals.compared);
	set_number(strings, "not_compared", totals.not_compared);
	set_number(strings, "not_compared_bytes", totals.not_compared_bytes);
	return strings;
}

static json_t *biggest_json(const struct heap_summary *summary)
{
	json_t *rows = json_array();
	struct buffer label = {0};

	for (uint32_t i = 0; i < summary->biggest.count; i++) {
		const struct heap_object *object = &summary->biggest.items[i];
		json_t *row = json_object();
		char address[24];

		snprintf(address, sizeof(address), "0x%llx", (unsigned long long)object->address);
		set(row, "address", json_string_nocheck(address));
		set(row, "type", escaped_text(summary->types.texts[object->type].bytes, summary->types.texts[object->type].size));
		label.size = 0;
		heap_label_kind(summary, object->kind, &label);
		set(row, "class", escaped_text(label.bytes, label.size));
		set_number(row, "bytes", object->memsize);
		if (object->has_size)
			set_number(row, "length", object->size);
		if (object->site != HEAP_TABLE_NONE) {
			label.size = 0;
			heap_label_site(summary, object->site, &label);
			set(row, "site", escaped_text(label.bytes, label.size));
		}
		json_array_append_new(rows, row);
	}
	buffer_free(&label);
	return rows;
}

static void set_objects(json_t *object, const struct heap_summary *summary)
{
	set_number(object, "objects_without_site", summary->total.objects - summary->with_site.objects);
	set(object, "strings", strings_json(summary));
	set(object, "biggest", biggest_json(summary));
}

static json_t *dump_json(const struct heap_dump *dump)
{
	const struct heap_reading *reading = &dump->reading;
	json_t *object = json_object();

	set(object, "file", plain_text(reading->name, strlen(reading->name)));
	set_number(object, "objects", dump->summary.total.objects);
	set_number(object, "bytes", dump->summary.total.bytes);
	set_number(object, "shapes", dump->summary.shapes.objects);
	set_number(object, "shape_bytes", dump->summary.shapes.bytes);
	set_number(object, "roots", dump->summary.roots);
	set_number(object, "free_slots", dump->summary.free_slots);
	set_number(object, "own_objects", dump->own_total.objects);
	set_number(object, "own_bytes", dump->own_total.bytes);
	set_number(object, "lines", reading->lines);
	set_number(object, "bad_lines", reading->bad_lines);
	set_number(object, "dump_bytes", reading->bytes);
	set(object, "complete", json_boolean(!reading->cut && !reading->damage.code));
	return object;
}

static json_t *compared_json(const struct heap_report *report)
{
	const struct heap_summary *compared = &report->compared;
	json_t *object = json_object();

	set_number(object, "objects", compared->total.objects);
	set_number(object, "bytes", compared->total.bytes);
	if (report->dump_count == 2) {
		set_number(object, "stayed", report->stayed);
		set_number(object, "gone", report->dumps[0].summary.total.objects - report->stayed);
	} else {
		set_number(object, "only_in_second", report->only_in_second);
	}
	set_dimensions(object, report, HEAP_PART_COMPARED, NULL, compared);
	set_objects(object, compared);
	return object;
}

static int add_to_output(const char *bytes, size_t size, void *data)
{
	buffer_add_made_json(data, bytes, size);
	return 0;
}

static void write_json(struct heap_report *report, struct output *output)
{
	const struct heap_summary *last = &heap_report_last(report)->summary;
	json_t *object = json_object(), *dumps = json_array();

	for (uint32_t i = 0; i < report->dump_count; i++)
		json_array_append_new(dumps, dump_json(&report->dumps[i]));
	set(object, "dumps", dumps);
	if (report->dump_count == 1) {
		set_dimensions(object, report, HEAP_PART_DUMP, NULL, last);
		set_objects(object, last);
	} else {
		json_t *growth = json_object();

		set_dimensions(growth, report, HEAP_PART_GROWTH, &report->dumps[0].summary, last);
		set(object, "growth", growth);
		set(object, report->dump_count == 2 ? "new" : "retained", compared_json(report));
	}
	if (json_dump_callback(object, add_to_output, &output->buffer, JSON_COMPACT) != 0)
		output->status = error_set(&output->error, -ENOMEM, "cannot make JSON: out of memory");
	buffer_add_char(&output->buffer, '\n');
	json_decref(object);
}

const struct heap_format heap_format_json = {.name = "json", .write = write_json};
