/*
 * The profile request: samples of all threads' stacks, so many times a second, until it is cancelled or its time is over.
 *
 * A sample is a job of its own, and short: it lists the threads, walks their frames, and adds the time since the last sample to
 * each thread's stack. What was added up is sent from time to time; memory is bounded, and what finds no room is counted.
 * profile_clock.c says when samples are taken.
 *
 * A call of Ruby's may run finalizers, which may take seconds, fork, or let other threads run: the client may be gone, or the
 * process exit, before the sample is over. So nothing is freed as long as one is taken.
 *
 * Context: job, GVL held; profile_fork_child(): the handler of a fork.
 */

#include "tracee/requests/profile.h"

#include "proto/clock.h"
#include "tracee/base/clock_thread.h"
#include "tracee/base/job_cpu.h"
#include "tracee/base/msgpack_builder.h"
#include "tracee/requests/profile_gc.h"
#include "tracee/requests/profile_take.h"
#include "tracee/session/request.h"
#include "tracee/session/ringer.h"
#include "tracee/session/session.h"
#include "tracee/session/stream.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/evaluation.h"
#include "tracee/vm/fiber.h"
#include "tracee/vm/interrupts.h"
#include "tracee/vm/interrupts_mask.h"
#include "tracee/vm/native_id.h"
#include "tracee/vm/own_work.h"
#include "tracee/vm/quiet.h"
#include "tracee/vm/thread_layout.h"

#include <errno.h>
#include <inttypes.h>
#include <ruby.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RATE_MAX 1000u
#define ALLOCATION_RATE_HZ 50u /* so often what was noted is added up */
#define SEND_NS (500 * NS_PER_MS)

static struct profiler *profiler; /* NULL: none */
static struct profiler *orphan;   /* of a forked child: its parent's; freed by the next job that comes by */

static void mark(void *unused)
{
	(void)unused;
	if (!profiler)
		return;
	profile_stacks_mark(profiler->stacks);
	profile_threads_mark(&profiler->threads);
	profile_allocations_mark(profiler->allocations);
}

static void moved(void *unused)
{
	(void)unused;
	if (profiler)
		profile_allocations_moved(profiler->allocations);
}

static const rb_data_type_t keeper_type = {
	.wrap_struct_name = "rbprobe profile",
	.function = {.dmark = mark, .dcompact = moved},
};

static void free_profiler(struct profiler *one)
{
	ringer_note_ractors(false); /* nobody looks any more */
	profile_allocations_free(one->allocations);
	profile_gvl_free(one->gvl);
	profile_stacks_free(one->stacks);
	profile_threads_free(&one->threads);
	builder_free(&one->answer);
	rb_gc_unregister_address(&one->keeper);
	free(one);
}

/* --- Taking */

static VALUE take(VALUE argument)
{
	const struct profile_time *time = (const struct profile_time *)argument;
	VALUE list = builtin_call0(BUILTIN_THREAD_LIST, rb_cThread);

	profile_threads_begin(&profiler->threads);
	if (profiler->allocations) {
		for (long i = 0; i < RARRAY_LEN(list); i++)
			profile_threads_get(&profiler->threads, RARRAY_AREF(list, i), (uint32_t)i);
		profile_allocations_take(profiler->allocations, &profiler->threads, &profiler->sums);
		if (profiler->ending)
			profile_allocations_take_retained(profiler->allocations, &profiler->sums);
	} else {
		profile_take_times(profiler, list, time);
	}
	profile_threads_end(&profiler->threads);
	RB_GC_GUARD(list);
	return Qnil;
}

/* --- Sending */

/* What the threads that send have taken so far, and the one that looks at threads for a timeline. */
static uint64_t others_cpu_ns(void)
{
	return clock_thread_counted_ns() + stream_cpu_ns();
}

static uint64_t own_cpu_ns(void)
{
	uint64_t ns = profiler->cpu_ns + profile_clock_cpu_ns(profiler->clock), others_ns = others_cpu_ns();

	if (others_ns > profiler->others_ns)
		ns += others_ns - profiler->others_ns;

	return profiler->allocations ? ns + profile_allocations_cost_ns(profiler->allocations) : ns;
}

/* CPU time of the application that no sample has found: of threads that were gone soon, of other Ractors, or not Ruby's. */
static uint64_t unseen_cpu_ns(void)
{
	uint64_t all_ns = profile_clock_application_cpu_ns(profiler->clock);
	uint64_t seen_ns = profiler->began_cpu_ns + profiler->threads.used_ns + profiler->cpu_ns;

	return all_ns > seen_ns ? all_ns - seen_ns : 0;
}

static void add_summary(struct msgpack_builder *answer)
{
	builder_map(answer, "summary");
	builder_uint(answer, "elapsed_ns", clock_now_ns() - profiler->began_ns);
	builder_uint(answer, "samples", profiler->samples);
	builder_uint(answer, "cpu_samples", profiler->cpu_samples);
	builder_uint(answer, "late_ticks", profiler->late_ticks);
	builder_uint(answer, "late_ns", profiler->late_ns);
	builder_uint(answer, "no_room_ticks", profiler->no_room_ticks);
	builder_uint(answer, "threads_left_out", profiler->threads.left_out);
	builder_uint(answer, "cut", profiler->cut);
	builder_uint(answer, "woken", profile_clock_woken(profiler->clock));
	builder_uint(answer, "own_cpu_ns", own_cpu_ns());
	builder_double(answer, "rate_hz", profile_clock_rate_hz(profiler->clock));
	builder_bool(answer, "with_c", compat_thread_frames_with_c());
	builder_bool(answer, "with_gc", profiler->gc_known);
	builder_bool(answer, "with_cpu", builtin_has(BUILTIN_THREAD_NATIVE_ID));
	if (!profiler->allocations && builtin_has(BUILTIN_THREAD_NATIVE_ID))
		builder_uint(answer, "unseen_cpu_ns", unseen_cpu_ns());
	if (profiler->gvl)
		builder_bool(answer, "gvl_by_events", profile_gvl_by_events(profiler->gvl));
	if (profiler->allocations)
		profile_allocations_tell(profiler->allocations, answer);
	builder_end(answer);
}

/* What has been added up, after what it refers to. */
static VALUE send_sums(VALUE unused)
{
	struct msgpack_builder *answer = &profiler->answer;
	bool all = false, sent = true;

	(void)unused;
	profiler->sent_ns = clock_now_ns(); /* also where it fails: not at once again */
	ringer_note_ractors(compat_is_only_ractor());
	while (!all && sent) {
		builder_clear(answer);
		builder_map(answer, NULL);
		profile_threads_tell(&profiler->threads, answer);
		all = profile_stacks_tell(profiler->stacks, answer);
		if (all) {
			profile_sums_tell(&profiler->sums, profiler->allocations ? "objects" : "sums", answer);
			if (profiler->gvl) {
				profile_sums_tell(&profiler->gvl_sums, "gvl", answer);
				profile_gvl_tell(profiler->gvl, answer);
			}
			if (!profiler->allocations)
				profile_sums_tell_last(&profiler->sums, "idle", answer);
			profile_threads_tell_clocks(&profiler->threads, answer);
			add_summary(answer);
		}
		builder_end(answer);
		sent = request_answer(profiler->request, answer);
		if (sent) {
			profile_threads_told(&profiler->threads);
			profile_stacks_told(profiler->stacks);
		}
	}
	if (!sent)
		return Qnil; /* the figures wait: they refer to what the client has not got */
	profile_sums_clear(&profiler->sums);
	if (profiler->gvl)
		profile_sums_clear(&profiler->gvl_sums);
	return Qnil;
}

static bool is_time_to_send(void)
{
	if (!request_may_send(profiler->request))
		return false;
	return profiler->sums.count > PROFILE_SUMS / 8 || clock_now_ns() - profiler->sent_ns >= SEND_NS;
}

/* --- The job */

static bool run_protected(VALUE (*run)(VALUE), VALUE argument, bool held)
{
	int failed = 0;

	rb_protect(run, argument, &failed);
	if (failed && held)
		interrupts_forget_failure();
	else if (failed)
		interrupts_send_again(true);
	return !failed;
}

/* A call of Ruby's, if only of a method in C, lets other threads run at its end, and delivers what they send to this one. */
static void take_sample(void)
{
	struct profile_time time;
	struct interrupts_mask mask = interrupts_mask_begin();
	bool held = interrupts_mask_holds(&mask);

	profile_clock_take(profiler->clock, profiler->ending, &time);
	if (!run_protected(take, (VALUE)&time, held))
		profiler->no_room_ticks += time.still_ticks + time.moved_ticks;
	if (profiler->request && (is_time_to_send() || profiler->ending))
		run_protected(send_sums, Qnil, held);
	interrupts_mask_end(&mask);
}

static void stop_hooks(struct profiler *one)
{
	if (one->allocations)
		profile_allocations_stop(one->allocations);
	if (one->gvl)
		profile_gvl_stop(one->gvl);
}

static void finish_request(struct profiler *one)
{
	struct request *request = one->request;

	one->request = NULL;
	if (!request)
		return;
	if (request->session)
		atomic_store_explicit(&request->session->dozes, false, memory_order_relaxed);
	request_finish(request, 0, "%s", "");
}

static void finish(void)
{
	struct profiler *one = profiler;

	profile_clock_stop(one->clock);
	stop_hooks(one);
	profiler = NULL;
	finish_request(one);
	free_profiler(one);
}

static void free_orphan(void)
{
	if (!orphan)
		return;
	profile_clock_forget(orphan->clock);
	stop_hooks(orphan);
	free_profiler(orphan);
	orphan = NULL;
}

/* What came between while the sample was taken waits for its end. */
static void end_sample(void)
{
	switch (profiler->left) {
	case LEFT_BY_PROCESS:
		profiler = NULL;
		return;
	case LEFT_BY_PARENT:
		orphan = profiler;
		profiler = NULL;
		free_orphan();
		return;
	case LEFT_BY_CLIENT:
		finish();
		return;
	case LEFT_NOT:
		if (profiler->ending)
			finish();
	}
}

static void sample_job(void *unused)
{
	struct fiber_state *own;
	struct quiet quiet;
	uint64_t began_ns;

	(void)unused;
	free_orphan();
	if (!profiler || profiler->sampling || !compat_in_main_ractor())
		return;
	began_ns = profiler->sample_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	profiler->sample_ns = clock_now_ns();
	profiler->sampling = true;
	profile_allocations_pause(profiler->allocations, true);
	quiet = quiet_begin();
	own = fiber_suppress_begin();
	take_sample();
	fiber_suppress_end(own);
	quiet_end(quiet);
	profile_allocations_pause(profiler->allocations, false);
	profiler->sampling = false;
	profiler->last = (struct profile_cost){(pid_t)syscall(SYS_gettid), clock_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns};
	profiler->cpu_ns += profiler->last.cpu_ns;
	job_cpu_ns += profiler->last.cpu_ns;
	profile_clock_taken(profiler->clock, profiler->last.cpu_ns);
	end_sample();
	OWN_WORK_KEEP_FRAME();
}

/* --- The request */

/* The last sample is taken where all others are: behind this job, whose own frames would be in it. */
static void profile_cancel(struct request *request, enum cancel_reason reason)
{
	if (!profiler || profiler->request != request)
		return;
	if (reason == CANCEL_DETACHED) {
		profiler->left = LEFT_BY_CLIENT;
		if (profiler->sampling)
			finish_request(profiler);
		else
			finish();
		return;
	}
	if (reason != CANCEL_EXIT) {
		profiler->ending = true;
		compat_sample_trigger();
		return;
	}
	/* No Ruby function may be called: what is left of it goes with the process. */
	profile_clock_halt(profiler->clock);
	profile_allocations_abandon();
	if (profiler->gvl)
		profile_gvl_stop(profiler->gvl);
	profiler->request = NULL;
	profiler->left = LEFT_BY_PROCESS;
	if (!profiler->sampling)
		profiler = NULL;
}

/* What is looked at beside the samples of time, or in their place. 0, or an errno and err. May raise. */
static int begin_more(struct profiler *one, const struct command *command, struct error *err)
{
	const struct profile_allocation_options options = {.class = command->arguments.name,
	                                                   .retained = command->arguments.flags & PROFILE_RETAINED,
	                                                   .every = command->arguments.number};

	if (command->arguments.flags & PROFILE_ALLOCATIONS) {
		one->allocations = profile_allocations_start(one->stacks, &options, err);
		return one->allocations ? 0 : -err->code;
	}
	if (command->arguments.flags & PROFILE_GVL) {
		one->gvl = profile_gvl_start();
		return one->gvl ? 0 : -error_set(err, -ENOMEM, "no memory for a profile");
	}
	return 0;
}

/* What threads use before the first sample is that sample's. */
static VALUE note_clocks(VALUE unused)
{
	VALUE list = builtin_call0(BUILTIN_THREAD_LIST, rb_cThread);

	profile_threads_begin(&profiler->threads);
	profile_note_clocks(profiler, list);
	profile_threads_end(&profiler->threads);
	RB_GC_GUARD(list);
	return unused;
}

static void profile_begin(struct request *request, const struct command *command)
{
	bool allocations = command->arguments.flags & PROFILE_ALLOCATIONS;
	uint64_t rate_hz = allocations ? ALLOCATION_RATE_HZ : command->arguments.number;
	struct profiler *one;
	struct error err;
	VALUE unused;
	int code;

	free_orphan();
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
	one->others_ns = others_cpu_ns();
	one->gc_known = profile_gc_known();
	one->gc_ns = one->gc_known ? profile_gc_ns() : 0;
	rb_gc_register_address(&one->keeper);
	one->keeper = TypedData_Wrap_Struct(0, &keeper_type, one);
	compat_sample_register(sample_job);
	own_work_note((uintptr_t)sample_job);
	ringer_note_ractors(compat_is_only_ractor());
	code = begin_more(one, command, &err);
	if (code) {
		free_profiler(one);
		request_finish(request, code, "%s", err.text);
		return;
	}
	profiler = one;
	one->clock = profile_clock_start((uint32_t)rate_hz, compat_sample_trigger);
	if (!one->clock) {
		stop_hooks(one);
		profiler = NULL;
		free_profiler(one);
		request_finish(request, EAGAIN, "no thread could be made for a profile");
		return;
	}
	one->threads.share = native_ids_are_shared();
	/* Where a clock could not be read, what its thread uses is known from the first sample on. */
	if (!allocations)
		evaluate_quickly(note_clocks, Qnil, &unused);
	one->began_cpu_ns = profile_clock_application_cpu_ns(one->clock);
	atomic_store_explicit(&request->session->dozes, true, memory_order_relaxed);
}

void profile_fork_child(void)
{
	if (!profiler)
		return;
	profile_allocations_abandon();
	profile_gvl_fork_child();
	profiler->request = NULL; /* its parent's */
	profiler->left = LEFT_BY_PARENT;
	if (profiler->sampling)
		return;
	orphan = profiler;
	profiler = NULL;
	compat_sample_trigger();
}

const struct request_kind request_profile = {.name = "profile", .begin = profile_begin, .cancel = profile_cancel};
