/* Moments that people name, in a recording that began at some other. */

#include "proto/clock.h"
#include "tracer/commands/replay_when.h"
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* 2026-11-24 23:30:00 UTC */
#define BEGAN (UINT64_C(1795563000) * NS_PER_S)

static int setup(void **state)
{
	(void)state;
	setenv("TZ", "UTC", 1);
	tzset();
	return 0;
}

static uint64_t seconds_after(const char *text)
{
	struct replay_when when = {0};

	assert_int_equal(replay_when_parse("--from", text, &when), 0);
	return (replay_when_ns(&when, BEGAN) - BEGAN) / (NS_PER_S / 10);
}

static void times_are_of_the_day_the_recording_began(void **state)
{
	(void)state;
	assert_int_equal(seconds_after("23:30"), 0);
	assert_int_equal(seconds_after("23:31:02.5"), 625);
	assert_int_equal(seconds_after("+2.5"), 25);
	assert_int_equal(seconds_after("2026-11-24 23:30:01"), 10);
	assert_int_equal(seconds_after("2026-11-25T00:30"), 36000);
}

static void after_midnight_it_is_the_next_day(void **state)
{
	(void)state;
	assert_int_equal(seconds_after("00:30"), 36000);
}

static void what_is_no_time_is_refused(void **state)
{
	static const char *const texts[] = {"",    "noon", "25:00",      "12:00:60",    "12:00:00 ", "12",  "+",
	                                    "+-1", "+1s",  "2026-11-24", "2026-11-24 ", "12:00:1e9", "+nan"};
	struct replay_when when = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (replay_when_parse("--from", texts[i], &when) != EINVAL)
			fail_msg("\"%s\" was taken", texts[i]);
}

static void nothing_given_is_any_time(void **state)
{
	const struct replay_when when = {0};

	(void)state;
	assert_int_equal(replay_when_ns(&when, BEGAN), 0);
}

static bool is_empty(const char *from, const char *to)
{
	struct replay_when begin = {0}, end = {0};

	assert_int_equal(replay_when_parse("--from", from, &begin), 0);
	assert_int_equal(replay_when_parse("--to", to, &end), 0);
	return replay_when_is_empty(&begin, "--to", &end);
}

/* 00:10 may be that of the next day, and +1 is whenever the recording began. */
static void what_can_have_nothing_in_between_is_empty(void **state)
{
	const struct replay_when any = {0}, after = {.kind = WHEN_AFTER, .ns = 1};

	(void)state;
	assert_true(is_empty("+2", "+1"));
	assert_false(is_empty("+1", "+2"));
	assert_false(is_empty("+1", "+1"));
	assert_true(is_empty("2026-11-24 23:30", "2026-11-24 23:29:59.5"));
	assert_true(is_empty("2026-12-01 00:00", "2026-11-24 23:30"));
	assert_true(is_empty("2027-01-01 00:00", "2026-11-24 23:30"));
	assert_false(is_empty("2026-11-24 23:30", "2026-12-01 00:00"));
	assert_false(is_empty("23:50", "00:10"));
	assert_false(is_empty("2026-11-24 23:30", "+1"));
	assert_false(replay_when_is_empty(&after, "--to", &any));
	assert_false(replay_when_is_empty(&any, "--to", &after));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_are_of_the_day_the_recording_began),
		cmocka_unit_test(after_midnight_it_is_the_next_day),
		cmocka_unit_test(what_is_no_time_is_refused),
		cmocka_unit_test(what_can_have_nothing_in_between_is_empty),
		cmocka_unit_test(nothing_given_is_any_time),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
