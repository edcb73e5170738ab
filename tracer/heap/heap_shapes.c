/* Shapes of a dump. See heap_shapes.h. */

#define _GNU_SOURCE
#include "tracer/heap/heap_shapes.h"

#include <stdlib.h>

#define PATH_MAX_STEPS 200 /* the VM has at most 80 variables in a shape */

static void add_shape(struct heap_shapes *shapes, const struct heap_line *line)
{
	uint32_t number;
	bool is_new;

	if (line->shape > UINT32_MAX || line->parent_shape > UINT32_MAX)
		return;
	number = heap_index_add(&shapes->by_id, line->shape, &is_new);
	shapes->shapes = heap_entries(shapes->shapes, &shapes->capacity.shapes, number, sizeof(*shapes->shapes));
	shapes->shapes[number] = (struct heap_shape){
		.parent = (uint32_t)line->parent_shape,
		.depth = line->depth < UINT32_MAX ? (uint32_t)line->depth : UINT32_MAX,
		.edges = line->edges < UINT32_MAX ? (uint32_t)line->edges : UINT32_MAX,
		.name = line->edge_name.size ? heap_names_add(&shapes->names, line->edge_name) : HEAP_TABLE_NONE};
}

void heap_shapes_add(struct heap_shapes *shapes, struct heap_classes *classes, const struct heap_line *line)
{
	struct heap_shape_class *class;
	uint32_t number;
	bool is_new;

	if (heap_line_is(line, "SHAPE")) {
		add_shape(shapes, line);
		return;
	}
	if (!line->has_shape || !line->class_address || !heap_line_is(line, "OBJECT") || line->shape > UINT32_MAX)
		return;
	number = heap_classes_number(classes, line->class_address);
	shapes->by_class = heap_entries(shapes->by_class, &shapes->capacity.by_class, number, sizeof(*shapes->by_class));
	if (number >= shapes->class_count)
		shapes->class_count = number + 1;
	class = &shapes->by_class[number];
	if (line->too_complex) {
		class->too_complex++;
		return;
	}
	heap_index_add(&shapes->pairs, (uint64_t)number << 32 | line->shape, &is_new);
	class->shapes += is_new;
}

void heap_shape_path(const struct heap_shapes *shapes, uint32_t number, struct buffer *to)
{
	uint32_t names[PATH_MAX_STEPS], count = 0;

	/* A dump may say anything: that one is its own parent, too. */
	for (uint32_t step = 0; step < PATH_MAX_STEPS && number != HEAP_TABLE_NONE; step++) {
		const struct heap_shape *shape = &shapes->shapes[number];
		uint32_t parent = heap_index_find(&shapes->by_id, shape->parent);

		if (shape->name != HEAP_TABLE_NONE)
			names[count++] = shape->name;
		number = parent == number ? HEAP_TABLE_NONE : parent;
	}
	for (uint32_t i = count; i-- > 0;) {
		buffer_add_slice(to, shapes->names.texts[names[i]]);
		if (i)
			buffer_add_char(to, ' ');
	}
	if (!count)
		buffer_add_text(to, "(no variables)");
}

/* --- The first ones of all */

static int compare(uint64_t one, uint64_t other, uint32_t first, uint32_t second)
{
	if (one != other)
		return one > other ? -1 : 1;
	return first < second ? -1 : first > second;
}

static int by_edges(const void *one, const void *other, void *shapes)
{
	uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
	const struct heap_shape *all = ((const struct heap_shapes *)shapes)->shapes;

	return compare(all[a].edges, all[b].edges, a, b);
}

static int by_depth(const void *one, const void *other, void *shapes)
{
	uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
	const struct heap_shape *all = ((const struct heap_shapes *)shapes)->shapes;

	return compare(all[a].depth, all[b].depth, a, b);
}

static int by_trouble(const void *one, const void *other, void *shapes)
{
	uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
	const struct heap_shape_class *all = ((const struct heap_shapes *)shapes)->by_class;

	if (all[a].too_complex != all[b].too_complex)
		return compare(all[a].too_complex, all[b].too_complex, a, b);
	return compare(all[a].shapes, all[b].shapes, a, b);
}

uint32_t *heap_shapes_sorted(const struct heap_shapes *shapes, enum heap_shape_order order, uint32_t *count)
{
	uint32_t *numbers = memory_zeroed(((size_t)shapes->by_id.count + 1) * sizeof(*numbers));

	*count = 0;
	for (uint32_t i = 0; i < shapes->by_id.count; i++)
		if (order == HEAP_SHAPES_BY_EDGES || !shapes->shapes[i].edges)
			numbers[(*count)++] = i;
	qsort_r(numbers, *count, sizeof(*numbers), order == HEAP_SHAPES_BY_EDGES ? by_edges : by_depth, (void *)shapes);
	return numbers;
}

uint32_t *heap_shape_classes_sorted(const struct heap_shapes *shapes, uint32_t *count)
{
	uint32_t *numbers = memory_zeroed(((size_t)shapes->class_count + 1) * sizeof(*numbers));

	*count = 0;
	for (uint32_t i = 0; i < shapes->class_count; i++)
		if (shapes->by_class[i].too_complex || shapes->by_class[i].shapes > 1)
			numbers[(*count)++] = i;
	qsort_r(numbers, *count, sizeof(*numbers), by_trouble, (void *)shapes);
	return numbers;
}

void heap_shapes_free(struct heap_shapes *shapes)
{
	heap_index_free(&shapes->by_id);
	heap_index_free(&shapes->pairs);
	heap_names_free(&shapes->names);
	free(shapes->shapes);
	free(shapes->by_class);
	*shapes = (struct heap_shapes){0};
}
