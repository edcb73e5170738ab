#ifndef RBPROBE_TASKS_H
#define RBPROBE_TASKS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The native threads of a process, as /proc shows them at one moment. */
struct task {
	pid_t tid;        /* as we see it */
	pid_t own_tid;    /* as the process sees it; differs in a container */
	char state;       /* R S D T t ... */
	uint64_t cpu_ns;  /* used so far, rounded to the kernel's clock ticks */
	char command[32]; /* its name */
};

struct tasks {
	struct task *items;
	size_t count;
};

/* Fills tasks; what cannot be read is left out. */
void tasks_read(struct tasks *tasks, pid_t pid);
/* Of a thread that does not run; 0: it does, or that may not be known. */
uint64_t task_stack_pointer(pid_t pid, pid_t tid);
void tasks_free(struct tasks *tasks);
/* NULL: it was not there. */
const struct task *tasks_find(const struct tasks *tasks, pid_t own_tid);

#endif
