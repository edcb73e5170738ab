/* Ticks become nanoseconds: close to the true clock, never backwards, through other rates, bad readings and suspensions. */

#include "tracee/base/ticks.h"
#include "unit.h"

#include <unistd.h>

#define MS UINT64_C(1000000)

static struct ticks_reading reading(uint64_t ns, double ticks_a_ns)
{
	return (struct ticks_reading){(uint64_t)((double)ns * ticks_a_ns), ns};
}

static uint64_t difference(uint64_t one, uint64_t other)
{
	return one > other ? one - other : other - one;
}

static void a_steady_clock_is_followed(void **state)
{
	static const double rates[] = {0.1, 1.0, 2.4, 5.7};

	(void)state;
	for (size_t i = 0; i < sizeof(rates) / sizeof(*rates); i++) {
		struct ticks_clock clock;

		ticks_clock_begin(&clock, reading(1000 * MS, rates[i]), reading(1002 * MS, rates[i]));
		for (uint64_t ns = 1002 * MS; ns < 90000 * MS; ns += 7 * MS + 13) {
			assert_true(difference(ticks_to_ns(&clock, reading(ns, rates[i]).ticks), ns) < 100);
			if (ns - clock.last.ns >= 20 * MS)
				ticks_clock_bend(&clock, reading(ns, rates[i]));
		}
	}
}

/*
 * The first two readings are 2 ms apart and 100 ns off, later ones as well: what is told stays within a microsecond and
 * goes on.
 */
static void readings_that_are_a_little_off_do_no_harm(void **state)
{
	struct ticks_clock clock;
	uint64_t told = 0;

	(void)state;
	ticks_clock_begin(&clock, reading(1000 * MS + 100, 2.4), reading(1002 * MS, 2.4));
	for (uint64_t ns = 1002 * MS; ns < 60000 * MS; ns += MS) {
		uint64_t now = ticks_to_ns(&clock, reading(ns, 2.4).ticks);

		assert_true(now > told);
		assert_true(difference(now, ns) < 2000);
		if (ns > 1200 * MS)
			assert_true(difference(now, ns) < 1000);
		told = now;
		if (ns - clock.last.ns >= 20 * MS)
			ticks_clock_bend(&clock, (struct ticks_reading){reading(ns, 2.4).ticks, ns + (ns / MS % 2 ? 100 : 0)});
	}
}

/* As NTP does it: CLOCK_MONOTONIC runs 0.5 per mille faster from some moment on. */
static void another_rate_is_caught_up_with(void **state)
{
	struct ticks_clock clock;
	uint64_t told = 0, ticks = 0, ns = 0;

	(void)state;
	ticks_clock_begin(&clock, (struct ticks_reading){0, 0}, (struct ticks_reading){2 * MS, 2 * MS});
	for (int ms = 2; ms < 40000; ms++) {
		uint64_t now;

		ticks = (uint64_t)ms * MS;
		ns = ms < 5000 ? ticks : ticks + (ticks - 5000 * MS) / 2000;
		now = ticks_to_ns(&clock, ticks);
		assert_true(now > told);
		assert_true(difference(now, ns) < 100000);
		if (ms > 39000)
			assert_true(difference(now, ns) < 20000);
		told = now;
		if (ms % 20 == 0)
			ticks_clock_bend(&clock, (struct ticks_reading){ticks, ns});
	}
}

/* The counter went on while the machine slept, the clock did not: no catching up for hours. */
static void a_suspension_is_stepped_over(void **state)
{
	struct ticks_clock clock;

	(void)state;
	ticks_clock_begin(&clock, (struct ticks_reading){0, 0}, (struct ticks_reading){2 * MS, 2 * MS});
	ticks_clock_bend(&clock, (struct ticks_reading){22 * MS, 22 * MS});
	ticks_clock_bend(&clock, (struct ticks_reading){3600000 * MS, 42 * MS});
	assert_true(difference(ticks_to_ns(&clock, 3600005 * MS), 47 * MS) < 1000);
	ticks_clock_bend(&clock, (struct ticks_reading){3600020 * MS, 62 * MS});
	assert_true(difference(ticks_to_ns(&clock, 3600025 * MS), 67 * MS) < 1000);
}

static void what_lies_before_the_line_is_converted_too(void **state)
{
	struct ticks_clock clock;

	(void)state;
	ticks_clock_begin(&clock, reading(1000 * MS, 2.0), reading(1002 * MS, 2.0));
	assert_true(difference(ticks_to_ns(&clock, reading(900 * MS, 2.0).ticks), 900 * MS) < 100);
}

/* The machine's own clocks, whichever it has. */
static void ticks_go_on(void **state)
{
	struct ticks_clock clock;
	uint64_t before, told = 0;

	(void)state;
	ticks_init();
	ticks_clock_open(&clock);
	ticks_clock_adjust(&clock);
	before = ticks_now();
	for (int i = 0; i < 100000; i++) {
		uint64_t ticks = ticks_now(), now = ticks_to_ns(&clock, ticks);

		assert_true(ticks >= before);
		assert_true(now >= told);
		before = ticks;
		told = now;
	}
}

/* A clock that catches up has a rate of its own: sums of ticks are not converted by that. */
static void the_counters_rate_does_not_bend(void **state)
{
	struct ticks_reading opened;
	uint64_t first;

	(void)state;
	ticks_init();
	opened = ticks_read();
	first = ticks_rate_since(&opened);
	assert_true(first > 0);
	for (int i = 0; i < 5; i++) {
		uint64_t rate;

		usleep(2000);
		rate = ticks_rate_since(&opened);
		assert_true(difference(rate, first) < first / 50);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_steady_clock_is_followed),
		cmocka_unit_test(readings_that_are_a_little_off_do_no_harm),
		cmocka_unit_test(another_rate_is_caught_up_with),
		cmocka_unit_test(a_suspension_is_stepped_over),
		cmocka_unit_test(what_lies_before_the_line_is_converted_too),
		cmocka_unit_test(ticks_go_on),
		cmocka_unit_test(the_counters_rate_does_not_bend),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
