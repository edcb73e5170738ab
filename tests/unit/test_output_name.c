/* Names of files with the PID in them. */

#include "tracer/base/output_name.h"
#include "unit.h"

#include <stdlib.h>

static void expect(const char *name, bool has_pid, const char *result)
{
	char *made = output_name_of(name, 4711);

	assert_true(output_name_is_valid(name));
	assert_int_equal(output_name_has_pid(name), has_pid);
	assert_string_equal(made, result);
	free(made);
}

static void test_what_stands_for_what(void **state)
{
	(void)state;
	expect("trace.txt", false, "trace.txt");
	expect("trace-%p.txt", true, "trace-4711.txt");
	expect("%p", true, "4711");
	expect("100%%", false, "100%");
	expect("%%p", false, "%p");
	expect("%%%p/%p%%", true, "%4711/4711%");
	expect("", false, "");
}

static void test_other_letters(void **state)
{
	(void)state;
	assert_false(output_name_is_valid("%"));
	assert_false(output_name_is_valid("a%d"));
	assert_false(output_name_is_valid("%p%"));
	assert_false(output_name_is_valid("%%%"));
	assert_false(output_name_has_pid("%"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_stands_for_what),
		cmocka_unit_test(test_other_letters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
