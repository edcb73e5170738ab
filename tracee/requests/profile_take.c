/* A sample of the time of a profile's threads. See profile_take.h. */

#include "tracee/requests/profile_take.h"

#include "proto/clock.h"
#include "tracee/requests/profile_gc.h"

#define PROMPT_NS (500 * NS_PER_US)

static void add_or_count(struct profiler *profiler, uint32_t thread, uint32_t stack, const uint64_t figures[PROFILE_FIGURES])
{
	if (stack == PROFILE_STACK_NONE || !profile_sums_add(&profiler->sums, thread, stack, figures))
		profiler->no_room_ticks += figures[0];
}

/*
 * How much CPU time the sample stands for: none where the thread waited, since what it has used since the last sample was
 * somewhere else then. A thread that runs takes the sample at once; one that took it when it woke up does so later. used_ns: by
 * its clock.
 */
static uint64_t cpu_of_sample(struct profiler *profiler, const struct profile_time *time, VALUE thread, uint64_t used_ns)
{
	uint64_t prompt_ns = time->period_ns / 4 < PROMPT_NS ? time->period_ns / 4 : PROMPT_NS;
	bool runs = thread == rb_thread_current() && profiler->sample_ns - time->asked_ns < prompt_ns;
	uint64_t tick_ns = time->moved_ns < time->period_ns ? time->moved_ns : time->period_ns;

	if (!runs && used_ns < time->moved_ns / 2)
		return 0;
	return used_ns > tick_ns ? used_ns : tick_ns;
}

/* So much of its time this thread collected garbage. Not more than it had. */
static uint64_t take_gc(struct profiler *profiler, const struct profile_thread *known, const struct profile_time *time,
                        uint64_t gc_ns, uint64_t *cpu_ns)
{
	uint64_t ns = gc_ns < time->moved_ns ? gc_ns : time->moved_ns;
	uint64_t cpu_of_gc = ns < *cpu_ns ? ns : *cpu_ns;
	const uint64_t figures[PROFILE_FIGURES] = {0, ns, cpu_of_gc, 0};

	if (!ns)
		return 0;
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

static void take_thread(struct profiler *profiler, VALUE thread, uint32_t index, const struct profile_time *time, uint64_t gc_ns)
{
	struct profile_thread *known = profile_threads_get(&profiler->threads, thread, index);
	uint64_t cpu_ns, left_ns = time->moved_ns;
	bool cut = false;

	if (!known || known->ours)
		return;
	if (known->has_stack && time->still_ticks) {
		const uint64_t still[PROFILE_FIGURES] = {time->still_ticks, time->still_ns, 0, time->still_ns};

		add_or_count(profiler, known->number, known->stack, still);
	}
	cpu_ns = cpu_of_sample(profiler, time, thread, known->last_ns);
	known->stack = profile_stack_of(profiler->stacks, thread, &cut);
	known->has_stack = true;
	profiler->cut += cut;
	if (profiler->gvl)
		take_gvl(profiler, known, time);
	if (known->number == profiler->busiest)
		left_ns -= take_gc(profiler, known, time, gc_ns, &cpu_ns);
	add_or_count(profiler, known->number, known->stack,
	             (const uint64_t[PROFILE_FIGURES]){time->moved_ticks, left_ns, cpu_ns, cpu_ns ? 0 : left_ns});
}

/* Who has used how much CPU time since the last sample, and who most. */
static void look_at_clock(struct profiler *profiler, VALUE thread, uint32_t index, uint64_t *most_ns)
{
	struct profile_thread *known = profile_threads_get(&profiler->threads, thread, index);

	if (!known || known->ours)
		return;
	profile_thread_cpu_ns(known, thread == profiler->last_thread ? profiler->last_cpu_ns : 0);
	if (known->last_ns <= *most_ns && profiler->busiest)
		return;
	*most_ns = known->last_ns;
	profiler->busiest = known->number;
}

/* The time that the VM has been in collections since the last sample: that of the thread which has done most. */
void profile_take_times(struct profiler *profiler, VALUE list, const struct profile_time *time)
{
	uint64_t most_ns = 0, gc_ns = profiler->gc_known ? profile_gc_ns() : 0;

	profiler->busiest = 0;
	profiler->guessed_ns = 0;
	profiler->busiest_stack = PROFILE_STACK_NONE;
	if (profiler->gvl)
		profile_gvl_begin(profiler->gvl);
	for (long i = 0; i < RARRAY_LEN(list); i++)
		look_at_clock(profiler, RARRAY_AREF(list, i), (uint32_t)i, &most_ns);
	for (long i = 0; i < RARRAY_LEN(list); i++)
		take_thread(profiler, RARRAY_AREF(list, i), (uint32_t)i, time, gc_ns - profiler->gc_ns);
	profiler->gc_ns = gc_ns;
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
