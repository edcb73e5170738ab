/* A report for people. See heap_report.h. */

#include "tracer/heap/heap_report.h"

#include <stdlib.h>

static void add_label(struct buffer *to, struct slice label)
{
	const char *separator = memchr(label.bytes, HEAP_LABEL_SEPARATOR, label.size);
	size_t first = separator ? (size_t)(separator - label.bytes) : label.size;

	buffer_add_printable(to, label.bytes, first);
	if (separator) {
		buffer_add_text(to, "  ");
		buffer_add_printable(to, separator + 1, label.size - first - 1);
	}
}

static void write_numbers(struct buffer *to, const struct heap_row *row, bool compared)
{
	buffer_add_format(to, compared ? "%+12lld %+14lld  " : "%12lld %14lld  ", (long long)heap_row_objects(row),
	                  (long long)heap_row_bytes(row));
}

/* A table of one dimension; nothing where nothing was counted by it. */
static void write_dimension(const struct heap_report *report, const struct heap_dimension *dimension,
                            const struct heap_summary *before, const struct heap_summary *now, struct buffer *to)
{
	struct heap_ranking ranking = {0};
	uint32_t shown;

	heap_report_rank(report, dimension, before, now, &ranking);
	shown = ranking.count < report->top ? ranking.count : report->top;
	if (ranking.count) {
		buffer_add_format(to, "\nBy %s\n%12s %14s\n", dimension->title, "OBJECTS", "BYTES");
		for (uint32_t i = 0; i < shown; i++) {
			write_numbers(to, &ranking.rows[i], before);
			add_label(to, heap_ranking_label(&ranking, &ranking.rows[i]));
			if (before)
				buffer_add_format(to, "  (now %llu)", (unsigned long long)ranking.rows[i].now.objects);
			buffer_add_char(to, '\n');
		}
		if (shown < ranking.count) {
			struct heap_row rest = heap_ranking_rest(&ranking, shown);

			write_numbers(to, &rest, before);
			buffer_add_format(to, "... %u more\n", ranking.count - shown);
		}
	}
	heap_ranking_free(&ranking);
}

static void write_dimensions(const struct heap_report *report, unsigned part, const struct heap_summary *before,
                             const struct heap_summary *now, struct buffer *to)
{
	for (const struct heap_dimension *dimension = heap_dimensions; dimension->title; dimension++)
		if (dimension->parts & part)
			write_dimension(report, dimension, before, now, to);
}

static void write_unknown_sites(const struct heap_summary *summary, struct buffer *to)
{
	uint64_t unknown = summary->total.objects - summary->with_site.objects;

	if (unknown)
		buffer_add_format(to, "\nWithout an allocation site, as it was not recorded: %llu of %llu objects\n",
		                  (unsigned long long)unknown, (unsigned long long)summary->total.objects);
}

static void write_strings(const struct heap_summary *summary, struct buffer *to)
{
	struct heap_string_totals totals = heap_strings_totals(summary->strings);
	struct heap_duplicate *worst;
	uint32_t count;

	if (totals.compared + totals.not_compared == 0)
		return;
	worst = heap_strings_worst(summary->strings, &count);
	buffer_add_format(to, "\nEqual strings: %llu copies of %llu values; one of each would save %llu bytes\n",
	                  (unsigned long long)totals.copies, (unsigned long long)totals.duplicated_values,
	                  (unsigned long long)totals.wasted_bytes);
	if (count)
		buffer_add_format(to, "%12s %14s %9s\n", "COPIES", "WASTED", "LENGTH");
	for (uint32_t i = 0; i < count; i++) {
		buffer_add_format(to, "%12llu %14llu %9llu  \"", (unsigned long long)worst[i].copies,
		                  (unsigned long long)worst[i].wasted_bytes, (unsigned long long)worst[i].value_bytes);
		buffer_add_printable(to, worst[i].text, worst[i].text_size);
		buffer_add_text(to, worst[i].cut ? "\"...\n" : "\"\n");
	}
	if (totals.not_compared)
		buffer_add_format(to, "Not compared, as their values are not in the dump: %llu (%llu bytes)\n",
		                  (unsigned long long)totals.not_compared, (unsigned long long)totals.not_compared_bytes);
	free(worst);
}

static void write_biggest(const struct heap_summary *summary, struct buffer *to)
{
	struct buffer label = {0};

	if (!summary->biggest.count)
		return;
	buffer_add_format(to, "\nBiggest objects\n%12s %14s  %-18s\n", "LENGTH", "BYTES", "ADDRESS");
	for (uint32_t i = 0; i < summary->biggest.count; i++) {
		const struct heap_object *object = &summary->biggest.items[i];

		label.size = 0;
		heap_label_kind(summary, object->kind, &label);
		if (object->site != HEAP_TABLE_NONE) {
			buffer_add_char(&label, HEAP_LABEL_SEPARATOR);
			heap_label_site(summary, object->site, &label);
		}
		if (object->has_size)
			buffer_add_format(to, "%12llu", (unsigned long long)object->size);
		else
			buffer_add_format(to, "%12s", "-");
		buffer_add_format(to, " %14llu  0x%-16llx  ", (unsigned long long)object->memsize,
		                  (unsigned long long)object->address);
		add_label(to, (struct slice){label.bytes, label.size});
		buffer_add_char(to, '\n');
	}
	buffer_free(&label);
}

static void write_objects(const struct heap_summary *summary, struct buffer *to)
{
	write_unknown_sites(summary, to);
	write_strings(summary, to);
	write_biggest(summary, to);
}

static void write_dump(const struct heap_dump *dump, struct buffer *to)
{
	const struct heap_summary *summary = &dump->summary;

	buffer_add_printable(to, dump->reading.name, strlen(dump->reading.name));
	buffer_add_format(to, ": %llu objects, %llu bytes", (unsigned long long)summary->total.objects,
	                  (unsigned long long)summary->total.bytes);
	if (summary->shapes.objects)
		buffer_add_format(to, "; shapes: %llu, %llu bytes", (unsigned long long)summary->shapes.objects,
		                  (unsigned long long)summary->shapes.bytes);
	if (summary->free_slots)
		buffer_add_format(to, "; free slots: %llu", (unsigned long long)summary->free_slots);
	if (dump->own_total.objects)
		buffer_add_format(to, "; left out, as rbprobe's own: %llu, %llu bytes",
		                  (unsigned long long)dump->own_total.objects, (unsigned long long)dump->own_total.bytes);
	buffer_add_char(to, '\n');
	if (dump->reading.end == HEAP_END_UNKNOWN && !heap_reading_is_cut(&dump->reading))
		buffer_add_text(to, "  (it has no end mark: a missing end would not be noticed)\n");
}

static void write_compared(const struct heap_report *report, struct buffer *to)
{
	const struct heap_summary *compared = &report->compared;
	uint64_t before = report->dumps[0].summary.total.objects;

	if (report->dump_count == 2)
		buffer_add_format(to,
		                  "\n=== New: in the second dump, not in the first: %llu objects, %llu bytes\n"
		                  "%llu of the first dump's objects stayed, %llu are gone\n",
		                  (unsigned long long)compared->total.objects, (unsigned long long)compared->total.bytes,
		                  (unsigned long long)report->stayed, (unsigned long long)(before - report->stayed));
	else
		buffer_add_format(to,
		                  "\n=== Retained: in the second and third dump, not in the first: %llu objects, %llu bytes\n"
		                  "%llu objects were new in the second\n",
		                  (unsigned long long)compared->total.objects, (unsigned long long)compared->total.bytes,
		                  (unsigned long long)report->only_in_second);
	if (!compared->total.objects)
		return;
	write_dimensions(report, HEAP_PART_COMPARED, NULL, compared, to);
	write_objects(compared, to);
}

static void write_text(struct heap_report *report, struct output *output)
{
	const struct heap_summary *last = &heap_report_last(report)->summary;
	struct buffer *to = &output->buffer;

	for (uint32_t i = 0; i < report->dump_count; i++)
		write_dump(&report->dumps[i], to);
	if (report->dump_count == 1) {
		write_dimensions(report, HEAP_PART_DUMP, NULL, last, to);
		write_objects(last, to);
	} else {
		buffer_add_format(to, "\n=== Growth from the first dump to the last\n");
		write_dimensions(report, HEAP_PART_GROWTH, &report->dumps[0].summary, last, to);
		write_compared(report, to);
	}
	if (report->wants_shapes)
		heap_shapes_write_text(report, to);
	if (heap_report_has_holders(report))
		heap_holders_write_text(report, to);
}

const struct heap_format heap_format_text = {.name = "text", .write = write_text};
