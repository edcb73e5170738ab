/* See fork_gate.h. */

#include "tracee/base/fork_gate.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

void fork_gate_free(void *memory)
{
	pthread_mutex_lock(&gate);
	free(memory);
	pthread_mutex_unlock(&gate);
}

void fork_gate_close(void)
{
	pthread_mutex_lock(&gate);
}

void fork_gate_open(void)
{
	pthread_mutex_unlock(&gate);
}

void fork_gate_fork_child(void)
{
	gate = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
