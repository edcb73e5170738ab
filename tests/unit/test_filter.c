/* Records that meet conditions come out as a process would have sent them. What the live tests cannot make happen is here. */

#include "stream_fixture.h"
#include "tracer/recording/filter.h"
#include "unit.h"

#include <string.h>

static const struct sink_style plain = {.indent = 3};

static int setup(void **state)
{
	return fixture_open(state, &sink_text, &plain);
}

/* What the fixture's stream shows of its records, after the filter. */
static void shows(struct fixture *f, const struct filter_wants *wants, uint64_t left_out, const char *expected)
{
	struct filter *filter = filter_new(wants, f->stream);
	struct error err = {0};

	if (filter_feed(filter, f->records.data, f->records.size, &err) < 0 || filter_finish(filter, &err) < 0)
		fail_msg("%s", err.text);
	calls_finish(f->stream);
	assert_int_equal(filter_left_out(filter), left_out);
	filter_free(filter);
	msgpack_sbuffer_clear(&f->records);
	assert_string_equal(fixture_output(f), expected);
}

static void announce(struct fixture *f)
{
	method(f, 1, "Shop", "sell");
	method(f, 2, "Shop", "price");
	fiber(f, 1, 77, "main");
}

static void a_call_that_is_open_at_the_end_is_shown_if_it_is_slow(void **state)
{
	static const struct conditions slow = {.slow_ns = 5 * MICROSECOND};
	struct fixture *f = *state;

	announce(f);
	event(f, EVENT_START, 0, 1, 1, 1, "#<Shop>", "3");
	event(f, EVENT_START, 0, 2, 1, 8, "late", NULL);
	whole(f, ENDING_RETURNED, 2, 1, 9, 1, "quick", NULL);
	shows(f, &(struct filter_wants){.conditions = &slow}, 2, "Shop#sell(self=#<Shop>, num=3)\n");
}

static void retries_come_between_start_and_end(void **state)
{
	static const struct conditions slow = {.slow_ns = 5 * MICROSECOND};
	static const struct record again = {.kind = RECORD_RETRIED, .retried = {.fiber = 1, .times = 2}};
	struct fixture *f = *state;

	announce(f);
	event(f, EVENT_START, 0, 1, 1, 1, "#<Shop>", NULL);
	record_encode(&f->records, &again);
	event(f, EVENT_END, ENDING_RETURNED, 1, 1, 10, NULL, NULL);
	shows(f, &(struct filter_wants){.conditions = &slow}, 0, "Shop#sell(self=#<Shop>) (retried 2 times)\n");
}

static void a_malformed_stream_is_refused(void **state)
{
	static const struct conditions depth = {.depth = 1};
	const struct filter_wants wants = {.conditions = &depth};
	struct fixture *f = *state;
	struct filter *filter = filter_new(&wants, f->stream);
	struct error err;

	announce(f);
	event(f, EVENT_END, ENDING_RETURNED, 1, 1, 10, NULL, NULL);
	assert_true(filter_feed(filter, f->records.data, f->records.size, &err) < 0);
	filter_free(filter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_call_that_is_open_at_the_end_is_shown_if_it_is_slow, setup, fixture_close),
		cmocka_unit_test_setup_teardown(retries_come_between_start_and_end, setup, fixture_close),
		cmocka_unit_test_setup_teardown(a_malformed_stream_is_refused, setup, fixture_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
