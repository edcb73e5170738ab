/* The gate for our threads around a fork: it holds nobody up where there is no reason to. */

#include "tracee/base/fork_gate.h"

#include "unit.h"

#include <stdbool.h>
#include <time.h>

extern void __asan_init(void) __attribute__((weak));

static unsigned naps;

/* In the place of libc's. */
int nanosleep(const struct timespec *request, struct timespec *left)
{
	(void)request;
	(void)left;
	naps++;
	return 0;
}

static void fork_beside(bool thread_is_coming)
{
	naps = 0;
	if (thread_is_coming)
		fork_gate_thread_is_coming();
	fork_gate_close();
	fork_gate_open();
	if (thread_is_coming)
		fork_gate_thread_is_here();
}

static void a_fork_waits_for_no_thread(void **state)
{
	(void)state;
	fork_beside(false);
	assert_int_equal(naps, 0);
}

static void a_thread_that_has_yet_to_start_is_waited_for_where_a_sanitizer_allocates_in_it(void **state)
{
	(void)state;
	fork_beside(true);
	assert_int_equal(naps != 0, __asan_init != NULL);
}

static void what_a_child_must_not_have_is_left_while_a_fork_is_under_way(void **state)
{
	(void)state;
	assert_true(fork_gate_try_enter());
	fork_gate_leave();
	fork_gate_close();
	assert_false(fork_gate_try_enter());
	fork_gate_open();
	assert_true(fork_gate_try_enter());
	assert_false(fork_gate_try_enter());
	fork_gate_fork_child();
	assert_true(fork_gate_try_enter());
	fork_gate_leave();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fork_waits_for_no_thread),
		cmocka_unit_test(a_thread_that_has_yet_to_start_is_waited_for_where_a_sanitizer_allocates_in_it),
		cmocka_unit_test(what_a_child_must_not_have_is_left_while_a_fork_is_under_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
