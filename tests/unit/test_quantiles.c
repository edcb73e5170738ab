/* Percentiles of what a process has counted in buckets, against those of the same times, sorted. */

#include "answer_fixture.h"
#include "tracer/stream/stat_table.h"

#include "proto/histogram.h"

#include <math.h>
#include <stdlib.h>

#define TIMES 100003 /* no percentile is of a whole number of them */

static uint64_t times[TIMES];

static uint64_t random_number(void)
{
	static uint64_t seed = 0x9e3779b97f4a7c15;

	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* Above 0, and at most 1. */
static double random_part(void)
{
	return (double)((random_number() >> 11) + 1) / 9007199254740992.0;
}

/* --- Distributions, in ticks */

static uint64_t uniform(int i)
{
	(void)i;
	return 1000 + (uint64_t)(random_part() * 1e6);
}

static uint64_t exponential(int i)
{
	(void)i;
	return 100 + (uint64_t)(-log(random_part()) * 50000);
}

/* Of a thousand calls `slow` take the way that is 10,000 times as long: where percentiles lie between both, a rank decides. */
static uint64_t bimodal(int i, int slow)
{
	uint64_t fast = 200 + (uint64_t)(random_part() * 100);

	return i % 1000 < slow ? fast * 10000 : fast;
}

static uint64_t half_slow(int i)
{
	return bimodal(i, 500);
}

static uint64_t tenth_slow(int i)
{
	return bimodal(i, 100);
}

static uint64_t hundredth_slow(int i)
{
	return bimodal(i, 10);
}

static uint64_t thousandth_slow(int i)
{
	return bimodal(i, 1);
}

static uint64_t constant(int i)
{
	(void)i;
	return 123457;
}

/* So heavy that it has no mean. */
static uint64_t heavy_tail(int i)
{
	(void)i;
	return (uint64_t)(100 / random_part());
}

/* --- */

static struct slice name_of(const void *owner, uint32_t method)
{
	(void)owner;
	return method == 0 ? SLICE("Order#save") : (struct slice){NULL, 0};
}

static void pair(const char *name, uint64_t number)
{
	answer_text(name);
	msgpack_pack_uint64(&packer, number);
}

/* What a process answers that has counted these calls. */
static void pack_times(uint64_t rate)
{
	static uint64_t counts[HISTOGRAM_BUCKETS];
	uint64_t total = 0, least = UINT64_MAX, most = 0;
	size_t used = 0;

	memset(counts, 0, sizeof(counts));
	for (size_t i = 0; i < TIMES; i++) {
		used += counts[histogram_bucket(times[i])]++ == 0;
		total += times[i];
		least = times[i] < least ? times[i] : least;
		most = times[i] > most ? times[i] : most;
	}
	msgpack_sbuffer_clear(&packed);
	msgpack_pack_map(&packer, 2);
	pair("rate", rate);
	answer_text("methods");
	msgpack_pack_array(&packer, 1);
	msgpack_pack_map(&packer, 6);
	pair("method", 0);
	pair("calls", TIMES);
	pair("total", total);
	pair("min", least);
	pair("max", most);
	answer_text("histogram");
	msgpack_pack_array(&packer, 2 * used);
	for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
		if (!counts[bucket])
			continue;
		msgpack_pack_uint32(&packer, bucket);
		msgpack_pack_uint64(&packer, counts[bucket]);
	}
}

static int compare_times(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return (a > b) - (a < b);
}

/* The least time that so many thousandths of the calls did not exceed. */
static double exact(unsigned thousandths)
{
	size_t rank = ((size_t)TIMES * thousandths + 999) / 1000;

	return (double)times[rank - 1];
}

static void check(const char *name, uint64_t (*time)(int i), double ns_a_tick)
{
	static const unsigned thousandths[] = {1, 100, 500, 900, 990, 999, 1000};
	struct stat_table table = {0};
	struct error err;
	size_t offset = 0;

	for (int i = 0; i < TIMES; i++)
		times[i] = time(i);
	pack_times((uint64_t)(ns_a_tick * 4294967296.0));
	assert_int_equal(msgpack_unpack_next(&unpacked, packed.data, packed.size, &offset), MSGPACK_UNPACK_SUCCESS);
	assert_int_equal(stat_table_add(&table, &unpacked.data, name_of, NULL, &err), 0);
	assert_int_equal(table.count, 1);
	qsort(times, TIMES, sizeof(*times), compare_times);
	for (size_t i = 0; i < sizeof(thousandths) / sizeof(*thousandths); i++) {
		double ns = exact(thousandths[i]) * ns_a_tick;
		double shown_ns = stat_row_quantile(&table.rows[0], thousandths[i] / 1000.0);

		/* What the manual promises. */
		if (fabs(shown_ns - ns) > 0.016 * ns)
			fail_msg("%s: p%g is %.1f ns, and is shown as %.1f ns", name, thousandths[i] / 10.0, ns, shown_ns);
	}
	stat_table_free(&table);
}

static void percentiles_are_those_of_the_sorted_times(void **state)
{
	static const struct {
		const char *name;
		uint64_t (*time)(int i);
	} distributions[] = {
		{"uniform", uniform},         {"exponential", exponential},         {"half slow", half_slow},
		{"a tenth slow", tenth_slow}, {"a hundredth slow", hundredth_slow}, {"a thousandth slow", thousandth_slow},
		{"constant", constant},       {"heavy tail", heavy_tail},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(distributions) / sizeof(*distributions); i++) {
		check(distributions[i].name, distributions[i].time, 1);
		check(distributions[i].name, distributions[i].time, 0.3333);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(percentiles_are_those_of_the_sorted_times, answer_setup, answer_teardown),
	};

	return cmocka_run_group_tests_name("quantiles", tests, NULL, NULL);
}
