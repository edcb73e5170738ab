/* What looks at processes may take: in all, of one user's, and again after a while. */

#include "tracer/process/look_budget.h"
#include "unit.h"

#define SECOND UINT64_C(1000000000)

static void what_is_spent_is_gone_and_a_tenth_comes_back(void **state)
{
	struct look_budget budget = {.user_ns = 4 * SECOND, .all_ns = 6 * SECOND};
	uint64_t now_ns = 100 * SECOND;

	(void)state;
	assert_int_equal(look_budget_left(&budget, 1000, now_ns), 4 * SECOND);
	look_budget_spend(&budget, 1000, 5 * SECOND);
	assert_int_equal(look_budget_left(&budget, 1000, now_ns), 0);
	assert_int_equal(look_budget_left(&budget, 1001, now_ns), SECOND);
	now_ns += 20 * SECOND;
	assert_int_equal(look_budget_left(&budget, 1000, now_ns), SECOND);
	assert_int_equal(look_budget_left(&budget, 1001, now_ns), 3 * SECOND);
	now_ns += 86400 * SECOND;
	assert_int_equal(look_budget_left(&budget, 1000, now_ns), 4 * SECOND);
}

static void many_users_share_the_last_place(void **state)
{
	struct look_budget budget = {.user_ns = 2, .all_ns = 1000};

	(void)state;
	for (uid_t user = 0; user < LOOK_USERS_MAX + 10; user++)
		look_budget_spend(&budget, user, 1);
	assert_int_equal(look_budget_left(&budget, 0, 1), 1);
	assert_int_equal(look_budget_left(&budget, LOOK_USERS_MAX + 9, 1), 0);
	assert_int_equal(budget.count, LOOK_USERS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_spent_is_gone_and_a_tenth_comes_back),
		cmocka_unit_test(many_users_share_the_last_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
