/* tracer/heap/heap_shapes.c: the tree of shapes, and which classes have many. */

#include "tracer/heap/heap_shapes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct making {
	struct heap_shapes shapes;
	struct heap_classes classes;
};

#define SLICE(text) ((struct slice){text, strlen(text)})

static void add_shape(struct making *making, uint64_t id, uint64_t parent, uint64_t depth, uint64_t edges, const char *name)
{
	struct heap_line line = {.type = SLICE("SHAPE"),
	                         .shape = id,
	                         .parent_shape = parent,
	                         .depth = depth,
	                         .edges = edges,
	                         .edge_name = SLICE(name)};

	heap_shapes_add(&making->shapes, &making->classes, &line);
}

static void add_object(struct making *making, uint64_t class, uint64_t shape, bool too_complex)
{
	struct heap_line line = {
		.type = SLICE("OBJECT"), .class_address = class, .shape = shape, .has_shape = true, .too_complex = too_complex};

	heap_shapes_add(&making->shapes, &making->classes, &line);
}

static void done(struct making *making)
{
	heap_shapes_free(&making->shapes);
	heap_classes_free(&making->classes);
}

/* The path of the number-th in that order. */
static void assert_path(const struct making *making, enum heap_shape_order order, uint32_t number, const char *expected)
{
	uint32_t count, *numbers = heap_shapes_sorted(&making->shapes, order, &count);
	struct buffer path = {0};

	assert_true(number < count);
	heap_shape_path(&making->shapes, numbers[number], &path);
	buffer_add_char(&path, '\0');
	assert_string_equal(path.bytes, expected);
	buffer_free(&path);
	free(numbers);
}

static void paths_from_the_root(void **state)
{
	struct making making = {0};
	uint32_t count;

	(void)state;
	add_shape(&making, 7, 3, 3, 0, "@total");
	add_shape(&making, 0, 0, 1, 9, "");
	add_shape(&making, 3, 0, 2, 2, "@name");
	assert_path(&making, HEAP_SHAPES_BY_DEPTH, 0, "@name @total");
	/* What others begin with is in these. */
	free(heap_shapes_sorted(&making.shapes, HEAP_SHAPES_BY_DEPTH, &count));
	assert_int_equal(count, 1);
	assert_path(&making, HEAP_SHAPES_BY_EDGES, 0, "(no variables)");
	assert_path(&making, HEAP_SHAPES_BY_EDGES, 1, "@name");
	done(&making);
}

static void circles_and_parents_that_are_nowhere(void **state)
{
	struct making making = {0};
	struct buffer path = {0};

	(void)state;
	add_shape(&making, 1, 2, 1, 0, "@a");
	add_shape(&making, 2, 1, 1, 0, "@b");
	add_shape(&making, 3, 99, UINT64_MAX, UINT64_MAX, "@c");
	add_shape(&making, UINT64_MAX, 0, 1, 0, "@d");
	heap_shape_path(&making.shapes, 0, &path);
	assert_int_equal(path.size, 200 * strlen("@a ") - 1);
	assert_path(&making, HEAP_SHAPES_BY_EDGES, 0, "@c");
	assert_int_equal(making.shapes.by_id.count, 3);
	buffer_free(&path);
	done(&making);
}

static void classes_by_their_shapes(void **state)
{
	struct making making = {0};
	uint32_t count, *numbers;

	(void)state;
	for (uint64_t i = 0; i < 10; i++) {
		add_object(&making, 0x1000, 5, false); /* one shape */
		add_object(&making, 0x2000, i, false);
		add_object(&making, 0x3000, i % 2, false);
	}
	add_object(&making, 0x3000, 0, true);
	numbers = heap_shape_classes_sorted(&making.shapes, &count);
	assert_int_equal(count, 2);
	assert_int_equal(numbers[0], heap_classes_number(&making.classes, 0x3000));
	assert_int_equal(making.shapes.by_class[numbers[0]].shapes, 2);
	assert_int_equal(making.shapes.by_class[numbers[0]].too_complex, 1);
	assert_int_equal(numbers[1], heap_classes_number(&making.classes, 0x2000));
	assert_int_equal(making.shapes.by_class[numbers[1]].shapes, 10);
	free(numbers);
	done(&making);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_from_the_root),
		cmocka_unit_test(circles_and_parents_that_are_nowhere),
		cmocka_unit_test(classes_by_their_shapes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
