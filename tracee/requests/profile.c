/*
 * The profile request: samples of all threads' stacks, so many times a second, until it is cancelled or its time is over.
 *
 * A sample is a job of its own, and short: it lists the threads, walks their frames, and adds the time since the last sample to
 * each thread's stack. It calls nothing that looks for interrupts, so no other thread runs meanwhile. What was added up is sent
 * from time to time; memory is bounded, and what finds no room is counted. profile_clock.c says when samples are taken.
 *
 * Context: job, GVL held; profile_fork_child(): the handler of a fork.
 */

#include "tracee/requests/profile.h"

#include "proto/clock.h"
#include "tracee/base/job_cpu.h"
#include "tracee/base/msgpack_builder.h"
#include "tracee/requests/profile_clock.h"
#include "tracee/requests/profile_stacks.h"
#include "tracee/requests/profile_threads.h"
#include "tracee/session/request.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/evaluation.h"
#include "tracee/vm/fiber.h"
#include "tracee/vm/quiet.h"
#include "tracee/vm/thread_layout.h"

#include <errno.h>
#include <inttypes.h>
#include <ruby.h>
#include <stdlib.h>
#include <string.h>

#define RATE_MAX 1000u
#define SUMS 4096u /* a power of two */
#define SEND_NS (500 * NS_PER_MS)
#define PROMPT_NS (500 * NS_PER_US)

/* What a stack of a thread has had since it was sent. */
struct sum {
	uint32_t thread, stack; /* thread 0: an empty slot */
	uint64_t ticks, wall_ns, cpu_ns;
};

/* One at a time in a process. */
struct profiler {
	struct request *request;
	struct profile_clock *clock;
	struct profile_stacks *stacks;
	struct profile_threads threads;
	struct sum sums[SUMS];
	uint32_t sum_count;
	struct msgpack_builder answer;
	uint64_t began_ns, sent_ns, sample_ns;
	uint64_t last_cpu_ns; /* what the last sample took, */
	VALUE last_thread;    /* of this thread */
	uint64_t samples, late_ticks, late_ns, no_room_ticks, cut, cpu_ns;
	bool sampling;
	bool ending;  /* after the next sample */
	VALUE keeper; /* marks what it refers to */
};

static struct profiler *profiler; /* NULL: none */
static struct profiler *orphan;   /* of a forked child: its parent's; freed by the next job that comes by */

static void mark(void *unused)
{
	(void)unused;
	if (!profiler)
		return;
	profile_stacks_mark(profiler->stacks);
	profile_threads_mark(&profiler->threads);
}

static const rb_data_type_t keeper_type = {
	.wrap_struct_name = "rbprobe profile",
	.function = {.dmark = mark},
};

static void free_profiler(struct profiler *one)
{
	profile_stacks_free(one->stacks);
	profile_threads_free(&one->threads);
	builder_free(&one->answer);
	rb_gc_unregister_address(&one->keeper);
	free(one);
}

/* --- Adding up */

/* False: there is no room. */
static bool add(uint32_t thread, uint32_t stack, uint64_t ticks, uint64_t wall_ns, uint64_t cpu_ns)
{
	uint32_t at = (thread * 0x9e3779b1u) ^ (stack * 0x85ebca6bu);
	struct sum *sum;

	for (at ^= at >> 15;; at++) {
		sum = &profiler->sums[at & (SUMS - 1)];
		if (!sum->thread || (sum->thread == thread && sum->stack == stack))
			break;
	}
	if (!sum->thread && profiler->sum_count == SUMS / 2)
		return false;
	profiler->sum_count += !sum->thread;
	*sum = (struct sum){thread, stack, sum->ticks + ticks, sum->wall_ns + wall_ns, sum->cpu_ns + cpu_ns};
	return true;
}

static void add_or_count(uint32_t thread, uint32_t stack, uint64_t ticks, uint64_t wall_ns, uint64_t cpu_ns)
{
	if (stack == PROFILE_STACK_NONE || !add(thread, stack, ticks, wall_ns, cpu_ns))
		profiler->no_room_ticks += ticks;
}

/*
 * How much CPU time the sample stands for: none where the thread waited, since what it has used since the last sample was
 * somewhere else then. A thread that runs takes the sample at once; one that took it when it woke up does so later. used_ns: by
 * its clock.
 */
static uint64_t cpu_of_sample(const struct profile_time *time, VALUE thread, uint64_t used_ns)
{
	uint64_t prompt_ns = time->period_ns / 4 < PROMPT_NS ? time->period_ns / 4 : PROMPT_NS;
	bool runs = thread == rb_thread_current() && profiler->sample_ns - time->asked_ns < prompt_ns;
	uint64_t tick_ns = time->moved_ns < time->period_ns ? time->moved_ns : time->period_ns;

	if (!runs && used_ns < time->moved_ns / 2)
		return 0;
	return used_ns > tick_ns ? used_ns : tick_ns;
}

static void take_thread(VALUE thread, uint32_t index, const struct profile_time *time)
{
	struct profile_thread *known = profile_threads_get(&profiler->threads, thread, index);
	uint64_t cpu_ns;
	bool cut = false;

	if (!known || known->ours)
		return;
	if (known->has_stack && time->still_ticks)
		add_or_count(known->number, known->stack, time->still_ticks, time->still_ns, 0);
	cpu_ns = profile_thread_cpu_ns(known, thread == profiler->last_thread ? profiler->last_cpu_ns : 0);
	known->stack = profile_stack_of(profiler->stacks, thread, &cut);
	known->has_stack = true;
	profiler->cut += cut;
	add_or_count(known->number, known->stack, time->moved_ticks, time->moved_ns, cpu_of_sample(time, thread, cpu_ns));
}

static VALUE take(VALUE argument)
{
	const struct profile_time *time = (const struct profile_time *)argument;
	VALUE list = builtin_call0(BUILTIN_THREAD_LIST, rb_cThread);

	profile_threads_begin(&profiler->threads);
	for (long i = 0; i < RARRAY_LEN(list); i++)
		take_thread(RARRAY_AREF(list, i), (uint32_t)i, time);
	profile_threads_end(&profiler->threads);
	profiler->samples++;
	if (time->moved_ticks > 1) {
		profiler->late_ticks += time->moved_ticks - 1;
		profiler->late_ns += time->moved_ns - time->moved_ns / time->moved_ticks;
	}
	RB_GC_GUARD(list);
	return Qnil;
}

/* --- Sending */

static void add_summary(struct msgpack_builder *answer)
{
	builder_map(answer, "summary");
	builder_uint(answer, "elapsed_ns", clock_now_ns() - profiler->began_ns);
	builder_uint(answer, "samples", profiler->samples);
	builder_uint(answer, "late_ticks", profiler->late_ticks);
	builder_uint(answer, "late_ns", profiler->late_ns);
	builder_uint(answer, "no_room_ticks", profiler->no_room_ticks);
	builder_uint(answer, "threads_left_out", profiler->threads.left_out);
	builder_uint(answer, "cut", profiler->cut);
	builder_uint(answer, "woken", profile_clock_woken(profiler->clock));
	builder_uint(answer, "own_cpu_ns", profiler->cpu_ns + profile_clock_cpu_ns(profiler->clock));
	builder_double(answer, "rate_hz", profile_clock_rate_hz(profiler->clock));
	builder_bool(answer, "with_c", compat_thread_frames_with_c());
	builder_bool(answer, "with_cpu", builtin_has(BUILTIN_THREAD_NATIVE_ID));
	builder_end(answer);
}

/* What has been added up, after what it refers to. */
static VALUE send_sums(VALUE unused)
{
	struct msgpack_builder *answer = &profiler->answer;
	bool all = false;

	(void)unused;
	while (!all && !answer->failed) {
		builder_clear(answer);
		builder_map(answer, NULL);
		profile_threads_tell(&profiler->threads, answer);
		all = profile_stacks_tell(profiler->stacks, answer);
		if (all) {
			builder_array(answer, "sums");
			for (uint32_t i = 0; i < SUMS; i++) {
				const struct sum *sum = &profiler->sums[i];

				if (!sum->thread)
					continue;
				builder_uint(answer, NULL, sum->thread);
				builder_uint(answer, NULL, sum->stack);
				builder_uint(answer, NULL, sum->ticks);
				builder_uint(answer, NULL, sum->wall_ns);
				builder_uint(answer, NULL, sum->cpu_ns);
			}
			builder_end(answer);
			profile_threads_tell_clocks(&profiler->threads, answer);
			add_summary(answer);
		}
		builder_end(answer);
		if (!request_answer(profiler->request, answer))
			break;
	}
	memset(profiler->sums, 0, sizeof(profiler->sums));
	profiler->sum_count = 0;
	profiler->sent_ns = clock_now_ns();
	return Qnil;
}

static bool is_time_to_send(void)
{
	if (!request_may_send(profiler->request))
		return false;
	return profiler->sum_count > SUMS / 4 || clock_now_ns() - profiler->sent_ns >= SEND_NS;
}

/* --- The job */

static void take_sample(void)
{
	struct profile_time time = profile_clock_take(profiler->clock);
	VALUE unused;

	profiler->sample_ns = clock_now_ns();
	if (evaluate_quickly(take, (VALUE)&time, &unused) != EVALUATION_DONE)
		profiler->no_room_ticks += time.still_ticks + time.moved_ticks;
	if (is_time_to_send() || profiler->ending)
		evaluate_quickly(send_sums, Qnil, &unused);
}

static void finish(void)
{
	struct profiler *one = profiler;
	struct request *request = one->request;

	profile_clock_stop(one->clock);
	profiler = NULL;
	free_profiler(one);
	request_finish(request, 0, "%s", "");
}

static void sample_job(void *unused)
{
	struct fiber_state *own;
	struct quiet quiet;
	uint64_t began_ns;

	(void)unused;
	if (orphan) {
		profile_clock_forget(orphan->clock);
		free_profiler(orphan);
		orphan = NULL;
	}
	if (!profiler || profiler->sampling || !compat_in_main_ractor())
		return;
	began_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	profiler->sampling = true;
	quiet = quiet_begin();
	own = fiber_suppress_begin();
	take_sample();
	fiber_suppress_end(own);
	quiet_end(quiet);
	profiler->sampling = false;
	profiler->last_thread = rb_thread_current();
	profiler->last_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
	profiler->cpu_ns += profiler->last_cpu_ns;
	job_cpu_ns += profiler->last_cpu_ns;
	profile_clock_taken(profiler->clock, profiler->last_cpu_ns);
	if (profiler->ending)
		finish();
}

/* --- The request */

/* The last sample is taken where all others are: behind this job, whose own frames would be in it. */
static void profile_cancel(struct request *request, enum cancel_reason reason)
{
	if (!profiler || profiler->request != request)
		return;
	if (reason == CANCEL_DETACHED) {
		finish();
		return;
	}
	if (reason != CANCEL_EXIT) {
		profiler->ending = true;
		compat_sample_trigger();
		return;
	}
	/* No Ruby function may be called: what is left of it goes with the process. */
	profile_clock_stop(profiler->clock);
	profiler = NULL;
}

static void profile_begin(struct request *request, const struct command *command)
{
	uint64_t rate_hz = command->arguments.number;
	struct profiler *one;

	if (rate_hz < 1 || rate_hz > RATE_MAX) {
		request_finish(request, EINVAL, "a profile takes 1 to %u samples a second", RATE_MAX);
		return;
	}
	if (profiler) {
		request_finish(request, EBUSY, "another client is profiling this process: one does at a time");
		return;
	}
	if (!thread_context(rb_thread_current()) && compat_thread_frames(rb_thread_current(), 1, &(VALUE){0}, &(int){0}) < 0) {
		request_finish(request, ENOTSUP, "where this Ruby keeps the frames of other threads was not found");
		return;
	}
	one = calloc(1, sizeof(*one));
	if (one)
		one->stacks = profile_stacks_new();
	if (!one || !one->stacks) {
		free(one);
		request_finish(request, ENOMEM, "no memory for a profile");
		return;
	}
	builder_init(&one->answer);
	one->request = request;
	one->began_ns = one->sent_ns = clock_now_ns();
	rb_gc_register_address(&one->keeper);
	one->keeper = TypedData_Wrap_Struct(0, &keeper_type, one);
	compat_sample_register(sample_job);
	profiler = one;
	one->clock = profile_clock_start((uint32_t)rate_hz, compat_sample_trigger);
	if (!one->clock) {
		profiler = NULL;
		free_profiler(one);
		request_finish(request, EAGAIN, "no thread could be made for a profile");
		return;
	}
}

void profile_fork_child(void)
{
	if (!profiler)
		return;
	orphan = profiler;
	profiler = NULL;
	compat_sample_trigger();
}

const struct request_kind request_profile = {.name = "profile", .begin = profile_begin, .cancel = profile_cancel};
