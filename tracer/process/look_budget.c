/* The time that looks at other users' processes may take. See look_budget.h. */

#include "tracer/process/look_budget.h"

#define BACK 10u /* one in so many ns */

static uint64_t *spent_on(struct look_budget *budget, uid_t user)
{
	size_t i = 0;

	while (i < budget->count && budget->users[i].user != user)
		i++;
	/* The others share the last place. */
	if (i == LOOK_USERS_MAX)
		i--;
	else if (i == budget->count)
		budget->users[budget->count++].user = user;
	return &budget->users[i].spent_ns;
}

static uint64_t left_of(uint64_t limit_ns, uint64_t spent_ns)
{
	return spent_ns < limit_ns ? limit_ns - spent_ns : 0;
}

static void bring_back(struct look_budget *budget, uint64_t now_ns)
{
	uint64_t back_ns = budget->now_ns ? (now_ns - budget->now_ns) / BACK : 0;

	budget->now_ns = now_ns;
	budget->spent_ns = left_of(budget->spent_ns, back_ns);
	for (size_t i = 0; i < budget->count; i++)
		budget->users[i].spent_ns = left_of(budget->users[i].spent_ns, back_ns);
}

uint64_t look_budget_left(struct look_budget *budget, uid_t user, uint64_t now_ns)
{
	uint64_t user_ns, all_ns;

	bring_back(budget, now_ns);
	user_ns = left_of(budget->user_ns, *spent_on(budget, user));
	all_ns = left_of(budget->all_ns, budget->spent_ns);
	return user_ns < all_ns ? user_ns : all_ns;
}

void look_budget_spend(struct look_budget *budget, uid_t user, uint64_t ns)
{
	*spent_on(budget, user) += ns;
	budget->spent_ns += ns;
}
