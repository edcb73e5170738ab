/* The report's part about shapes, for people and in JSON. See heap_report.h. */

#define _GNU_SOURCE
#include "tracer/base/json.h"
#include "tracer/heap/heap_report.h"

#include <stdlib.h>

static const struct shape_table {
	const char *key, *title;
	enum heap_shape_order order;
} tables[] = {
	{"most_edges", "Shapes that most others begin with", HEAP_SHAPES_BY_EDGES},
	{"deepest", "Shapes with most variables", HEAP_SHAPES_BY_DEPTH},
};

#define VARIABLES_SHOWN 3 /* at both ends of a long list */
#define TABLES (sizeof(tables) / sizeof(*tables))

static uint32_t rows(const struct heap_report *report, uint32_t count)
{
	return count < report->top ? count : report->top;
}

static void class_text(const struct heap_dump *dump, uint32_t number, struct buffer *to)
{
	const struct heap_shape_class *class = &dump->shapes.by_class[number];
	struct buffer label = {0};

	heap_class_label(&dump->classes, number, &label);
	buffer_add_format(to, "%12u %14llu  ", class->shapes, (unsigned long long)class->too_complex);
	buffer_add_printable(to, label.bytes, label.size);
	buffer_add_char(to, '\n');
	buffer_free(&label);
}

/* The first few and the last few of its variables; how many there are says its depth, and JSON has all. */
static void path_text(struct slice path, struct buffer *to)
{
	const char *end = path.bytes + path.size, *first = path.bytes, *last = end;

	for (uint32_t i = 0; i < VARIABLES_SHOWN && first < end; i++) {
		first = memchr(first, ' ', (size_t)(end - first));
		first = first ? first + 1 : end;
	}
	for (uint32_t i = 0; i < VARIABLES_SHOWN && last > path.bytes; i++) {
		last = memrchr(path.bytes, ' ', (size_t)(last - path.bytes));
		last = last ? last : path.bytes;
	}
	if (first >= last) {
		buffer_add_printable(to, path.bytes, path.size);
		return;
	}
	buffer_add_printable(to, path.bytes, (size_t)(first - path.bytes));
	buffer_add_text(to, "...");
	buffer_add_printable(to, last, (size_t)(end - last));
}

static void shape_text(const struct heap_shapes *shapes, uint32_t number, struct buffer *to)
{
	const struct heap_shape *shape = &shapes->shapes[number];
	struct buffer path = {0};

	heap_shape_path(shapes, number, &path);
	buffer_add_format(to, "%12u %14u  ", shape->edges, shape->depth);
	path_text((struct slice){path.bytes, path.size}, to);
	buffer_add_char(to, '\n');
	buffer_free(&path);
}

static void classes_write_text(const struct heap_report *report, struct buffer *to)
{
	const struct heap_dump *dump = heap_report_last(report);
	uint32_t count, *numbers = heap_shape_classes_sorted(&dump->shapes, &count);

	if (count)
		buffer_add_format(to, "\nClasses with several shapes\n%12s %14s\n", "SHAPES", "TOO COMPLEX");
	for (uint32_t i = 0; i < rows(report, count); i++)
		class_text(dump, numbers[i], to);
	if (count > report->top)
		buffer_add_format(to, "... %u more\n", count - report->top);
	free(numbers);
}

static void table_write_text(const struct heap_report *report, const struct shape_table *table, struct buffer *to)
{
	const struct heap_shapes *shapes = &heap_report_last(report)->shapes;
	uint32_t count, *numbers = heap_shapes_sorted(shapes, table->order, &count);

	buffer_add_format(to, "\n%s\n%12s %14s\n", table->title, "EDGES", "DEPTH");
	for (uint32_t i = 0; i < rows(report, count); i++)
		shape_text(shapes, numbers[i], to);
	free(numbers);
}

void heap_shapes_write_text(const struct heap_report *report, struct buffer *to)
{
	if (!heap_report_last(report)->summary.shapes.objects) {
		buffer_add_text(to, "\nNo shapes are in the dump: Ruby writes them from 3.3 on\n");
		return;
	}
	classes_write_text(report, to);
	for (size_t i = 0; i < TABLES; i++)
		table_write_text(report, &tables[i], to);
}

/* --- JSON */

static void classes_add_json(const struct heap_report *report, struct buffer *to)
{
	const struct heap_dump *dump = heap_report_last(report);
	uint32_t count, *numbers = heap_shape_classes_sorted(&dump->shapes, &count);
	struct buffer label = {0};

	json_open_array(json_key(to, "classes"));
	for (uint32_t i = 0; i < rows(report, count); i++) {
		const struct heap_shape_class *class = &dump->shapes.by_class[numbers[i]];

		label.size = 0;
		heap_class_label(&dump->classes, numbers[i], &label);
		json_open_object(to);
		heap_json_escaped(to, "class", (struct slice){label.bytes, label.size});
		json_member_uint(to, "shapes", class->shapes);
		json_member_uint(to, "too_complex", class->too_complex);
		json_close_object(to);
	}
	json_close_array(to);
	buffer_free(&label);
	free(numbers);
}

static void table_add_json(const struct heap_report *report, const struct shape_table *table, struct buffer *to)
{
	const struct heap_shapes *shapes = &heap_report_last(report)->shapes;
	uint32_t count, *numbers = heap_shapes_sorted(shapes, table->order, &count);
	struct buffer path = {0};

	json_open_array(json_key(to, table->key));
	for (uint32_t i = 0; i < rows(report, count); i++) {
		path.size = 0;
		heap_shape_path(shapes, numbers[i], &path);
		json_open_object(to);
		heap_json_escaped(to, "variables", (struct slice){path.bytes, path.size});
		json_member_uint(to, "edges", shapes->shapes[numbers[i]].edges);
		json_member_uint(to, "depth", shapes->shapes[numbers[i]].depth);
		json_close_object(to);
	}
	json_close_array(to);
	buffer_free(&path);
	free(numbers);
}

void heap_shapes_add_json(const struct heap_report *report, struct buffer *to)
{
	json_open_object(json_key(to, "shapes"));
	classes_add_json(report, to);
	for (size_t i = 0; i < TABLES; i++)
		table_add_json(report, &tables[i], to);
	json_close_object(to);
}
