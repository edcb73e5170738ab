/* The processes of a recording: tracer/recording/recorded.c. */

#include "unit.h"

#include "tracer/recording/recorded.h"

static void test_one_that_is_there_again_is_one(void **state)
{
	struct recorded recorded = {0};

	(void)state;
	assert_int_equal(recorded_count(&recorded), 0);
	assert_int_equal(recorded_pid(&recorded), 0);
	recorded_add(&recorded, 12, 30);
	recorded_add(&recorded, 12, 40);
	assert_int_equal(recorded_count(&recorded), 1);
	assert_int_equal(recorded_pid(&recorded), 12);
	assert_int_equal(recorded.longest_ns, 70);
	recorded_free(&recorded);
}

static void test_several_at_the_same_time(void **state)
{
	struct recorded recorded = {0};

	(void)state;
	for (pid_t pid = 1; pid <= 100; pid++)
		recorded_add(&recorded, pid, 10u * (unsigned)pid);
	recorded_add(&recorded, 50, 600);
	assert_int_equal(recorded_count(&recorded), 100);
	assert_int_equal(recorded_pid(&recorded), 0);
	assert_int_equal(recorded.longest_ns, 1100);
	recorded_free(&recorded);
}

static void test_a_file_that_lies_takes_no_more_than_a_limit(void **state)
{
	struct recorded recorded = {0};

	(void)state;
	for (pid_t pid = 1; pid <= 1000000; pid++)
		recorded_add(&recorded, pid, 1);
	assert_int_equal(recorded_count(&recorded), 1000000);
	assert_true(recorded.pids.memory < RECORDED_MEMORY_MAX + 1024);
	recorded_free(&recorded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_that_is_there_again_is_one),
		cmocka_unit_test(test_several_at_the_same_time),
		cmocka_unit_test(test_a_file_that_lies_takes_no_more_than_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
