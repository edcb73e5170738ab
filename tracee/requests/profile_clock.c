/*
 * When samples of a profile are taken. See profile_clock.h.
 *
 * There is one tick in each period, at a time within it that is chance. So ticks do not fall in step with a program that does the
 * same every few milliseconds.
 *
 * At each tick the clock's thread asks the VM for a job, which a thread runs that has the GVL, at its next safe point. While all
 * threads wait nobody runs it. Then there are two cases:
 *
 * - The application has used no CPU time since the last sample: every thread is where that has seen it. Nothing is asked for, and
 *   the time is that sample's. So a process that does nothing is left alone.
 * - It has: some thread moved, and waits elsewhere now. At the next tick the main thread is woken for the job, where that does
 *   not cut short what it waits in (session/waiting.h). Where it may not be, the time is that of the sample that comes next.
 *
 * The CPU time is the process's, without that of our own native threads. Asking for these takes several system calls: where the
 * process has used so much that it cannot have been our threads alone, they are not asked. A main thread that was woken uses some
 * to go back to where it waited, and the VM's timer thread some more: so after such a sample the comparison begins SETTLE_NS
 * later. That could hide another thread's move; so nothing counts as still for longer than STILL_MAX_NS.
 *
 * Context: the thread (no GVL, all signals blocked), where the header says nothing else.
 */

#define _GNU_SOURCE
#include "tracee/requests/profile_clock.h"

#include "proto/clock.h"
#include "tracee/base/random.h"
#include "tracee/session/ringer.h"
#include "tracee/session/stream.h"
#include "tracee/session/wake.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREAD_NAME "rbprobe-profile"
#define STILL_CPU_NS (3 * NS_PER_US)    /* less than a thread needs to wake up and wait again */
#define SETTLE_CPU_NS (500 * NS_PER_US) /* what a woken thread may take until it waits again */
#define SETTLE_NS (25 * NS_PER_MS)      /* for so long; the VM's own timer thread has something to do after it */
#define STILL_MAX_NS (1 * NS_PER_S)
#define WAKE_AGAIN_NS (10 * NS_PER_MS)
#define BUDGET_NS (1 * NS_PER_S) /* over so long it is looked at what samples take */
#define PERIOD_MAX_NS (1 * NS_PER_S)
#define LATE_NS (60 * NS_PER_US) /* a tick that is later says nothing about CPU time */
#define SLICE_NS (100 * NS_PER_US)
#define STOP_WAIT_MS 100

struct profile_clock {
	void (*trigger)(void);
	_Atomic uint32_t stop;   /* a futex */
	_Atomic uint32_t owners; /* the thread and who started it: the last one frees it */
	_Atomic uint64_t period_ns;
	_Atomic uint64_t still_ns, still_ticks, moved_ns, moved_ticks;
	_Atomic uint64_t samples;       /* that are over; */
	_Atomic uint64_t sampled_ns;    /* when the last one was */
	_Atomic uint64_t base_cpu_ns;   /* the application's at the end of the last one; or, where rough, */
	_Atomic bool rough;             /* the process's, */
	_Atomic bool busy;              /* since the process uses much CPU time */
	_Atomic uint64_t sample_cpu_ns; /* what all have taken */
	_Atomic uint64_t woken, asked_ns;
	_Atomic pid_t thread;
	_Atomic bool settles; /* the sample was, or is to be, taken by a main thread that had been woken */
	struct profile_watch watch;
	double allowed; /* of one processor */

	/* The thread's. */
	uint64_t asked_samples; /* how many were over when it asked for one; UINT64_MAX: it did not */
	uint64_t woke_ns, random;
	uint64_t budget_ns, budget_cpu_ns; /* when it was last looked at what samples take */
};

static void release(struct profile_clock *clock)
{
	if (atomic_fetch_sub(&clock->owners, 1) == 1)
		free(clock);
}

/* The CPU time of all threads but ours. Any thread. */
static uint64_t application_cpu_ns(const struct profile_clock *clock)
{
	pid_t threads[STREAM_THREADS_MAX + 2];
	size_t count = stream_threads(threads);
	uint64_t own_ns = 0, all_ns, used_ns;

	threads[count++] = atomic_load(&clock->thread);
	threads[count++] = ringer_thread();
	for (size_t i = 0; i < count; i++)
		if (threads[i] && clock_thread_ns(threads[i], &used_ns))
			own_ns += used_ns;
	all_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	return all_ns > own_ns ? all_ns - own_ns : 0;
}

/* Whether any thread has done something since the last sample. */
static bool has_moved(struct profile_clock *clock, uint64_t now_ns)
{
	uint64_t base_ns = atomic_load(&clock->base_cpu_ns), cpu_ns, more_ns;

	if (atomic_load(&clock->rough)) {
		bool much = clock_ns(CLOCK_PROCESS_CPUTIME_ID) > base_ns + atomic_load(&clock->period_ns) / 4;

		/* Otherwise the next sample begins to look closely. */
		atomic_store(&clock->busy, much);
		return true;
	}
	cpu_ns = application_cpu_ns(clock);
	more_ns = cpu_ns > base_ns ? cpu_ns - base_ns : 0;
	atomic_store(&clock->busy, more_ns > atomic_load(&clock->period_ns) / 4);
	if (now_ns > atomic_load(&clock->sampled_ns) + STILL_MAX_NS)
		return true;
	if (atomic_load(&clock->settles) && more_ns < SETTLE_CPU_NS) {
		atomic_store(&clock->settles, now_ns < clock->woke_ns + SETTLE_NS);
		atomic_store(&clock->base_cpu_ns, cpu_ns);
		return false;
	}
	return more_ns > STILL_CPU_NS;
}

static void ask(struct profile_clock *clock, uint64_t now_ns, uint64_t due_ns)
{
	uint64_t samples = atomic_load(&clock->samples);
	bool asked = clock->asked_samples == samples;
	bool wakes = asked && now_ns - atomic_load(&clock->asked_ns) >= atomic_load(&clock->period_ns) / 2 &&
	             now_ns - clock->woke_ns >= WAKE_AGAIN_NS;

	if (!asked) {
		atomic_store(&clock->asked_ns, now_ns);
		atomic_store(&clock->settles, false);
	}
	clock->asked_samples = samples;
	profile_watch_tick(&clock->watch, due_ns + LATE_NS);
	if (wakes)
		clock->woke_ns = now_ns;
	if (ringer_push(clock->trigger, wakes)) {
		atomic_store(&clock->settles, true);
		atomic_fetch_add(&clock->woken, 1);
	}
}

static void tick(struct profile_clock *clock, uint64_t now_ns, uint64_t due_ns, uint64_t time_ns, uint64_t ticks)
{
	uint64_t samples = atomic_load(&clock->samples);
	bool waits = clock->asked_samples == samples; /* for one that it asked for */

	if (!waits && samples && !has_moved(clock, now_ns)) {
		atomic_fetch_add(&clock->still_ticks, ticks);
		atomic_fetch_add(&clock->still_ns, time_ns);
		return;
	}
	atomic_fetch_add(&clock->moved_ticks, ticks);
	atomic_fetch_add(&clock->moved_ns, time_ns);
	ask(clock, now_ns, due_ns);
}

/* Where samples take more than they may, there are fewer. */
static void keep_to_budget(struct profile_clock *clock, uint64_t now_ns)
{
	uint64_t period_ns = atomic_load(&clock->period_ns), cpu_ns;
	double used;

	if (now_ns - clock->budget_ns < BUDGET_NS)
		return;
	cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	cpu_ns += atomic_load(&clock->sample_cpu_ns);
	used = (double)(cpu_ns - clock->budget_cpu_ns) / (double)(now_ns - clock->budget_ns);
	clock->budget_ns = now_ns;
	clock->budget_cpu_ns = cpu_ns;
	if (used <= clock->allowed || period_ns >= PERIOD_MAX_NS)
		return;
	period_ns = (uint64_t)((double)period_ns * (used / clock->allowed) * 1.2);
	atomic_store(&clock->period_ns, period_ns < PERIOD_MAX_NS ? period_ns : PERIOD_MAX_NS);
}

static void sleep_until(struct profile_clock *clock, uint64_t at_ns)
{
	struct timespec at = {.tv_sec = (time_t)(at_ns / NS_PER_S), .tv_nsec = (long)(at_ns % NS_PER_S)};

	syscall(SYS_futex, &clock->stop, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0, &at, NULL, FUTEX_BITSET_MATCH_ANY);
}

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

static void *run(void *argument)
{
	struct profile_clock *clock = argument;
	uint64_t last_ns = clock_now_ns(), base_ns = last_ns;

	prctl(PR_SET_NAME, THREAD_NAME, 0, 0, 0);
	prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
	ask_for_short_slice();
	atomic_store(&clock->thread, (pid_t)syscall(SYS_gettid));
	clock->budget_ns = last_ns;
	clock->random = last_ns | 1;
	while (!atomic_load(&clock->stop)) {
		uint64_t period_ns = atomic_load(&clock->period_ns), now_ns, due_ns;

		base_ns += period_ns;
		due_ns = base_ns + random_next(&clock->random) % period_ns;
		sleep_until(clock, due_ns);
		now_ns = clock_now_ns();
		if (now_ns < due_ns) {
			base_ns -= period_ns; /* it is to end, or was woken for nothing */
			continue;
		}
		tick(clock, now_ns, due_ns, now_ns - last_ns, 1 + (now_ns - due_ns) / period_ns);
		base_ns += (now_ns - due_ns) / period_ns * period_ns;
		last_ns = now_ns;
		keep_to_budget(clock, now_ns);
	}
	atomic_store(&clock->thread, 0);
	release(clock);
	return NULL;
}

/* At most 1 % at 100 Hz, and 3 % at 1 kHz. */
static double allowed_at(uint32_t rate_hz)
{
	return rate_hz <= 100 ? 0.01 : rate_hz >= 1000 ? 0.03 : 0.01 + 0.02 * (rate_hz - 100) / 900;
}

struct profile_clock *profile_clock_start(uint32_t rate_hz, void (*trigger)(void))
{
	struct profile_clock *clock = calloc(1, sizeof(*clock));

	if (!clock)
		return NULL;
	clock->trigger = trigger;
	clock->asked_samples = UINT64_MAX;
	clock->allowed = allowed_at(rate_hz);
	atomic_store(&clock->period_ns, NS_PER_S / rate_hz);
	atomic_store(&clock->owners, 2);
	if (wake_thread(run, clock))
		return clock;
	free(clock);
	return NULL;
}

void profile_clock_stop(struct profile_clock *clock)
{
	struct timespec pause = {.tv_nsec = 100 * (long)NS_PER_US};

	atomic_store(&clock->stop, 1);
	syscall(SYS_futex, &clock->stop, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
	for (int i = 0; i < STOP_WAIT_MS * 10 && atomic_load(&clock->owners) > 1; i++)
		nanosleep(&pause, NULL);
	release(clock);
}

void profile_clock_forget(struct profile_clock *clock)
{
	free(clock);
}

void profile_clock_take(struct profile_clock *clock, struct profile_time *time)
{
	time->still_ns = atomic_exchange(&clock->still_ns, 0);
	time->still_ticks = atomic_exchange(&clock->still_ticks, 0);
	time->moved_ns = atomic_exchange(&clock->moved_ns, 0);
	time->moved_ticks = atomic_exchange(&clock->moved_ticks, 0);
	time->period_ns = atomic_load(&clock->period_ns);
	profile_watch_last(&clock->watch, &time->tick);
}

void profile_clock_watch(struct profile_clock *clock, const pid_t *threads, uint32_t count)
{
	profile_watch_set(&clock->watch, threads, count);
}

void profile_clock_taken(struct profile_clock *clock, uint64_t cpu_ns)
{
	atomic_fetch_add(&clock->sample_cpu_ns, cpu_ns);
	atomic_store(&clock->rough, atomic_load(&clock->busy));
	atomic_store(&clock->base_cpu_ns,
	             atomic_load(&clock->busy) ? clock_ns(CLOCK_PROCESS_CPUTIME_ID) : application_cpu_ns(clock));
	atomic_store(&clock->sampled_ns, clock_now_ns());
	atomic_fetch_add(&clock->samples, 1);
}

uint64_t profile_clock_cpu_ns(const struct profile_clock *clock)
{
	pid_t thread = atomic_load(&clock->thread);
	uint64_t ns;

	return thread && clock_thread_ns(thread, &ns) ? ns : 0;
}

double profile_clock_rate_hz(const struct profile_clock *clock)
{
	return 1e9 / (double)atomic_load(&clock->period_ns);
}

uint64_t profile_clock_woken(const struct profile_clock *clock)
{
	return atomic_load(&clock->woken);
}
