/*
 * Stopping and calling. See inject.h.
 *
 * Nothing in the process is patched: the called function returns to a breakpoint instruction that its libc happens to
 * contain, the kernel reports that as a SIGTRAP to us, and everything that was touched is put back: registers, floating point
 * and vector state, the signal mask, and on the stack nothing that is in use.
 */

#define _GNU_SOURCE
#include "tracer/inject/inject.h"

#include "proto/clock.h"
#include "tracer/base/proc_status.h"
#include "tracer/inject/thread_wait.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KERNEL_MASK_SIZE 8
#define FIRST_NS (20 * NS_PER_MS) /* of a stop, in which a call goes ahead of everybody: a hostile one may take longer */

/* Those that the called function may cause by itself must come through, or the kernel would kill the process at once. */
static uint64_t calling_mask(void)
{
	static const int open[] = {SIGTRAP, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
	uint64_t mask = ~(uint64_t)0;

	for (size_t i = 0; i < sizeof(open) / sizeof(*open); i++)
		mask &= ~((uint64_t)1 << (open[i] - 1));
	return mask;
}

static int event_of(int status)
{
	return status >> 16;
}

static void calm(struct injection *injection)
{
	if (injection->is_first)
		schedule_back(injection->pid, &injection->place);
	injection->is_first = false;
}

/*
 * Another program runs in the process, perhaps one that gives its user more rights than he has. Registers that we saved are
 * not its own: it is let go of as it is. What a program inherits and we changed is put back: the signals that are blocked,
 * and precedence.
 */
static void let_go_of_new_program(struct injection *injection)
{
	if (injection->saved)
		ptrace(PTRACE_SETSIGMASK, injection->pid, (void *)(intptr_t)KERNEL_MASK_SIZE, &injection->mask);
	calm(injection);
	ptrace(PTRACE_DETACH, injection->pid, NULL, NULL);
	injection->saved = injection->stopped = injection->seized = false;
	injection->execed = injection->gone = true;
}

/*
 * A report of the kernel about the process: 1 and *status; 0: none before the deadline; -ESRCH: it is gone, or runs another
 * program. SIGCHLD, which comes with each, is blocked in the helper, and so can be waited for.
 */
static int report_take(struct injection *injection, uint64_t deadline_ns, int *status)
{
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	for (;;) {
		pid_t got = waitpid(injection->pid, status, __WALL | WNOHANG);
		uint64_t now_ns, left_ns;
		struct timespec left;

		if (got == injection->pid && WIFSTOPPED(*status) && event_of(*status) == PTRACE_EVENT_EXEC) {
			let_go_of_new_program(injection);
			return -ESRCH;
		}
		if (got == injection->pid && WIFSTOPPED(*status))
			return 1;
		if (got == injection->pid || (got < 0 && errno != EINTR)) {
			/*
			 * It has not ended, and is not ours any more: another of its threads has started a program, and
			 * taken its place.
			 */
			injection->execed = got < 0 && errno == ECHILD;
			injection->gone = true;
			return -ESRCH;
		}
		now_ns = clock_now_ns();
		if (now_ns >= deadline_ns)
			return 0;
		left_ns = deadline_ns - now_ns;
		left = (struct timespec){.tv_sec = (time_t)(left_ns / NS_PER_S), .tv_nsec = (long)(left_ns % NS_PER_S)};
		sigtimedwait(&child, NULL, &left);
	}
}

/* --- The time of a stop */

static void hurry(struct injection *injection, bool yes)
{
	if (yes && !injection->we_are_first)
		injection->we_are_first = schedule_first(0, SCHEDULE_OURS, &injection->our_place);
	else if (!yes && injection->we_are_first) {
		schedule_back(0, &injection->our_place);
		injection->we_are_first = false;
	}
}

static void stop_begin(struct injection *injection, uint64_t own_wait_before_ns)
{
	/* It stands still since before we noticed: since we were told, at the latest. */
	uint64_t own_ns = schedule_waited_ns(injection->own_schedule);

	injection->stopped_at_ns = clock_now_ns() - (own_ns - own_wait_before_ns);
	injection->waits_before_ns = own_wait_before_ns + schedule_waited_ns(injection->schedule);
}

/* Just before it goes on. */
static void stop_count(struct injection *injection)
{
	uint64_t waited_ns = schedule_waited_ns(injection->own_schedule) + schedule_waited_ns(injection->schedule) -
	                     injection->waits_before_ns;
	uint64_t ns = clock_now_ns() - injection->stopped_at_ns;

	injection->stopped = false;
	if (waited_ns > ns)
		waited_ns = ns;
	if (ns > injection->stopped_longest_ns) {
		injection->stopped_longest_ns = ns;
		injection->waited_then_ns = waited_ns;
	}
}

/* --- Stopping */

static void thread_continue(struct injection *injection, int signal)
{
	ptrace(PTRACE_CONT, injection->pid, NULL, (void *)(intptr_t)signal);
}

/* Lets a thread go on from a stop that nobody asked for. False: it is a stop to stay in, for whoever wants one. */
static bool service(struct injection *injection, int status)
{
	switch (event_of(status)) {
	case 0: /* a signal on its way to the thread */
		thread_continue(injection, WSTOPSIG(status));
		return true;
	case PTRACE_EVENT_STOP:
		return false;
	default:
		thread_continue(injection, 0);
		return true;
	}
}

int inject_seize(struct injection *injection, pid_t pid)
{
	memset(injection, 0, sizeof(*injection));
	injection->pid = pid;
	/* TRACEEXEC: an exec makes all addresses that we have found out wrong, and must not go unnoticed. */
	if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)(intptr_t)PTRACE_O_TRACEEXEC) != 0)
		return -errno;
	injection->seized = true;
	injection->schedule = schedule_open(pid);
	injection->own_schedule = schedule_open(getpid());
	return 0;
}

/* Signals that are on their way to the thread, or to whichever takes them. */
static uint64_t pending(const struct injection *injection)
{
	return proc_status_number(injection->pid, "SigPnd", 16, 0) | proc_status_number(injection->pid, "ShdPnd", 16, 0);
}

/*
 * A system call that the stop has ended with EINTR, and which it was not in when we looked: so it has hardly begun, and
 * is made again as a whole. Where a signal is on its way to the thread, the end may be that one's.
 */
static void begin_again(struct injection *injection)
{
	if (arch.begin_again && !(pending(injection) & ~injection->mask) && arch.begin_again(&injection->registers))
		injection->saved = true; /* and so put in place */
}

static int stop(struct injection *injection, uint64_t deadline_ns)
{
	uint64_t own_wait_ns = schedule_waited_ns(injection->own_schedule);
	struct thread_wait wait;
	bool waits = arch.was_waiting && thread_wait_read(&wait, injection->pid, injection->pid) == 1;

	if (ptrace(PTRACE_INTERRUPT, injection->pid, NULL, NULL) != 0)
		return -errno;
	injection->asked = true;
	for (;;) {
		int status, got = report_take(injection, deadline_ns, &status);

		if (got <= 0)
			return got;
		if (service(injection, status))
			continue;
		injection->asked = false;
		stop_begin(injection, own_wait_ns);
		if (WSTOPSIG(status) != SIGTRAP) {
			/* Stopped by job control: listening is how it stays stopped and yet gets its SIGCONT. */
			ptrace(PTRACE_LISTEN, injection->pid, NULL, NULL);
			return -EBUSY;
		}
		injection->stopped = true;
		got = arch.save(injection->pid, &injection->registers);
		if (got == 0 &&
		    ptrace(PTRACE_GETSIGMASK, injection->pid, (void *)(intptr_t)KERNEL_MASK_SIZE, &injection->mask) != 0)
			got = -errno;
		if (got == 0 && waits)
			arch.was_waiting(&injection->registers, wait.number, wait.arguments, wait.sp, wait.pc);
		begin_again(injection);
		injection->stack =
			(arch.sp(&injection->registers) - ARCH_STACK_UNTOUCHABLE - INJECT_SCRATCH_SIZE) & ~(uint64_t)63;
		return got < 0 ? got : 1;
	}
}

int inject_stop(struct injection *injection, uint64_t deadline_ns)
{
	int got;

	hurry(injection, true);
	got = stop(injection, deadline_ns);
	if (got != 1)
		hurry(injection, false);
	return got;
}

int inject_wait(struct injection *injection, uint64_t ns)
{
	uint64_t deadline_ns = clock_now_ns() + ns;

	for (;;) {
		int status, got = report_take(injection, deadline_ns, &status);

		if (got <= 0)
			return got;
		if (!service(injection, status)) {
			if (WSTOPSIG(status) == SIGTRAP)
				thread_continue(injection, 0);
			else
				ptrace(PTRACE_LISTEN, injection->pid, NULL, NULL);
		}
	}
}

uint64_t inject_scratch(const struct injection *injection)
{
	return injection->stack;
}

int inject_call(struct injection *injection, uint64_t function, const uint64_t arguments[ARCH_ARGUMENTS_MAX], uint64_t timeout_ns,
                uint64_t *result)
{
	uint64_t mask = calling_mask(), return_slot, deadline_ns = clock_now_ns() + timeout_ns;
	int status;

	if (!injection->stopped)
		return -EINVAL;
	if (!injection->called) {
		injection->is_first = schedule_first(injection->pid, SCHEDULE_THEIRS, &injection->place);
		injection->calm_at_ns = clock_now_ns() + FIRST_NS;
	}
	injection->saved = injection->called = true;
	status = arch.call(injection->pid, &injection->registers, function, arguments, injection->stack, injection->trap,
	                   &return_slot);
	if (status < 0)
		return status;
	if (return_slot && !remote_write(injection->remote, return_slot, &injection->trap, sizeof(injection->trap)))
		return -ENOSPC;
	if (ptrace(PTRACE_SETSIGMASK, injection->pid, (void *)(intptr_t)KERNEL_MASK_SIZE, &mask) != 0)
		return -errno;
	thread_continue(injection, 0);
	for (;;) {
		bool hurries = injection->is_first && injection->calm_at_ns < deadline_ns;
		int got = report_take(injection, hurries ? injection->calm_at_ns : deadline_ns, &status);

		if (got < 0)
			return got;
		if (got == 0 && hurries) {
			calm(injection);
			continue;
		}
		if (got == 0) {
			/* Stop it wherever it is; the caller gives up and puts the registers back. */
			ptrace(PTRACE_INTERRUPT, injection->pid, NULL, NULL);
			if (report_take(injection, clock_now_ns() + NS_PER_S, &status) <= 0)
				injection->stopped = false;
			return injection->gone ? -ESRCH : -ETIMEDOUT;
		}
		if (event_of(status) == 0 && WSTOPSIG(status) == SIGTRAP)
			return arch.has_returned(injection->pid, injection->trap, result) ? 0 : -EFAULT;
		if (event_of(status) == 0 && (WSTOPSIG(status) == SIGSEGV || WSTOPSIG(status) == SIGBUS ||
		                              WSTOPSIG(status) == SIGILL || WSTOPSIG(status) == SIGFPE))
			return -EFAULT;
		if (event_of(status) == 0 && WSTOPSIG(status) == SIGSTOP)
			injection->held_signal = SIGSTOP;
		thread_continue(injection, 0);
	}
}

static int put_back(struct injection *injection)
{
	int status;

	if (!injection->saved)
		return 0;
	if (arch.end_for_signal && pending(injection) & ~injection->mask & proc_status_number(injection->pid, "SigCgt", 16, 0))
		arch.end_for_signal(&injection->registers);
	status = arch.restore(injection->pid, &injection->registers);
	if (ptrace(PTRACE_SETSIGMASK, injection->pid, (void *)(intptr_t)KERNEL_MASK_SIZE, &injection->mask) != 0 && status == 0)
		status = -errno;
	calm(injection);
	injection->saved = injection->called = false;
	return status;
}

int inject_resume(struct injection *injection)
{
	int status;

	if (injection->gone)
		return -ESRCH;
	if (!injection->stopped)
		return 0;
	status = put_back(injection);
	stop_count(injection);
	thread_continue(injection, injection->held_signal);
	injection->held_signal = 0;
	hurry(injection, false);
	return status;
}

void inject_release(struct injection *injection)
{
	if (!injection->seized)
		return;
	injection->seized = false;
	if (injection->gone)
		return;
	if (injection->stopped) {
		put_back(injection);
		stop_count(injection);
		ptrace(PTRACE_DETACH, injection->pid, NULL, (void *)(intptr_t)injection->held_signal);
		hurry(injection, false);
		return;
	}
	if (!injection->asked)
		return;
	/*
	 * A running thread cannot be let go of; the end of ours does it, but it would leave an interrupt that is still due:
	 * take that first.
	 */
	if (inject_stop(injection, clock_now_ns() + 20 * NS_PER_MS) == 1) {
		stop_count(injection);
		ptrace(PTRACE_DETACH, injection->pid, NULL, NULL);
		hurry(injection, false);
	}
}
