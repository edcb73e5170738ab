/* Waiting for descriptors and a time: what is ready is said, and nothing else; a time that is past is not waited for. */

#include "unit.h"

#include "proto/clock.h"
#include "tracer/base/poll_until.h"

#include <unistd.h>

static void what_is_ready_is_said(void **state)
{
	int one[2], other[2];

	(void)state;
	assert_int_equal(pipe(one), 0);
	assert_int_equal(pipe(other), 0);
	assert_int_equal(write(other[1], "!", 1), 1);

	struct pollfd polled[] = {
		{.fd = one[0], .events = POLLIN}, {.fd = -1, .events = POLLIN}, {.fd = other[0], .events = POLLIN}};

	assert_true(poll_until(polled, 3, UINT64_MAX));
	assert_int_equal(polled[0].revents, 0);
	assert_int_equal(polled[1].revents, 0);
	assert_int_equal(polled[2].revents, POLLIN);
	for (int i = 0; i < 2; i++) {
		close(one[i]);
		close(other[i]);
	}
}

static void a_time_that_is_past_is_not_waited_for(void **state)
{
	struct pollfd none = {.fd = -1, .events = POLLIN, .revents = POLLIN};

	(void)state;
	assert_false(poll_until(&none, 1, 0));
	assert_int_equal(none.revents, 0);
}

static void the_time_ends_the_wait(void **state)
{
	uint64_t wake_ns = clock_now_ns() + 3 * NS_PER_MS;
	struct pollfd nothing = {.fd = -1};

	(void)state;
	/* A signal may end it before. */
	while (clock_now_ns() < wake_ns)
		assert_false(poll_until(&nothing, 0, wake_ns));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_ready_is_said),
		cmocka_unit_test(a_time_that_is_past_is_not_waited_for),
		cmocka_unit_test(the_time_ends_the_wait),
	};

	return cmocka_run_group_tests_name("poll_until", tests, NULL, NULL);
}
