/* Calls that come after those inside them: tracer/recording/ended.c. */

#include "unit.h"

#include "tracer/recording/ended.h"

static void test_calls_inside_are_those_that_began_later(void **state)
{
	struct buffer kept = {0};

	(void)state;
	ended_add(&kept, 0, 100, 10);
	ended_add(&kept, 0, 210, 20);
	ended_add(&kept, 0, 240, 30);
	assert_int_equal(ended_take(&kept, 0, 200), 50);
	assert_int_equal(ended_take(&kept, 0, 200), 0);
	assert_int_equal(ended_take(&kept, 0, 100), 10);
	assert_int_equal(kept.size, 0);
	buffer_free(&kept);
}

static void test_what_is_before_them_stays(void **state)
{
	struct buffer kept = {0};

	(void)state;
	buffer_add(&kept, "abc", 3);
	ended_add(&kept, 3, 5, 7);
	assert_int_equal(ended_take(&kept, 3, 0), 7);
	assert_int_equal(ended_take(&kept, 3, 0), 0);
	assert_int_equal(kept.size, 3);
	assert_memory_equal(kept.bytes, "abc", 3);
	buffer_free(&kept);
}

static void test_many_are_put_together(void **state)
{
	struct buffer kept = {0};

	(void)state;
	for (uint64_t i = 0; i < 100000; i++)
		ended_add(&kept, 0, 1000 + i, 1);
	assert_true(kept.size <= ENDED_MAX * 16);
	assert_int_equal(ended_take(&kept, 0, 1000), 100000);
	buffer_free(&kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls_inside_are_those_that_began_later),
		cmocka_unit_test(test_what_is_before_them_stays),
		cmocka_unit_test(test_many_are_put_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
