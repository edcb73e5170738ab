#ifndef RBPROBE_SAMPLING_BUDGET_H
#define RBPROBE_SAMPLING_BUDGET_H

/*
 * What samples may take: there are fewer where they would take more, and again as many as were asked for when they take less. It
 * is looked at after some samples, and not after each: one alone may be slow by chance, and the first one always is. What they
 * have taken too much is made up for within the next seconds, so that the whole keeps to it, too. Context: who takes the samples.
 */

#include "proto/clock.h"

#include <stdbool.h>
#include <stdint.h>

#define SAMPLING_LOOK_NS (200 * NS_PER_MS)
#define SAMPLING_LOOK_SAMPLES 5
#define SAMPLING_PERIOD_MAX_NS (1 * NS_PER_S) /* between two samples, however expensive they are */
#define SAMPLING_GROWTH_MAX 4                 /* times, from one look to the next */
#define SAMPLING_REPAY_NS (2 * NS_PER_S)      /* for what they took too much; */
#define SAMPLING_REPAY_MAX 0.8                /* with so much of what they may take, at most */

struct sampling_budget {
	uint64_t least_ns;           /* the period that was asked for */
	double allowed;              /* of all time */
	uint64_t since_ns, taken_ns; /* when it was last looked at, and what samples had taken then; */
	double debt_ns;              /* that is so much too much */
};

/* Of all time, for a profile: at most 1 % at 100 samples a second, and 3 % at 1000. */
static inline double profile_allowed(double rate_hz)
{
	return rate_hz <= 100 ? 0.01 : rate_hz >= 1000 ? 0.03 : 0.01 + 0.02 * (rate_hz - 100) / 900;
}

static inline bool sampling_budget_is_due(const struct sampling_budget *budget, uint64_t period_ns, uint64_t now_ns)
{
	uint64_t passed_ns = now_ns - budget->since_ns;

	return passed_ns >= SAMPLING_LOOK_NS && passed_ns >= SAMPLING_LOOK_SAMPLES * period_ns;
}

/* When it is due: the period from now on. taken_ns: what all samples have taken. */
static inline uint64_t sampling_budget_period_ns(struct sampling_budget *budget, uint64_t period_ns, uint64_t now_ns,
                                                 uint64_t taken_ns)
{
	double passed_ns = (double)(now_ns - budget->since_ns), more_ns = (double)(taken_ns - budget->taken_ns);
	double debt_ns = budget->debt_ns + more_ns - budget->allowed * passed_ns, repaid, goal, wanted_ns;

	budget->since_ns = now_ns;
	budget->taken_ns = taken_ns;
	budget->debt_ns = debt_ns > 0 ? debt_ns : 0;
	repaid = budget->debt_ns / (budget->allowed * (double)SAMPLING_REPAY_NS);
	goal = budget->allowed * (1 - (repaid < SAMPLING_REPAY_MAX ? repaid : SAMPLING_REPAY_MAX));
	if (more_ns <= goal * passed_ns && more_ns >= goal * passed_ns / 2)
		return period_ns;
	wanted_ns = (double)period_ns * more_ns / passed_ns / goal * 1.2;
	if (wanted_ns > SAMPLING_GROWTH_MAX * (double)period_ns)
		wanted_ns = SAMPLING_GROWTH_MAX * (double)period_ns;
	if (wanted_ns > SAMPLING_PERIOD_MAX_NS)
		wanted_ns = SAMPLING_PERIOD_MAX_NS;
	return wanted_ns > (double)budget->least_ns ? (uint64_t)wanted_ns : budget->least_ns;
}

/* Samples a second in the mean: so many thousandths of periods, however long each was, have passed in passed_ns. */
static inline double sampling_rate_hz(uint64_t milliperiods, uint64_t passed_ns, uint64_t period_ns)
{
	return passed_ns ? (double)NS_PER_S / 1000 * (double)milliperiods / (double)passed_ns
	                 : (double)NS_PER_S / (double)period_ns;
}

#endif
