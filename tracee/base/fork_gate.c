/* See fork_gate.h. */

#include "tracee/base/fork_gate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define WAITS_MAX 200
#define WAIT_NS 100000

/* There where AddressSanitizer is in the process, in the extension or around it. */
extern void __asan_init(void) __attribute__((weak));

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned coming;

void fork_gate_free(void *memory)
{
	pthread_mutex_lock(&gate);
	free(memory);
	pthread_mutex_unlock(&gate);
}

bool fork_gate_try_enter(void)
{
	return pthread_mutex_trylock(&gate) == 0;
}

void fork_gate_leave(void)
{
	pthread_mutex_unlock(&gate);
}

void fork_gate_thread_is_coming(void)
{
	atomic_fetch_add(&coming, 1);
}

void fork_gate_thread_is_here(void)
{
	atomic_fetch_sub(&coming, 1);
}

void fork_gate_close(void)
{
	for (int i = 0; __asan_init && i < WAITS_MAX && atomic_load(&coming); i++)
		nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
	pthread_mutex_lock(&gate);
}

void fork_gate_open(void)
{
	pthread_mutex_unlock(&gate);
}

void fork_gate_fork_child(void)
{
	gate = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	atomic_store(&coming, 0);
}
