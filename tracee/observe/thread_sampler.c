/*
 * The native thread that looks at Ruby's. See thread_sampler.h.
 *
 * There is one sample in each period, at a time within it that is chance: so samples do not fall in step with a program that does
 * the same every few milliseconds. What a thread does is told when it differs from the last time, and once a second in any case.
 *
 * A thread that does without the GVL, and whose CPU clock stands still, is where it was. Else its innermost frame says in what it
 * is: the frame stands still while the thread does without the GVL.
 *
 * Context: the thread (no GVL, all signals blocked), where the header says nothing else.
 */

#define _GNU_SOURCE
#include "tracee/observe/thread_sampler.h"

#include "proto/clock.h"
#include "proto/sampling_budget.h"
#include "proto/states.h"
#include "tracee/base/clock_thread.h"
#include "tracee/base/random.h"
#include "tracee/base/ticks.h"
#include "tracee/frame/frame_innermost.h"
#include "tracee/session/bell.h"
#include "tracee/session/ringer.h"
#include "tracee/session/wake.h"
#include "tracee/vm/blocked_in.h"
#include "tracee/vm/gvl_layout.h"
#include "tracee/vm/layout.h"
#include "tracee/vm/thread_layout.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#define THREAD_NAME "rbprobe-threads"
#define TELL_ALL_NS (1 * NS_PER_S)
#define GAP_NS (20 * NS_PER_MS) /* after so long, and some periods, it is not known when a thread began to do what it does */
#define GAP_PERIODS 4
#define LOOKS 3
#define ASK_AGAIN_NS (100 * NS_PER_MS)
#define MOMENT_NS (1 * NS_PER_MS)
#define STOP_WAIT_MS 500 /* the thread needs microseconds, when it has a processor; the GVL is held */

static struct {
	struct state_ring *ring;
	uint32_t rate_hz; /* that was asked for; 0: it does not run */
	bool frames_known;
	_Atomic uint32_t stop; /* a futex */
	_Atomic bool alive;
	_Atomic bool tell_all, wants_list;
	_Atomic uint64_t late, longest_late_ns;
	_Atomic uint64_t period_ns;         /* longer than asked for where samples take too much; */
	_Atomic uint64_t fewer, longest_ns; /* so many samples were taken then, and the longest period */

	/* The thread's. */
	uint64_t told_ns, random;
	uint64_t ticks;                /* of the last sample; */
	bool is_gap;                   /* too long before the present one */
	uintptr_t stranger, ended;     /* has the GVL and is not in the table; the last one that ended. 0: none */
	uint64_t asked_ns;             /* when a job was asked to look for strangers */
	struct sampling_budget budget; /* of one processor's time */
} sampler;

static void push(enum state_event event, uint64_t ticks, uint64_t thread, uint32_t native_id)
{
	const struct state_entry entry = {.ticks = ticks, .thread = thread, .native_id = native_id, .event = (uint8_t)event};

	state_ring_push(sampler.ring, &entry);
}

/* --- A sample */

/* Returns how many places of the table it has looked at. */
static uint32_t look_at_all(uintptr_t owner)
{
	uint32_t end = thread_table_end();

	sampler.stranger = owner;
	for (uint32_t i = 0; i < end; i++) {
		struct sampled_thread *thread = thread_table_at(i);

		thread->looked = thread->used;
		if (!thread->looked)
			continue;
		if (thread->structure == owner)
			sampler.stranger = 0;
		thread->collections_seen = thread->collections;
		thread->look = gvl_layout_look(thread->structure, owner);
		/* It has just got the GVL: whether it had to wait for that is not known. The next look finds it at work. */
		if (thread->look == GVL_LOOK_WAITS && gvl_layout_owner() == thread->structure)
			thread->looked = false;
	}
	return end;
}

/* One moment for all threads, since they have the same GVL: again where it took long, or the GVL changed hands meanwhile. */
static uint32_t look_at_a_moment(uint64_t *ticks)
{
	uint32_t end = 0;

	for (int i = 0; i < LOOKS; i++) {
		uintptr_t owner = gvl_layout_owner();
		uint64_t began_ns = clock_now_ns();

		*ticks = ticks_now();
		end = look_at_all(owner);
		if (clock_now_ns() - began_ns < MOMENT_NS && gvl_layout_owner() == owner)
			break;
	}
	return end;
}

static bool is_outside(enum state_event event)
{
	return event == STATE_BLOCKED || (event >= STATE_IN_IO && event <= STATE_FOR_PROCESS);
}

static enum state_event outside_in(const struct sampled_thread *thread)
{
	static const enum state_event events[] = {
		[BLOCKED_IN_OTHER] = STATE_BLOCKED,       [BLOCKED_IN_IO] = STATE_IN_IO,
		[BLOCKED_IN_SLEEP] = STATE_SLEEPS,        [BLOCKED_IN_LOCK] = STATE_IN_LOCK,
		[BLOCKED_IN_PROCESS] = STATE_FOR_PROCESS,
	};
	uintptr_t context = ((const _Atomic uintptr_t *)thread->structure)[layout_value(LAYOUT_THREAD_CONTEXT)];
	VALUE owner;
	ID method;

	if (!sampler.frames_known || !frame_innermost_method(context, &owner, &method))
		return STATE_BLOCKED;
	return events[blocked_in_method(owner, method)];
}

static enum state_event outside(struct sampled_thread *thread, enum state_event last)
{
	uint64_t cpu_ns;
	bool has_cpu = thread->native_id && clock_thread_ns((pid_t)thread->native_id, &cpu_ns);
	enum state_event in;

	if (has_cpu && thread->has_cpu && cpu_ns == thread->cpu_ns && is_outside(last))
		return last;
	in = outside_in(thread);
	/* Else its frame was perhaps read while it ran: it did without the GVL, and in what is not known. */
	if (gvl_layout_look(thread->structure, gvl_layout_owner()) != GVL_LOOK_OUTSIDE) {
		has_cpu = false;
		in = STATE_BLOCKED;
	}
	thread->has_cpu = has_cpu;
	thread->cpu_ns = has_cpu ? cpu_ns : 0;
	return in;
}

static enum state_event event_of(struct sampled_thread *thread, enum state_event last)
{
	switch (thread->look) {
	case GVL_LOOK_HOLDS:
		return STATE_RUNS;
	case GVL_LOOK_DEAD:
		return STATE_ENDED;
	case GVL_LOOK_OUTSIDE:
		return outside(thread, last);
	case GVL_LOOK_WAITS:
		break;
	}
	return STATE_WAITS;
}

/* It tells by itself when a collection begins and ends: what was seen before that is old. */
static bool collects(const struct sampled_thread *thread)
{
	return thread->collections_seen % 2 || thread->collections != thread->collections_seen;
}

static void tell_of(struct sampled_thread *thread, uint64_t ticks, bool tell)
{
	enum state_event last = atomic_load(&thread->last), now = event_of(thread, last);

	if (now != STATE_ENDED && collects(thread))
		return;
	if (sampler.is_gap && now != last && last != STATE_EVENTS)
		push(STATE_UNKNOWN, sampler.ticks, thread->structure, thread->native_id);
	if (now != last || tell) {
		atomic_store(&thread->last, (uint8_t)now);
		push(now, ticks, thread->structure, thread->native_id);
	}
	if (now != STATE_ENDED)
		return;
	sampler.ended = thread->structure;
	thread->used = false;
}

/* One that just begins, or ends, has the GVL and is not in the table; one that has it twice was made by C code. */
static void ask_for_strangers(uint64_t now_ns, uintptr_t before)
{
	if (!sampler.stranger || sampler.stranger != before || sampler.stranger == sampler.ended || thread_table_left_out() ||
	    now_ns - sampler.asked_ns < ASK_AGAIN_NS)
		return;
	sampler.asked_ns = now_ns;
	atomic_store(&sampler.wants_list, true);
	ringer_push(bell_trigger, false);
}

static void sample(uint64_t now_ns, bool tell)
{
	uint64_t ticks;
	uint32_t end = look_at_a_moment(&ticks);

	tell = atomic_exchange(&sampler.tell_all, false) || tell || now_ns - sampler.told_ns >= TELL_ALL_NS;
	for (uint32_t i = 0; i < end; i++) {
		struct sampled_thread *thread = thread_table_at(i);

		if (thread->looked)
			tell_of(thread, ticks, tell);
	}
	if (tell)
		sampler.told_ns = now_ns;
	sampler.ticks = ticks;
}

/* --- The thread */

/* True: who does something else than at the last sample may have begun so anywhere in between. */
static bool is_gap(uint64_t passed_ns, uint64_t period_ns)
{
	if (passed_ns < GAP_NS || passed_ns < GAP_PERIODS * period_ns)
		return false;
	atomic_fetch_add(&sampler.late, 1);
	if (passed_ns > atomic_load(&sampler.longest_late_ns))
		atomic_store(&sampler.longest_late_ns, passed_ns);
	return true;
}

/* What a sample takes grows with the threads. */
static void keep_to_budget(uint64_t now_ns)
{
	uint64_t period_ns = atomic_load(&sampler.period_ns);

	if (period_ns > sampler.budget.least_ns) {
		atomic_fetch_add(&sampler.fewer, 1);
		if (period_ns > atomic_load(&sampler.longest_ns))
			atomic_store(&sampler.longest_ns, period_ns);
	}
	if (sampling_budget_is_due(&sampler.budget, period_ns, now_ns))
		atomic_store(&sampler.period_ns,
		             sampling_budget_period_ns(&sampler.budget, period_ns, now_ns, clock_ns(CLOCK_THREAD_CPUTIME_ID)));
}

static void *run(void *unused)
{
	uint64_t base_ns = clock_now_ns(), last_ns = base_ns;
	uintptr_t stranger;

	clock_thread_begin(THREAD_NAME);
	clock_thread_count_begin();
	sampler.random = base_ns | 1;
	sampler.budget = (struct sampling_budget){.least_ns = NS_PER_S / sampler.rate_hz,
	                                          .allowed = SAMPLER_ALLOWED,
	                                          .since_ns = base_ns,
	                                          .taken_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID)};
	while (!atomic_load(&sampler.stop)) {
		uint64_t period_ns = atomic_load(&sampler.period_ns);
		uint64_t due_ns = base_ns + random_next(&sampler.random) % period_ns, now_ns;

		clock_thread_sleep_until(&sampler.stop, due_ns);
		now_ns = clock_now_ns();
		if (now_ns < due_ns)
			continue; /* it is to end, or was woken for nothing */
		sampler.is_gap = is_gap(now_ns - last_ns, period_ns);
		stranger = sampler.stranger;
		sample(now_ns, false);
		ask_for_strangers(now_ns, stranger);
		last_ns = now_ns;
		base_ns += ((now_ns - base_ns) / period_ns + 1) * period_ns;
		keep_to_budget(now_ns);
	}
	clock_thread_count_end();
	atomic_store(&sampler.alive, false);
	return unused;
}

/* --- Jobs */

int thread_sampler_check(struct error *err)
{
	if (gvl_layout_find())
		return 0;
	return error_set(err, -ENOTSUP,
	                 "--timeline: this Ruby does not tell what its threads do, and where it keeps that was not found; "
	                 "`rbprobe profile --gvl` needs less");
}

int thread_sampler_start(struct state_ring *ring, uint32_t rate_hz, struct error *err)
{
	if (atomic_load(&sampler.alive))
		return atomic_load(&sampler.stop) ? error_set(err, -EAGAIN, "the last --timeline is still ending") : 0;
	if (thread_sampler_check(err) < 0)
		return err->code;
	sampler.frames_known = thread_layout_find() && frame_innermost_find();
	blocked_in_prepare();
	thread_table_open();
	sampler.ring = ring;
	sampler.rate_hz = rate_hz;
	sampler.period_ns = NS_PER_S / rate_hz;
	sampler.told_ns = sampler.asked_ns = 0;
	sampler.wants_list = false;
	sampler.ticks = ticks_now();
	sampler.late = sampler.longest_late_ns = 0;
	sampler.fewer = sampler.longest_ns = 0;
	atomic_store(&sampler.stop, 0);
	atomic_store(&sampler.alive, true);
	if (wake_thread(run, NULL))
		return 0;
	atomic_store(&sampler.alive, false);
	sampler.rate_hz = 0;
	thread_table_close();
	return error_set(err, -EAGAIN, "no thread could be made for --timeline");
}

/* One that has had no processor for so long goes on; what it reads stays. */
static bool has_ended(void)
{
	struct timespec pause = {.tv_nsec = 100 * (long)NS_PER_US};

	clock_thread_stop(&sampler.stop);
	for (int i = 0; i < STOP_WAIT_MS * 10 && atomic_load(&sampler.alive); i++)
		nanosleep(&pause, NULL);
	return !atomic_load(&sampler.alive);
}

bool thread_sampler_exit(bool threads_are_there)
{
	if (!sampler.rate_hz || !has_ended())
		return false;
	sampler.is_gap = false;
	if (threads_are_there)
		sample(clock_now_ns(), true);
	sampler.rate_hz = 0;
	return true;
}

void thread_sampler_stop(void)
{
	if (thread_sampler_exit(true))
		thread_table_close();
}

void thread_sampler_clean(void)
{
	if (!sampler.rate_hz || atomic_load(&sampler.alive))
		return;
	sampler.rate_hz = 0;
	thread_table_close();
}

bool thread_sampler_fork_child(void)
{
	bool ran = sampler.rate_hz != 0;

	clock_thread_count_fork_child();
	atomic_store(&sampler.alive, false);
	sampler.late = sampler.fewer = 0;
	sampler.longest_late_ns = sampler.longest_ns = 0;
	thread_table_fork_child();
	return ran;
}

struct sampler_misses thread_sampler_misses(void)
{
	return (struct sampler_misses){
		.late = sampler.late,
		.longest_late_ns = sampler.longest_late_ns,
		.fewer = sampler.fewer,
		.longest_period_ns = sampler.longest_ns,
	};
}

void thread_sampler_list(void)
{
	if (sampler.rate_hz && atomic_exchange(&sampler.wants_list, false))
		thread_table_list();
}

void thread_sampler_tell_all(void)
{
	atomic_store(&sampler.tell_all, true);
}

uint32_t thread_sampler_rate_hz(void)
{
	return sampler.rate_hz;
}

bool thread_sampler_tells_in_what(void)
{
	return sampler.frames_known;
}

void thread_sampler_collects(struct sampled_thread *thread, bool begins)
{
	if (!begins)
		atomic_store(&thread->last, STATE_RUNS);
	atomic_store(&thread->collections, (thread->collections | 1) + !begins);
}
