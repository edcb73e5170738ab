/* Whether two samples differ, and what is said of it. */

#include "stream_fixture.h"
#include "tracer/commands/report_diff.h"
#include "unit.h"

#include <math.h>

static struct report_sample sample(uint64_t calls, double mean_ns, double deviation_ns)
{
	return (struct report_sample){calls, {mean_ns, deviation_ns * deviation_ns * ((double)calls - 1)}};
}

static bool differ(struct report_sample then, struct report_sample now)
{
	return report_differs(&then, &now);
}

/* Two samples of n with one deviation: 2n - 2 degrees of freedom. One in a hundred is beyond t. */
static void the_limit_is_students(void **state)
{
	static const struct {
		uint64_t calls;
		double t;
	} table[] = {{5, 3.355}, {10, 2.878}, {100, 2.601}};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		double error = 100 * sqrt(2.0 / (double)table[i].calls);

		assert_true(
			differ(sample(table[i].calls, 1000, 100), sample(table[i].calls, 1000 + 1.02 * table[i].t * error, 100)));
		assert_false(
			differ(sample(table[i].calls, 1000, 100), sample(table[i].calls, 1000 + 0.98 * table[i].t * error, 100)));
		assert_true(
			differ(sample(table[i].calls, 1000, 100), sample(table[i].calls, 1000 - 1.02 * table[i].t * error, 100)));
	}
}

static void what_never_varies_differs_when_it_does(void **state)
{
	(void)state;
	assert_false(differ(sample(9, 1000, 0), sample(9, 1000, 0)));
	assert_true(differ(sample(9, 1000, 0), sample(9, 1001, 0)));
	assert_false(differ(sample(1, 1000, 0), sample(9, 2000, 0)));
}

static int ranks(const uint64_t then[3], const uint64_t now[3])
{
	struct stat_bucket before[3], after[3];
	struct stat_row one = {.buckets = before}, other = {.buckets = after};

	for (uint32_t i = 0; i < 3; i++) {
		if (then[i])
			before[one.bucket_count++] = (struct stat_bucket){.number = i, .count = then[i]};
		if (now[i])
			after[other.bucket_count++] = (struct stat_bucket){.number = i, .count = now[i]};
	}
	return report_ranks_differ(&one, &other);
}

/* Five and five are told apart if all of the one are longer than all of the other, which is so in 2 of 252 orders. */
static void ranks_differ_by_how_many_are_longer(void **state)
{
	(void)state;
	assert_int_equal(1, ranks((uint64_t[]){5, 0, 0}, (uint64_t[]){0, 5, 0}));
	assert_int_equal(-1, ranks((uint64_t[]){0, 0, 5}, (uint64_t[]){5, 0, 0}));
	assert_int_equal(0, ranks((uint64_t[]){0, 4, 1}, (uint64_t[]){1, 2, 2}));
	assert_int_equal(0, ranks((uint64_t[]){900, 0, 9}, (uint64_t[]){900, 0, 9}));
	assert_int_equal(0, ranks((uint64_t[]){0, 9, 0}, (uint64_t[]){0, 8, 0}));
	assert_int_equal(1, ranks((uint64_t[]){900, 20, 9}, (uint64_t[]){20, 900, 9}));
	assert_int_equal(0, ranks((uint64_t[]){0, 0, 0}, (uint64_t[]){20, 900, 9}));
}

static int rates(uint64_t calls, uint64_t seconds, uint64_t calls_now, uint64_t seconds_now)
{
	return report_rates_differ(&(struct report_rate){calls, seconds * 1000000000},
	                           &(struct report_rate){calls_now, seconds_now * 1000000000});
}

static void rates_differ_by_calls_a_second(void **state)
{
	(void)state;
	assert_int_equal(1, rates(100, 10, 300, 10));
	assert_int_equal(-1, rates(300, 10, 100, 10));
	assert_int_equal(0, rates(100, 10, 300, 30));
	assert_int_equal(1, rates(100, 10, 100, 1));
	/* 36 standard errors, and a fifth: another load. */
	assert_int_equal(0, rates(100000, 10, 120000, 10));
	assert_int_equal(1, rates(100000, 10, 126000, 10));
	/* The limit is at 2.58 of the difference's standard error. */
	assert_int_equal(0, rates(10, 10, 24, 10));
	assert_int_equal(1, rates(10, 10, 26, 10));
	assert_int_equal(0, rates(0, 0, 300, 10));
	assert_int_equal(0, rates(0, 10, 0, 10));
}

static const struct sink_style plain = {.indent = 3};

/* So many calls of each method, of so many us each, in so many seconds. */
static struct figures *figures_in(const char *const *names, const uint64_t *us, size_t count, uint64_t calls, uint64_t seconds)
{
	static struct output output = {.fd = -1};
	struct figures *figures = figures_new(FIGURES_BY_METHOD, NULL);
	struct sink *sink = figures_sink(figures, &output, &plain);
	struct stream *stream = stream_new(77, sink, NULL, NULL, NULL);
	struct fixture f = {0};
	struct error err = {0};

	msgpack_sbuffer_init(&f.records);
	fiber(&f, 1, 77, "main");
	for (uint32_t i = 0; i < count; i++) {
		method(&f, i, "Shop", names[i]);
		for (uint64_t k = 0; k < calls; k++)
			whole(&f, ENDING_RETURNED, i, 1, 100 * k, us[i] + k % 2, NULL, NULL);
	}
	if (stream_feed(stream, f.records.data, f.records.size, &err) < 0)
		fail_msg("%s", err.text);
	sink->ops->summary(sink, &(struct sink_summary){.pid = 77, .duration_ns = seconds * 1000000000});
	msgpack_sbuffer_destroy(&f.records);
	stream_free(stream);
	sink_free(sink);
	return figures;
}

static struct figures *figures_of(const char *const *names, const uint64_t *us, size_t count)
{
	return figures_in(names, us, count, 10, 2);
}

static void what_changed_most_comes_first(void **state)
{
	static const char *const before[] = {"same", "slow", "gone"}, *const after[] = {"same", "slow", "fresh"};
	static const uint64_t before_us[] = {50, 10, 3}, after_us[] = {50, 90, 7};
	struct figures *then = figures_of(before, before_us, 3), *now = figures_of(after, after_us, 3);
	struct buffer text = {0};

	(void)state;
	report_diff_text(&text, &(struct report_diff){.then = then, .now = now});
	buffer_add_char(&text, '\0');
	assert_string_equal(text.bytes, "then 2.0 s: 30 calls; now 2.0 s: 30 calls\n"
	                                "calls/s      now  called         mean      now   change  is       method\n"
	                                "   5.00     5.00  noise        10.5us   90.5us  +761.9%  slower   Shop#slow\n"
	                                "   0.00     5.00  -                 -   7.50us        -  new      Shop#fresh\n"
	                                "   5.00     0.00  -            3.50us        -        -  gone     Shop#gone\n"
	                                "   5.00     5.00  noise        50.5us   50.5us    +0.0%  noise    Shop#same\n");
	buffer_free(&text);
	figures_free(then);
	figures_free(now);
}

static void assert_verdict(const char *expected, const struct figures *then, const struct figures *now)
{
	struct buffer text = {0};

	report_diff_text(&text, &(struct report_diff){.then = then, .now = now});
	buffer_add_char(&text, '\0');
	assert_non_null(strstr(text.bytes, expected));
	buffer_free(&text);
}

/* As long as before, but five times as often: that is what changed most. */
static void what_is_called_more_often_is_said(void **state)
{
	static const char *const before[] = {"query"};
	static const uint64_t us[] = {50};
	struct figures *then = figures_in(before, us, 1, 20, 2), *now = figures_in(before, us, 1, 500, 10);
	struct buffer text = {0};

	(void)state;
	assert_verdict("   10.0     50.0  more often   50.5us   50.5us    +0.0%  noise    Shop#query\n", then, now);
	assert_verdict("   50.0     10.0  less often ", now, then);
	report_diff_json(&text, &(struct report_diff){.then = then, .now = now});
	buffer_add_char(&text, '\0');
	assert_non_null(strstr(text.bytes, "\"is\":\"noise\",\"called\":\"more often\","));
	assert_non_null(strstr(text.bytes, "\"then\":{\"calls\":20,\"calls_per_s\":10"));
	assert_non_null(strstr(text.bytes, "\"now\":{\"calls\":500,\"calls_per_s\":50"));
	buffer_free(&text);
	figures_free(then);
	figures_free(now);
}

/* A method of which nine of ten calls take so long, and the last one a second more. */
static struct figures *figures_with_one_long(uint64_t us)
{
	static const char *const names[] = {"work", "work", "work", "work", "work", "work", "work", "work", "work", "work"};
	const uint64_t all_us[] = {us, us, us, us, us, us, us, us, us, 1000000 + us};

	return figures_of(names, all_us, 10);
}

/* The mean of each is that of the call that took a second. */
static void a_call_that_took_very_long_hides_no_change(void **state)
{
	struct figures *then = figures_with_one_long(10), *now = figures_with_one_long(100);

	(void)state;
	assert_verdict("slower   Shop#work", then, now);
	assert_verdict("noise    Shop#work", then, then);
	figures_free(then);
	figures_free(now);
}

/* The same, where nine of ten take a tenth more. */
static void what_a_machine_does_is_no_change(void **state)
{
	struct figures *then = figures_with_one_long(100), *now = figures_with_one_long(110);

	(void)state;
	assert_verdict("noise    Shop#work", then, now);
	figures_free(then);
	figures_free(now);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_limit_is_students),
		cmocka_unit_test(what_never_varies_differs_when_it_does),
		cmocka_unit_test(ranks_differ_by_how_many_are_longer),
		cmocka_unit_test(rates_differ_by_calls_a_second),
		cmocka_unit_test(what_is_called_more_often_is_said),
		cmocka_unit_test(what_changed_most_comes_first),
		cmocka_unit_test(a_call_that_took_very_long_hides_no_change),
		cmocka_unit_test(what_a_machine_does_is_no_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
