#ifndef RBPROBE_TESTS_CHILD_H
#define RBPROBE_TESTS_CHILD_H

/* A child of a unit test that stands for the process that rbprobe looks at. It ends with its parent, and after a while. */

#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_SECONDS_MAX 20

static inline void child_wait_for_ever(void *unused)
{
	(void)unused;
	for (;;)
		pause();
}

/* Runs main(argument) in a child, which is there and past its first steps when this returns. */
static inline pid_t child_run(void (*run)(void *), void *argument)
{
	int ready[2] = {-1, -1};
	pid_t parent = getpid(), child;
	char byte = 0;

	if (pipe(ready) != 0)
		return -1;
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		alarm(CHILD_SECONDS_MAX);
		close(ready[0]);
		if (write(ready[1], &byte, 1) != 1)
			_exit(1);
		close(ready[1]);
		run(argument);
		_exit(0);
	}
	close(ready[1]);
	if (child > 0 && read(ready[0], &byte, 1) != 1)
		child = -1;
	close(ready[0]);
	return child;
}

/* One that never began is none: kill() would take 0 for all processes of this group. */
static inline void child_end(pid_t child)
{
	if (child <= 0)
		return;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* Whether a process may trace its children here: a container's seccomp filter may forbid it. */
static inline bool child_may_be_traced(void)
{
	pid_t child = child_run(child_wait_for_ever, NULL);
	bool may = child > 0 && ptrace(PTRACE_SEIZE, child, NULL, NULL) == 0;

	if (child > 0)
		child_end(child);
	return may;
}

#define SKIP_UNLESS_TRACING()                                                                                                    \
	do {                                                                                                                     \
		if (!child_may_be_traced()) {                                                                                    \
			print_message("skipped: ptrace of a child is forbidden here\n");                                         \
			skip();                                                                                                  \
		}                                                                                                                \
	} while (0)

#endif
