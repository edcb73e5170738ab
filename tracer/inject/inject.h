#ifndef RBPROBE_INJECT_H
#define RBPROBE_INJECT_H

#include "tracer/inject/remote.h"
#include "tracer/inject/schedule.h"
#include "tracer/process/arch.h"

#include "proto/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Stopping another process's main thread and calling functions in it: the mechanics, without any judgement on whether it is
 * safe there (that is stop_check.h) or what to call (loader.h). The order is inject_seize, then any number of inject_stop ...
 * inject_resume, then inject_release. SIGCHLD must be blocked, and must not be ignored. All of it belongs to one process of
 * ours, which the caller ends soon: the kernel lets go of what it traces then, whatever state that is in.
 */
struct injection {
	pid_t pid;
	const struct remote *remote;
	uint64_t trap; /* where called functions return to */
	bool seized;
	bool asked;      /* to stop, and has not yet */
	bool stopped;    /* and `registers` are those of the stop */
	bool saved;      /* something may be different from then; inject_resume() puts it back */
	bool called;     /* a function */
	bool gone;       /* the process has ended, was killed, or */
	bool execed;     /* runs another program since it was seized, and was let go of */
	int held_signal; /* a SIGSTOP that came in between; delivered at the end */
	struct arch_registers registers;
	uint64_t mask;  /* of blocked signals, at the stop */
	uint64_t stack; /* free memory for calls begins here, and goes down */
	uint64_t stopped_at_ns;
	uint64_t stopped_longest_ns; /* of all stops so far */
	uint64_t waited_then_ns;     /* of that one: how long the thread or we were ready to run and had no processor */
	int schedule, own_schedule;  /* /proc's files that show it */
	uint64_t waits_before_ns;
	bool is_first, we_are_first;            /* ahead of all others for the time of a call, of a stop */
	uint64_t calm_at_ns;                    /* when the thread's precedence ends, at the latest */
	struct schedule_place place, our_place; /* what the thread's and ours was before */
};

/* Memory that the caller of inject_call() may fill in the thread's own stack, from inject_scratch() on. */
#define INJECT_SCRATCH_SIZE 1536

/*
 * Becomes the process's tracer; it runs on. -EPERM (not allowed, or another tracer has it), -ESRCH, others; no err, the
 * caller finds out why.
 */
int inject_seize(struct injection *injection, pid_t pid);

/*
 * Stops the main thread wherever it is. 1: stopped, 0: not until the deadline (it is in an uninterruptible system call),
 * -ESRCH: it is gone (`execed`: another program is there), -EBUSY: by job control (SIGSTOP), it may not be continued. Signals
 * that come meanwhile are delivered.
 */
int inject_stop(struct injection *injection, uint64_t deadline_ns);

/* While the thread runs: lets `ns` pass and services what the kernel reports of it. -ESRCH: gone. */
int inject_wait(struct injection *injection, uint64_t ns);

/* The address of the scratch memory of this stop. */
uint64_t inject_scratch(const struct injection *injection);

/*
 * Calls a function on the stopped thread's stack, its signals blocked, and waits for its return. 0 and *result; -ESRCH: the
 * process ended; -EFAULT: the function crashed (the process did not: its registers go back); -ETIMEDOUT: it did not return.
 * From the first call on inject_resume() must follow.
 */
int inject_call(struct injection *injection, uint64_t function, const uint64_t arguments[ARCH_ARGUMENTS_MAX], uint64_t timeout_ns,
                uint64_t *result);

/* Puts everything back as it was and lets the thread go on. 0, -ESRCH. */
int inject_resume(struct injection *injection);

/* Lets go of the process, in any state. */
void inject_release(struct injection *injection);

#endif
