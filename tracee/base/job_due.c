/* Whether a job is due. See job_due.h. */

#include "tracee/base/job_due.h"

#include <stdatomic.h>
#include <stddef.h>

#define QUESTIONS_MAX 8

static bool (*questions[JOB_URGENCIES][QUESTIONS_MAX])(void);
static _Atomic uint64_t began_ns;

void job_due_register(enum job_urgency urgency, bool (*is_due)(void))
{
	size_t i = 0;

	while (i < QUESTIONS_MAX && questions[urgency][i] && questions[urgency][i] != is_due)
		i++;
	if (i < QUESTIONS_MAX)
		questions[urgency][i] = is_due;
}

bool job_is_due(enum job_urgency urgency)
{
	for (size_t i = 0; i < QUESTIONS_MAX && questions[urgency][i]; i++)
		if (questions[urgency][i]())
			return true;
	return false;
}

void job_note_began(uint64_t now_ns)
{
	atomic_store_explicit(&began_ns, now_ns, memory_order_relaxed);
}

uint64_t job_began_ns(void)
{
	return atomic_load_explicit(&began_ns, memory_order_relaxed);
}
