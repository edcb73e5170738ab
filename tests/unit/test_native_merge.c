/* One stack of Ruby's frames and native ones. */

#include "tracer/native/merge.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

enum { MAIN = 0x10, INTERPRETER = 0x100, EACH = 0x200, LOOP = 0x900, SPIN = 0xa00, HELPER = 0x300 };

#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

/* In the VM; shown: outside of it. */
#define VM(address, bytes)                                                                                                       \
	{                                                                                                                        \
		.start = (address), .size = (bytes), .in_vm = true                                                               \
	}
#define OUTSIDE(address)                                                                                                         \
	{                                                                                                                        \
		.start = (address), .size = 16, .named = true, .shown = true                                                     \
	}
#define ENTERS                                                                                                                   \
	{                                                                                                                        \
		.enters = true                                                                                                   \
	}
#define RUBY                                                                                                                     \
	{                                                                                                                        \
		.is_c = false                                                                                                    \
	}
#define C_METHOD(address)                                                                                                        \
	{                                                                                                                        \
		.is_c = true, .function = (address)                                                                              \
	}

/* "r0 n3": frames of Ruby's by their number, and native ones. */
static const char *merged(const struct merge_stack *stack, uint64_t interpreter, bool *placed)
{
	static char text[256];
	struct merge_frame frames[64];
	uint32_t count;

	*placed = merge_frames(stack, interpreter, frames, &count);
	text[0] = '\0';
	for (uint32_t i = 0; i < count; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%c%u", i ? " " : "",
		         frames[i].is_native ? 'n' : 'r', frames[i].number);
	return text;
}

static const struct merge_native natives[] = {OUTSIDE(MAIN),         VM(INTERPRETER, 5000), VM(HELPER, 40), OUTSIDE(LOOP),
                                              VM(INTERPRETER, 5000), VM(HELPER, 40),        OUTSIDE(SPIN),  OUTSIDE(0xb00)};
/* A method calls one in C, which calls a block, which calls another in C. */
static const struct merge_control controls[] = {ENTERS, RUBY, C_METHOD(LOOP), ENTERS, C_METHOD(SPIN)};

static const struct merge_stack both = {
	.natives = natives, .native_count = COUNT(natives), .controls = controls, .control_count = COUNT(controls)};

static void functions_in_c_are_where_they_were_called(void **state)
{
	bool placed;

	(void)state;
	assert_string_equal(merged(&both, INTERPRETER, &placed), "r0 r1 r2 n3 r3 r4 n6 n7");
	assert_true(placed);
}

static void what_starts_a_thread_and_what_the_vm_does_is_not_shown(void **state)
{
	static const struct merge_native own[] = {OUTSIDE(MAIN), VM(INTERPRETER, 5000), VM(EACH, 30), VM(INTERPRETER, 5000)};
	static const struct merge_control methods[] = {ENTERS, C_METHOD(EACH), ENTERS};
	const struct merge_stack stack = {
		.natives = own, .native_count = COUNT(own), .controls = methods, .control_count = COUNT(methods)};
	bool placed;

	(void)state;
	assert_string_equal(merged(&stack, INTERPRETER, &placed), "r0 r1 r2");
	assert_true(placed);
}

static void a_function_without_a_name_is_its_method(void **state)
{
	static const struct merge_native own[] = {
		VM(INTERPRETER, 5000), {.start = SPIN, .size = 16, .shown = true}, OUTSIDE(LOOP)};
	static const struct merge_control methods[] = {ENTERS, C_METHOD(SPIN)};
	const struct merge_stack stack = {
		.natives = own, .native_count = COUNT(own), .controls = methods, .control_count = COUNT(methods)};
	bool placed;

	(void)state;
	assert_string_equal(merged(&stack, INTERPRETER, &placed), "r0 r1 n2");
	assert_true(placed);
}

static void a_method_in_c_whose_function_is_not_there_is_above_all_native_ones(void **state)
{
	static const struct merge_native own[] = {VM(INTERPRETER, 5000), OUTSIDE(SPIN)};
	static const struct merge_control methods[] = {ENTERS, C_METHOD(0xdead)};
	const struct merge_stack stack = {
		.natives = own, .native_count = COUNT(own), .controls = methods, .control_count = COUNT(methods)};
	bool placed;

	(void)state;
	assert_string_equal(merged(&stack, INTERPRETER, &placed), "r0 r1 n1");
}

static void where_native_frames_are_missing_further_out_the_inner_ones_are_placed(void **state)
{
	const struct merge_stack stack = {.natives = natives + 3,
	                                  .native_count = COUNT(natives) - 3,
	                                  .controls = controls,
	                                  .control_count = COUNT(controls),
	                                  .cut = true};
	bool placed;

	(void)state;
	assert_string_equal(merged(&stack, INTERPRETER, &placed), "r0 r1 r2 r3 r4 n3 n4");
	assert_true(placed);
}

static void nothing_is_guessed_where_both_do_not_agree(void **state)
{
	const struct merge_stack stack = {
		.natives = natives, .native_count = 4, .controls = controls, .control_count = COUNT(controls)};
	bool placed;

	(void)state;
	assert_string_equal(merged(&stack, INTERPRETER, &placed), "r0 r1 r2 r3 r4");
	assert_false(placed);
	assert_string_equal(merged(&both, 0, &placed), "r0 r1 r2 r3 r4");
	assert_false(placed);
}

static void the_interpreter_is_the_largest_function_that_is_there_as_often_as_it_was_entered(void **state)
{
	static struct merge_interpreter interpreter;
	static const struct merge_native once[] = {VM(0x700, 90000), VM(INTERPRETER, 5000), VM(HELPER, 40)};
	static const struct merge_control entered[] = {ENTERS};
	const struct merge_stack single = {.natives = once, .native_count = 3, .controls = entered, .control_count = 1};
	struct merge_stack cut = both;

	(void)state;
	cut.cut = true;
	assert_int_equal(merge_interpreter_find(&interpreter).usual, 0);
	merge_learn(&interpreter, &cut);
	assert_int_equal(merge_interpreter_find(&interpreter).usual, 0);
	merge_learn(&interpreter, &single);
	for (int i = 0; i < 20; i++)
		merge_learn(&interpreter, &both);
	assert_int_equal(merge_interpreter_find(&interpreter).usual, INTERPRETER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_in_c_are_where_they_were_called),
		cmocka_unit_test(what_starts_a_thread_and_what_the_vm_does_is_not_shown),
		cmocka_unit_test(a_function_without_a_name_is_its_method),
		cmocka_unit_test(a_method_in_c_whose_function_is_not_there_is_above_all_native_ones),
		cmocka_unit_test(where_native_frames_are_missing_further_out_the_inner_ones_are_placed),
		cmocka_unit_test(nothing_is_guessed_where_both_do_not_agree),
		cmocka_unit_test(the_interpreter_is_the_largest_function_that_is_there_as_often_as_it_was_entered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
