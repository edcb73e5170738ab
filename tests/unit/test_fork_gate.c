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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fork_waits_for_no_thread),
		cmocka_unit_test(a_thread_that_has_yet_to_start_is_waited_for_where_a_sanitizer_allocates_in_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
