/* A native thread that comes at certain times. See clock_thread.h. */

#define _GNU_SOURCE
#include "tracee/base/clock_thread.h"

#include "proto/clock.h"

#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TIMER_SLACK_NS 1000
#define SLICE_NS (100 * NS_PER_US)

static struct {
	_Atomic pid_t thread;      /* 0: there is none */
	_Atomic uint64_t ended_ns; /* what those took that have ended */
} counted;

/*
 * On a busy machine the thread is to come at its time, and not when the thread that it looks at has had its turn: ticks would
 * then meet more of what comes late in a turn. A short slice lets it preempt others from Linux 6.12 on; it runs for microseconds.
 * A process with a filter of system calls could be killed for that.
 */
static void ask_for_short_slice(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t slice_ns, deadline, period;
	} wanted = {.size = 48, .policy = SCHED_OTHER, .slice_ns = SLICE_NS};

	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0)
		return;
	wanted.nice = getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
	syscall(SYS_sched_setattr, 0, &wanted, 0);
}

void clock_thread_begin(const char *name)
{
	prctl(PR_SET_NAME, name, 0, 0, 0);
	prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
	ask_for_short_slice();
}

void clock_thread_sleep_until(_Atomic uint32_t *stop, uint64_t at_ns)
{
	struct timespec at = {.tv_sec = (time_t)(at_ns / NS_PER_S), .tv_nsec = (long)(at_ns % NS_PER_S)};

	syscall(SYS_futex, stop, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0, &at, NULL, FUTEX_BITSET_MATCH_ANY);
}

void clock_thread_stop(_Atomic uint32_t *stop)
{
	atomic_store(stop, 1);
	syscall(SYS_futex, stop, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}

void clock_thread_count_begin(void)
{
	atomic_store(&counted.thread, (pid_t)syscall(SYS_gettid));
}

void clock_thread_count_end(void)
{
	atomic_store(&counted.thread, 0);
	atomic_fetch_add(&counted.ended_ns, clock_ns(CLOCK_THREAD_CPUTIME_ID));
}

uint64_t clock_thread_counted_ns(void)
{
	uint64_t sum_ns = atomic_load(&counted.ended_ns), ns;
	pid_t thread = atomic_load(&counted.thread);

	return thread && clock_thread_ns(thread, &ns) ? sum_ns + ns : sum_ns;
}

void clock_thread_count_fork_child(void)
{
	atomic_store(&counted.thread, 0);
	atomic_store(&counted.ended_ns, 0);
}
