/* Arming under way. See arming.h. */

#include "tracee/engine/arming.h"

#include "tracee/vm/fiber.h"

#include <pthread.h>

/*
 * A thread that is arming, on its stack. It runs, which keeps it from the GC. There may be several: each lets others run now and
 * then.
 */
struct arming_thread {
	VALUE thread;
	pthread_t native;
	struct arming_thread *next;
};

static struct arming_thread *arming_threads;

static void arming_end(const struct arming_thread *arming)
{
	struct arming_thread **link = &arming_threads;

	while (*link != arming)
		link = &(*link)->next;
	*link = arming->next;
}

VALUE arming_protect(VALUE (*run)(VALUE), VALUE argument, int *failed)
{
	struct arming_thread arming = {.thread = rb_thread_current(), .native = pthread_self(), .next = arming_threads};
	struct fiber_state *own = fiber_suppress_begin();
	VALUE result;

	arming_threads = &arming;
	result = rb_protect(run, argument, failed);
	arming_end(&arming);
	fiber_suppress_end(own);
	return result;
}

bool arming_is_under_way(void)
{
	for (const struct arming_thread *arming = arming_threads; arming; arming = arming->next)
		if (arming->thread == rb_thread_current())
			return true;
	return false;
}

void arming_fork_child(void)
{
	struct arming_thread **link = &arming_threads;

	while (*link)
		if (pthread_equal((*link)->native, pthread_self()))
			link = &(*link)->next;
		else
			*link = (*link)->next;
}
