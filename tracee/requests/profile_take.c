/* A sample of the time of a profile's threads. See profile_take.h. */

#include "tracee/requests/profile_take.h"

#include "proto/clock.h"
#include "tracee/requests/profile_gc.h"

#define AWAY_NS (25 * NS_PER_US)    /* for so long our own threads may have a thread's processor between tick and sample */
#define WATCHED_ALWAYS 8u           /* so many threads are watched also where they have done nothing */
#define WAKING_NS (150 * NS_PER_US) /* more than a thread needs from its wake-up to the sample */

static void add_or_count(struct profiler *profiler, uint32_t thread, uint32_t stack, const uint64_t figures[PROFILE_FIGURES])
{
	if (stack == PROFILE_STACK_NONE || !profile_sums_add(&profiler->sums, thread, stack, figures))
		profiler->no_room_ticks += figures[0];
}

/*
 * Whether the thread was at work from the tick until now: it used a processor or, where the kernel tells that, waited for one. It
 * then is where it was at the tick. One that waited at the tick, for anything else, is seen as it wakes up: it has used little
 * since, and much other time has passed; so has one that worked at the tick, and then waited.
 */
static bool worked_since(const struct profile_thread *known, uint64_t passed_ns, uint64_t used_ns, uint64_t delay_at_tick_ns)
{
	uint64_t delay_ns;

	if (used_ns + AWAY_NS >= passed_ns)
		return true;
	if (delay_at_tick_ns == UINT64_MAX)
		return false;
	delay_ns = profile_watch_delay_ns((pid_t)known->clock_id);
	return delay_ns != UINT64_MAX && used_ns + AWAY_NS + (delay_ns - delay_at_tick_ns) >= passed_ns;
}

/*
 * Whether the thread used a processor at the tick, or waited for one. One that had just been woken does so, too, and is still in
 * the method that it waited in: the sample's innermost one, which is not written in the application's Ruby. So there it must have
 * used more than it takes to wake up.
 */
static bool ran_at_tick(const struct profiler *profiler, const struct profile_thread *known, const struct profile_tick *tick)
{
	bool takes = known->thread == rb_thread_current();
	uint64_t now_ns = takes ? profiler->sample_ns : clock_now_ns(), passed_ns = now_ns - tick->at_ns;
	uint64_t cpu_ns = takes ? profiler->sample_cpu_ns : known->cpu_ns, before_ns = known->before_ns, used_ns;
	uint64_t delay_ns = UINT64_MAX;
	bool mostly;

	if (!tick->at_ns || now_ns < tick->at_ns || !known->has_cpu)
		return false;
	/* One that is not watched did nothing before the last sample: what it has used since it may have used before the tick. */
	if (!profile_tick_thread(tick, (pid_t)known->clock_id, &before_ns, &delay_ns) && (!takes || !known->had_cpu))
		return takes && !tick->late && passed_ns <= WAKING_NS;
	used_ns = cpu_ns > before_ns ? cpu_ns - before_ns : 0;
	mostly = !takes && !tick->late && used_ns > passed_ns - passed_ns / 4;
	/* Whatever it waited for, it has used too little: so the kernel is not asked. */
	if (!takes && used_ns < WAKING_NS && (tick->late || used_ns + AWAY_NS < passed_ns))
		return mostly;
	if (!worked_since(known, passed_ns, used_ns, delay_ns))
		return mostly;
	if (!tick->late && used_ns + AWAY_NS >= passed_ns)
		return used_ns > 0;
	return used_ns >= WAKING_NS || (takes && profile_stack_is_in_ruby(profiler->stacks, known->stack));
}

/*
 * How much CPU time the sample stands for: a tick's, where the thread ran at the tick, and none where it did not, whatever it has
 * used in between: that was somewhere else. A sample that is late by some ticks stands for what its clock says.
 */
static uint64_t cpu_of_sample(const struct profiler *profiler, const struct profile_thread *known,
                              const struct profile_time *time)
{
	uint64_t used_ns = known->last_ns < time->moved_ns ? known->last_ns : time->moved_ns;

	if (!time->moved_ticks || !ran_at_tick(profiler, known, &time->tick))
		return 0;
	return time->moved_ticks > 1 && used_ns > time->period_ns ? used_ns : time->period_ns;
}

/*
 * So much of its time this thread collected garbage. Not more than it had. Samples that find no CPU time leave it to the next
 * that does, which stands for them.
 */
static uint64_t take_gc(struct profiler *profiler, const struct profile_thread *known, const struct profile_time *time,
                        uint64_t gc_ns, uint64_t *cpu_ns)
{
	uint64_t ns = gc_ns < time->moved_ns ? gc_ns : time->moved_ns;
	uint64_t owed_ns = profiler->gc_cpu_ns + ns, cpu_of_gc = owed_ns < *cpu_ns ? owed_ns : *cpu_ns;
	const uint64_t figures[PROFILE_FIGURES] = {0, ns, cpu_of_gc, 0};

	if (!owed_ns)
		return 0;
	profiler->gc_cpu_ns = owed_ns - cpu_of_gc;
	add_or_count(profiler, known->number, profile_stack_of_gc(profiler->stacks), figures);
	*cpu_ns -= cpu_of_gc;
	return ns;
}

/* What it waited, and what others waited for it, is where the sample finds it. */
static void take_gvl(struct profiler *profiler, const struct profile_thread *known, const struct profile_time *time)
{
	struct profile_gvl_times times = profile_gvl_by_events(profiler->gvl)
	                                         ? profile_gvl_take(profiler->gvl, known)
	                                         : profile_gvl_guess(profiler->gvl, known, profiler->busiest, time->moved_ns);
	const uint64_t figures[PROFILE_FIGURES] = {times.waits, times.waited_ns, times.held_ns, 0};

	profiler->guessed_ns += profile_gvl_by_events(profiler->gvl) ? 0 : times.waited_ns;
	if (known->number == profiler->busiest)
		profiler->busiest_stack = known->stack;
	if (!times.waited_ns && !times.held_ns)
		return;
	if (known->stack == PROFILE_STACK_NONE || !profile_sums_add(&profiler->gvl_sums, known->number, known->stack, figures))
		profiler->no_room_ticks++;
}

/* Where the thread is. What has not run is asked nothing: most threads of a server wait. */
static void look_at_stack(struct profiler *profiler, struct profile_thread *known)
{
	if (!known->stands || !known->has_stack || known->stack == PROFILE_STACK_NONE)
		known->stack = profile_stack_of(profiler->stacks, known->thread, &known->cut);
	known->has_stack = true;
	profiler->cut += known->cut;
}

static void take_thread(struct profiler *profiler, VALUE thread, uint32_t index, const struct profile_time *time, uint64_t gc_ns)
{
	struct profile_thread *known = profile_threads_get(&profiler->threads, thread, index);
	uint64_t cpu_ns, left_ns = time->moved_ns;
	bool idle;

	if (!known)
		profiler->threads.left_out++;
	if (!known || known->ours)
		return;
	/* One that was not there at the last sample: it began about a tick ago at most, however late this one is. */
	if (!known->has_stack && profiler->samples && left_ns > time->period_ns)
		left_ns = time->period_ns;
	if (known->has_stack && time->still_ticks) {
		const uint64_t still[PROFILE_FIGURES] = {time->still_ticks, time->still_ns, 0, time->still_ns};

		add_or_count(profiler, known->number, known->stack, still);
	}
	look_at_stack(profiler, known);
	cpu_ns = cpu_of_sample(profiler, known, time);
	profiler->cpu_samples += cpu_ns > 0;
	idle = !cpu_ns && known->last_ns < time->moved_ns / 2;
	if (profiler->gvl)
		take_gvl(profiler, known, time);
	if (known->number == profiler->busiest)
		left_ns -= take_gc(profiler, known, time, gc_ns, &cpu_ns);
	add_or_count(profiler, known->number, known->stack,
	             (const uint64_t[PROFILE_FIGURES]){time->moved_ticks, left_ns, cpu_ns, idle ? left_ns : 0});
}

/* Who has used how much CPU time since the last sample, and who most. */
static void look_at_clock(struct profiler *profiler, VALUE thread, uint32_t index, uint64_t *most_ns)
{
	struct profile_thread *known = profile_threads_get(&profiler->threads, thread, index);

	if (!known)
		return;
	profile_thread_cpu_ns(&profiler->threads, known, thread == rb_thread_current() ? profiler->sample_cpu_ns : 0,
	                      &profiler->last);
	if (known->ours)
		return;
	if ((known->last_ns || !known->had_cpu || index < WATCHED_ALWAYS) && known->clock_id &&
	    profiler->watched_count < PROFILE_WATCHED_MAX)
		profiler->watched[profiler->watched_count++] = (pid_t)known->clock_id;
	if (known->last_ns <= *most_ns && profiler->busiest)
		return;
	*most_ns = known->last_ns;
	profiler->busiest = known->number;
}

void profile_note_clocks(struct profiler *profiler, VALUE list)
{
	for (long i = 0; i < RARRAY_LEN(list); i++) {
		struct profile_thread *known = profile_threads_get(&profiler->threads, RARRAY_AREF(list, i), (uint32_t)i);

		if (known)
			profile_thread_cpu_ns(&profiler->threads, known, 0, &profiler->last);
	}
}

/* The time that the VM has been in collections since the last sample: that of the thread which has done most. */
void profile_take_times(struct profiler *profiler, VALUE list, const struct profile_time *time)
{
	uint64_t most_ns = 0, gc_ns = profiler->gc_known ? profile_gc_ns() : 0;

	profiler->busiest = 0;
	profiler->watched_count = 0;
	profiler->guessed_ns = 0;
	profiler->busiest_stack = PROFILE_STACK_NONE;
	if (profiler->gvl)
		profile_gvl_begin(profiler->gvl);
	for (long i = 0; i < RARRAY_LEN(list); i++)
		look_at_clock(profiler, RARRAY_AREF(list, i), (uint32_t)i, &most_ns);
	for (long i = 0; i < RARRAY_LEN(list); i++)
		take_thread(profiler, RARRAY_AREF(list, i), (uint32_t)i, time, gc_ns - profiler->gc_ns);
	profiler->gc_ns = gc_ns;
	profile_clock_watch(profiler->clock, profiler->watched, profiler->watched_count);
	if (profiler->busiest && profiler->guessed_ns) {
		const uint64_t figures[PROFILE_FIGURES] = {0, 0, profiler->guessed_ns, 0};

		if (profiler->busiest_stack != PROFILE_STACK_NONE)
			profile_sums_add(&profiler->gvl_sums, profiler->busiest, profiler->busiest_stack, figures);
	}
	profiler->samples++;
	if (time->moved_ticks > 1) {
		profiler->late_ticks += time->moved_ticks - 1;
		profiler->late_ns += time->moved_ns - time->moved_ns / time->moved_ticks;
	}
}
