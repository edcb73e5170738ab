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
 * The CPU time is the process's, without that of our own native threads. A kernel adds up that of a thread that runs on
 * another processor at its own ticks alone, some milliseconds apart (thread_group_cputime(); Linux 6.18): so the clock of the
 * thread that took the sample is looked at first, which is exact. Where that uses much, nothing else is asked, as each clock
 * is a system call. Otherwise the clocks of threads that have used CPU time lately are read before the process's: that brings
 * them up to date there, too (task_sched_runtime()). Such a thread may compute without the GVL while all others wait. A main
 * thread that was woken uses some to go back to where it waited, and the VM's timer thread some more: so after such a sample
 * the comparison begins SETTLE_NS later. That could hide another thread's move; so nothing counts as still for longer than
 * STILL_MAX_NS.
 *
 * Context: the thread (no GVL, all signals blocked), where the header says nothing else.
 */

#define _GNU_SOURCE
#include "tracee/requests/profile_clock.h"

#include "proto/clock.h"
#include "proto/sampling_budget.h"
#include "tracee/base/clock_thread.h"
#include "tracee/base/random.h"
#include "tracee/session/ringer.h"
#include "tracee/session/stream.h"
#include "tracee/session/wake.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREAD_NAME "rbprobe-profile"
#define STILL_CPU_NS (3 * NS_PER_US)    /* less than a thread needs to wake up and wait again */
#define SETTLE_CPU_NS (500 * NS_PER_US) /* what a woken thread may take until it waits again */
#define SETTLE_NS (25 * NS_PER_MS)      /* for so long; the VM's own timer thread has something to do after it */
#define STILL_MAX_NS (1 * NS_PER_S)
#define WAKE_AGAIN_NS (10 * NS_PER_MS)
#define LATE_NS (60 * NS_PER_US)       /* later than usual by that: at the end of somebody's turn; clocks do not tell who ran */
#define USUAL_STEP_NS 500              /* a tick, by which what is usual grows where ticks come later */
#define USUAL_MAX_NS (300 * NS_PER_US) /* more is not usual anywhere */
#define AGAIN_NS (2 * NS_PER_MS)
#define AGAIN_TIMES 3
#define STOP_WAIT_MS 100
/* What a thread that wakes up costs others, which no clock of ours shows: the timer's interrupt, two switches, caches. What `make
   bench` finds on a virtual machine. */
#define UNSEEN_NS (10 * NS_PER_US)

struct profile_clock {
	void (*trigger)(void);
	_Atomic uint32_t stop;   /* a futex */
	_Atomic uint32_t owners; /* the thread and who started it: the last one frees it */
	_Atomic uint64_t period_ns;
	_Atomic uint64_t still_ns, still_ticks, moved_ns, moved_ticks;
	_Atomic uint64_t counted_ns;    /* until then, time is in these */
	_Atomic uint64_t milliperiods;  /* thousandths of periods that have passed, however long each was, */
	_Atomic uint64_t periods_ns;    /* in so much time */
	_Atomic uint64_t samples;       /* that are over; */
	_Atomic uint64_t sampled_ns;    /* when the last one was */
	_Atomic uint64_t taker_cpu_ns;  /* that of the thread which took it, at its end; */
	_Atomic pid_t taker;            /* and the thread */
	_Atomic bool busy;              /* that thread uses much */
	_Atomic bool rough;             /* so nobody has asked for */
	_Atomic uint64_t base_cpu_ns;   /* the application's CPU time at the end of the last one */
	_Atomic uint64_t sample_cpu_ns; /* what all have taken */
	_Atomic uint64_t woken, asked_ns;
	_Atomic pid_t thread;
	_Atomic bool settles; /* the sample was, or is to be, taken by a main thread that had been woken */
	struct profile_watch watch;

	/* The thread's. */
	uint64_t asked_samples; /* how many were over when it asked for one; UINT64_MAX: it did not */
	uint64_t woke_ns, random;
	uint64_t wakes;                /* so often it has come */
	uint64_t usual_ns;             /* so late it comes where nobody is in its way; on a virtual machine that may be 0.1 ms */
	struct sampling_budget budget; /* of one processor's time */
};

static void release(struct profile_clock *clock)
{
	if (atomic_fetch_sub(&clock->owners, 1) == 1)
		free(clock);
}

/* 0: there is none. */
static uint64_t cpu_of_ns(pid_t thread)
{
	uint64_t ns;

	return thread && clock_thread_ns(thread, &ns) ? ns : 0;
}

uint64_t profile_clock_application_cpu_ns(const struct profile_clock *clock)
{
	uint64_t own_ns = clock_thread_counted_ns() + stream_cpu_ns(), all_ns;

	own_ns += cpu_of_ns(atomic_load(&clock->thread)) + cpu_of_ns(ringer_thread());
	all_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	return all_ns > own_ns ? all_ns - own_ns : 0;
}

/* What the thread that took the last sample has used since. */
static uint64_t taker_more_ns(const struct profile_clock *clock)
{
	uint64_t base_ns = atomic_load(&clock->taker_cpu_ns), cpu_ns;

	return clock_thread_ns(atomic_load(&clock->taker), &cpu_ns) && cpu_ns > base_ns ? cpu_ns - base_ns : 0;
}

/* Whether any thread has done something since the last sample. */
static bool has_moved(struct profile_clock *clock, uint64_t now_ns)
{
	uint64_t taker_ns = taker_more_ns(clock), base_ns = atomic_load(&clock->base_cpu_ns), more_ns = taker_ns, cpu_ns;
	bool busy = taker_ns > atomic_load(&clock->period_ns) / 4;

	atomic_store(&clock->busy, busy);
	/* Otherwise the next sample begins to look closely. */
	if (busy || atomic_load(&clock->rough))
		return true;
	profile_watch_refresh(&clock->watch);
	cpu_ns = profile_clock_application_cpu_ns(clock);
	if (cpu_ns > base_ns && cpu_ns - base_ns > more_ns)
		more_ns = cpu_ns - base_ns;
	if (now_ns > atomic_load(&clock->sampled_ns) + STILL_MAX_NS)
		return true;
	if (atomic_load(&clock->settles) && more_ns < SETTLE_CPU_NS) {
		atomic_store(&clock->settles, now_ns < clock->woke_ns + SETTLE_NS);
		atomic_fetch_add(&clock->taker_cpu_ns, taker_ns);
		atomic_store(&clock->base_cpu_ns, cpu_ns);
		return false;
	}
	return more_ns > STILL_CPU_NS;
}

static bool may_wake(const struct profile_clock *clock, uint64_t now_ns)
{
	uint64_t asked_ns = atomic_load(&clock->asked_ns);

	return now_ns - asked_ns >= atomic_load(&clock->period_ns) / 2 && now_ns - clock->woke_ns >= WAKE_AGAIN_NS &&
	       ringer_may_wake(asked_ns);
}

static void ask(struct profile_clock *clock, uint64_t now_ns, uint64_t latest_ns)
{
	uint64_t samples = atomic_load(&clock->samples);
	bool asked = clock->asked_samples == samples, wakes = asked && may_wake(clock, now_ns);

	if (!asked) {
		atomic_store(&clock->asked_ns, now_ns);
		atomic_store(&clock->settles, false);
	}
	clock->asked_samples = samples;
	profile_watch_tick(&clock->watch, latest_ns);
	if (wakes)
		clock->woke_ns = now_ns;
	if (ringer_push(clock->trigger, wakes)) {
		atomic_store(&clock->settles, true);
		atomic_fetch_add(&clock->woken, 1);
	}
}

/* The time since it was last counted. */
static uint64_t count_time(struct profile_clock *clock, uint64_t now_ns)
{
	uint64_t before_ns = atomic_exchange(&clock->counted_ns, now_ns);

	return now_ns > before_ns ? now_ns - before_ns : 0;
}

static void tick(struct profile_clock *clock, uint64_t now_ns, uint64_t latest_ns, uint64_t ticks)
{
	uint64_t time_ns = count_time(clock, now_ns);
	uint64_t samples = atomic_load(&clock->samples);
	bool waits = clock->asked_samples == samples; /* for one that it asked for */

	atomic_fetch_add(&clock->milliperiods, time_ns * 1000 / atomic_load(&clock->period_ns));
	atomic_fetch_add(&clock->periods_ns, time_ns);
	if (!waits && samples && !has_moved(clock, now_ns)) {
		atomic_fetch_add(&clock->still_ticks, ticks);
		atomic_fetch_add(&clock->still_ns, time_ns);
		return;
	}
	atomic_fetch_add(&clock->moved_ticks, ticks);
	atomic_fetch_add(&clock->moved_ns, time_ns);
	ask(clock, now_ns, latest_ns);
}

/* Where samples take more than they may, there are fewer. */
static void keep_to_budget(struct profile_clock *clock, uint64_t now_ns)
{
	uint64_t period_ns = atomic_load(&clock->period_ns), taken_ns;

	if (!sampling_budget_is_due(&clock->budget, period_ns, now_ns))
		return;
	taken_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) + atomic_load(&clock->sample_cpu_ns) + stream_cpu_ns() +
	           clock->wakes * UNSEEN_NS;
	/* A thread that sends for somebody else is not counted for a moment as it ends. */
	if (taken_ns < clock->budget.taken_ns)
		taken_ns = clock->budget.taken_ns;
	atomic_store(&clock->period_ns, sampling_budget_period_ns(&clock->budget, period_ns, now_ns, taken_ns));
}

/* The least of late, which is given up slowly: the machine may have become slower. The moment after which a tick is late. */
static uint64_t latest(struct profile_clock *clock, uint64_t due_ns, uint64_t now_ns)
{
	uint64_t late_ns = now_ns > due_ns ? now_ns - due_ns : 0;

	if (late_ns < clock->usual_ns)
		clock->usual_ns = late_ns;
	else if (clock->usual_ns < USUAL_MAX_NS)
		clock->usual_ns += USUAL_STEP_NS;
	return due_ns + clock->usual_ns + clock->usual_ns / 2 + LATE_NS;
}

/* What time it is then. */
static uint64_t come_at(struct profile_clock *clock, uint64_t due_ns)
{
	clock_thread_sleep_until(&clock->stop, due_ns);
	clock->wakes++;
	return clock_now_ns();
}

/*
 * Sleeps until then, or, where it came late, until some moment of chance soon after: one who waited for a processor goes on when
 * somebody's turn ends, as do threads of the application, and a tick then would see them where turns begin. A thread that has
 * just slept mostly gets a processor at once; from a processor that slept, too, it comes sooner than after a whole period.
 * *due_ns: the moment; *latest_ns: what comes after it is late.
 */
static uint64_t sleep_until_on_time(struct profile_clock *clock, uint64_t *due_ns, uint64_t *latest_ns, uint64_t period_ns)
{
	uint64_t more_ns = period_ns / 2 < AGAIN_NS ? period_ns / 2 : AGAIN_NS, now_ns, allowed_ns;

	now_ns = come_at(clock, *due_ns);
	*latest_ns = latest(clock, *due_ns, now_ns);
	allowed_ns = *latest_ns - *due_ns;
	for (int i = 0; i < AGAIN_TIMES && now_ns > *latest_ns && !atomic_load(&clock->stop); i++) {
		*due_ns = now_ns + random_next(&clock->random) % more_ns;
		*latest_ns = *due_ns + allowed_ns;
		now_ns = come_at(clock, *due_ns);
	}
	return now_ns;
}

static void *run(void *argument)
{
	struct profile_clock *clock = argument;
	uint64_t base_ns = clock_now_ns();

	clock_thread_begin(THREAD_NAME);
	atomic_store(&clock->thread, (pid_t)syscall(SYS_gettid));
	clock->budget.since_ns = base_ns;
	clock->budget.taken_ns = stream_cpu_ns();
	clock->random = base_ns | 1;
	clock->usual_ns = USUAL_MAX_NS;
	while (!atomic_load(&clock->stop)) {
		uint64_t period_ns = atomic_load(&clock->period_ns), now_ns, due_ns, latest_ns, first_ns, missed;

		base_ns += period_ns;
		first_ns = due_ns = base_ns + random_next(&clock->random) % period_ns;
		now_ns = sleep_until_on_time(clock, &due_ns, &latest_ns, period_ns);
		if (now_ns < due_ns) {
			base_ns -= period_ns; /* it is to end, or was woken for nothing */
			continue;
		}
		missed = (now_ns - first_ns) / period_ns;
		tick(clock, now_ns, latest_ns, 1 + missed);
		base_ns += missed * period_ns;
		keep_to_budget(clock, now_ns);
	}
	atomic_store(&clock->thread, 0);
	release(clock);
	return NULL;
}

struct profile_clock *profile_clock_start(uint32_t rate_hz, void (*trigger)(void))
{
	struct profile_clock *clock = calloc(1, sizeof(*clock));

	if (!clock)
		return NULL;
	clock->trigger = trigger;
	clock->asked_samples = UINT64_MAX;
	clock->budget = (struct sampling_budget){.least_ns = NS_PER_S / rate_hz, .allowed = profile_allowed(rate_hz)};
	atomic_store(&clock->period_ns, clock->budget.least_ns);
	atomic_store(&clock->counted_ns, clock_now_ns());
	atomic_store(&clock->owners, 2);
	if (wake_thread(run, clock))
		return clock;
	free(clock);
	return NULL;
}

void profile_clock_halt(struct profile_clock *clock)
{
	struct timespec pause = {.tv_nsec = 100 * (long)NS_PER_US};

	clock_thread_stop(&clock->stop);
	for (int i = 0; i < STOP_WAIT_MS * 10 && atomic_load(&clock->owners) > 1; i++)
		nanosleep(&pause, NULL);
}

void profile_clock_stop(struct profile_clock *clock)
{
	profile_clock_halt(clock);
	release(clock);
}

void profile_clock_forget(struct profile_clock *clock)
{
	free(clock);
}

void profile_clock_take(struct profile_clock *clock, bool last, struct profile_time *time)
{
	if (last)
		atomic_fetch_add(&clock->moved_ns, count_time(clock, clock_now_ns()));
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
	bool rough = atomic_load(&clock->busy);

	atomic_fetch_add(&clock->sample_cpu_ns, cpu_ns);
	atomic_store(&clock->rough, rough);
	if (!rough)
		atomic_store(&clock->base_cpu_ns, profile_clock_application_cpu_ns(clock));
	atomic_store(&clock->taker, (pid_t)syscall(SYS_gettid));
	atomic_store(&clock->taker_cpu_ns, clock_ns(CLOCK_THREAD_CPUTIME_ID));
	atomic_store(&clock->sampled_ns, clock_now_ns());
	atomic_fetch_add(&clock->samples, 1);
}

uint64_t profile_clock_cpu_ns(const struct profile_clock *clock)
{
	return cpu_of_ns(atomic_load(&clock->thread));
}

double profile_clock_rate_hz(const struct profile_clock *clock)
{
	return sampling_rate_hz(atomic_load(&clock->milliperiods), atomic_load(&clock->periods_ns),
	                        atomic_load(&clock->period_ns));
}

uint64_t profile_clock_woken(const struct profile_clock *clock)
{
	return atomic_load(&clock->woken);
}
