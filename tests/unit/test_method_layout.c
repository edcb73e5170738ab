/* The search for a method's C function, on memory made up here. */

#include "unit.h"

#include "tracee/vm/method_layout.h"

#define METHODS 4
#define C_TYPE 1

/* What the search may read: everything below, and nothing else. */
static struct {
	uintptr_t objects[METHODS][8];
	uintptr_t entries[METHODS][6];
	uintptr_t definitions[METHODS][6];
} memory;

static struct method_sample samples[METHODS];

static bool read_memory(uintptr_t from, void *to, size_t size)
{
	uintptr_t start = (uintptr_t)&memory;

	if (from < start || from + size > start + sizeof(memory))
		return false;
	memcpy(to, (const void *)from, size);
	return true;
}

/* Three C functions and another method: entry at word 3, definition at 2, function at 1, arity behind word 2. */
static int make(void **state)
{
	(void)state;
	memset(&memory, 0, sizeof(memory));
	memset(samples, 0, sizeof(samples));
	for (int i = 0; i < METHODS; i++) {
		memory.objects[i][0] = 8;
		memory.objects[i][3] = (uintptr_t)memory.entries[i];
		memory.entries[i][2] = (uintptr_t)memory.definitions[i];
		memory.definitions[i][0] = (uintptr_t)i << 8 | (i < 3 ? C_TYPE : 0);
		memory.definitions[i][1] = 0x7f0000001000u + (uintptr_t)i * 64;
		memory.definitions[i][2] = 0x7f0000009000u;
		memory.definitions[i][3] = 0xffff000000000000u | (uint32_t)(i - 2);
		samples[i] = (struct method_sample){.object = (uintptr_t)memory.objects[i],
		                                    .c_function = i < 3,
		                                    .function = memory.definitions[i][1],
		                                    .arity = i - 2};
	}
	return 0;
}

static void the_layout_is_found(void **state)
{
	struct method_layout layout;
	struct method_target target;

	(void)state;
	assert_true(method_layout_find(&layout, samples, METHODS, read_memory));
	assert_int_equal(layout.entry_word, 3);
	assert_int_equal(layout.definition_word, 2);
	assert_int_equal(layout.function_word, 1);
	assert_int_equal(layout.arity_offset, 24);
	assert_int_equal(layout.type, C_TYPE);
	assert_true(method_layout_follow(&layout, samples[2].object, &target, read_memory));
	assert_int_equal(target.definition, (uintptr_t)memory.definitions[2]);
	assert_ptr_equal(target.function_place, &memory.definitions[2][1]);
	assert_int_equal(target.function, samples[2].function);
	assert_int_equal(target.arity, 0);
}

static void what_is_no_c_function_is_not_followed(void **state)
{
	struct method_layout layout;
	struct method_target target;

	(void)state;
	assert_true(method_layout_find(&layout, samples, METHODS, read_memory));
	assert_false(method_layout_follow(&layout, samples[3].object, &target, read_memory));
	memory.objects[1][3] = 64;
	assert_false(method_layout_follow(&layout, samples[1].object, &target, read_memory));
	memory.objects[1][3] = (uintptr_t)memory.entries[1] + 1;
	assert_false(method_layout_follow(&layout, samples[1].object, &target, read_memory));
}

static void a_sample_that_does_not_fit_refutes_it(void **state)
{
	struct method_layout layout;

	(void)state;
	samples[1].function++;
	assert_false(method_layout_find(&layout, samples, METHODS, read_memory));
	samples[1].function--;
	samples[2].arity = 5;
	assert_false(method_layout_find(&layout, samples, METHODS, read_memory));
	samples[2].arity = 0;
	assert_true(method_layout_find(&layout, samples, METHODS, read_memory));
	assert_true(method_layout_fits(&layout, samples, METHODS, read_memory));
	samples[3].c_function = true;
	assert_false(method_layout_fits(&layout, samples, METHODS, read_memory));
	samples[3].c_function = false;
	/* A method of another kind with the mark of C functions. */
	memory.definitions[3][0] |= C_TYPE;
	assert_false(method_layout_find(&layout, samples, METHODS, read_memory));
}

static void two_layouts_are_none(void **state)
{
	struct method_layout layout;

	(void)state;
	for (int i = 0; i < METHODS; i++)
		memory.objects[i][5] = memory.objects[i][3];
	assert_false(method_layout_find(&layout, samples, METHODS, read_memory));
}

static void memory_that_cannot_be_read_is_no_layout(void **state)
{
	struct method_layout layout;

	(void)state;
	for (int i = 0; i < METHODS; i++)
		memory.objects[i][3] = 0x10000;
	assert_false(method_layout_find(&layout, samples, METHODS, read_memory));
	assert_false(method_layout_find(&layout, samples, 0, read_memory));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_layout_is_found, make),
		cmocka_unit_test_setup(what_is_no_c_function_is_not_followed, make),
		cmocka_unit_test_setup(a_sample_that_does_not_fit_refutes_it, make),
		cmocka_unit_test_setup(two_layouts_are_none, make),
		cmocka_unit_test_setup(memory_that_cannot_be_read_is_no_layout, make),
	};

	return cmocka_run_group_tests_name("method layout", tests, NULL, NULL);
}
