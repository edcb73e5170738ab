/* How many samples are taken, by what they take. */

#include "proto/sampling_budget.h"
#include "unit.h"

#define MS UINT64_C(1000000)

static void samples_that_take_too_much_become_fewer(void **state)
{
	struct sampling_budget budget = {.least_ns = 10 * MS, .allowed = profile_allowed(100)};

	(void)state;
	assert_true(profile_allowed(1) == 0.01 && profile_allowed(1000) == 0.03);
	assert_true(profile_allowed(550) > 0.0199 && profile_allowed(550) < 0.0201);
	assert_false(sampling_budget_is_due(&budget, 10 * MS, 199 * MS));
	assert_true(sampling_budget_is_due(&budget, 10 * MS, 200 * MS));
	assert_false(sampling_budget_is_due(&budget, 50 * MS, 249 * MS));
	/* As many as may be, and then twice as much as that: a few less than would be enough, as the next may take more. */
	assert_int_equal(sampling_budget_period_ns(&budget, 10 * MS, 200 * MS, 2 * MS), 10 * MS);
	assert_in_range(sampling_budget_period_ns(&budget, 10 * MS, 400 * MS, 6 * MS), 26 * MS, 27 * MS);
	/* One look may be wrong by far. */
	assert_int_equal(sampling_budget_period_ns(&budget, 24 * MS, 600 * MS, 200 * MS), 96 * MS);
	assert_int_equal(sampling_budget_period_ns(&budget, 900 * MS, 800 * MS, 400 * MS), SAMPLING_PERIOD_MAX_NS);
}

/* Its first sample takes 13 ms, all others 0.14 ms: of any second after the first, and of the whole, it is 1 % at most. */
static void what_the_first_sample_took_is_made_up_for(void **state)
{
	struct sampling_budget budget = {.least_ns = 10 * MS, .allowed = 0.01};
	uint64_t period_ns = 10 * MS, now_ns = 0, taken_ns = 13 * MS, samples = 1;

	(void)state;
	while (now_ns < 10000 * MS) {
		now_ns += period_ns;
		taken_ns += 140 * NS_PER_US;
		samples++;
		if (sampling_budget_is_due(&budget, period_ns, now_ns))
			period_ns = sampling_budget_period_ns(&budget, period_ns, now_ns, taken_ns);
		if (now_ns >= 4000 * MS)
			assert_true((double)taken_ns <= 0.01 * (double)now_ns);
	}
	assert_in_range(samples, 400, 700);
}

static void samples_that_take_less_again_become_more(void **state)
{
	struct sampling_budget budget = {.least_ns = 10 * MS, .allowed = 0.01};

	(void)state;
	assert_int_equal(sampling_budget_period_ns(&budget, 100 * MS, 500 * MS, 3 * MS), 100 * MS);
	assert_in_range(sampling_budget_period_ns(&budget, 100 * MS, 1000 * MS, 5 * MS), 47 * MS, 49 * MS);
	assert_int_equal(sampling_budget_period_ns(&budget, 48 * MS, 1500 * MS, 5 * MS), 10 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_that_take_too_much_become_fewer),
		cmocka_unit_test(samples_that_take_less_again_become_more),
		cmocka_unit_test(what_the_first_sample_took_is_made_up_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
