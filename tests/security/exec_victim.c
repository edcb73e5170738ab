/* A program that something else is turned into. It says who it is, and whether anything of what was before is left in it. */

#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t trapped;

static void on_trap(int signal)
{
	(void)signal;
	trapped++;
}

int main(void)
{
	sigset_t blocked;
	int count = 0;

	signal(SIGTRAP, on_trap);
	/* To a tracer it looks like the end of a call. */
	raise(SIGTRAP);
	sigprocmask(SIG_BLOCK, NULL, &blocked);
	for (int i = 1; i < SIGRTMIN; i++)
		count += sigismember(&blocked, i) == 1;
	printf("user %d, %d trapped, %d blocked, policy %d\n", (int)geteuid(), (int)trapped, count,
	       sched_getscheduler(0) & ~SCHED_RESET_ON_FORK);
	return 0;
}
