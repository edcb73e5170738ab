/*
 * Profiles with native frames. See native_profile.h.
 *
 * A thread of ours takes samples (sampler.c). From time to time they are unwound, in a child without rights
 * (native_unwind.c); the process is asked what the frames are called that are new; and what is known then is an answer
 * (stacks.c). Where the process does not answer, sampling goes on: its C code does not give the GVL back, perhaps.
 */

#include "tracer/native/native_profile.h"

#include "proto/clock.h"
#include "proto/frames.h"
#include "tracer/backtrace/native_stack.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/base/poll_until.h"
#include "tracer/base/signals.h"
#include "tracer/base/value.h"
#include "tracer/native/names.h"
#include "tracer/native/sampler.h"
#include "tracer/native/stacks.h"
#include "tracer/process/trace_permission.h"

#include <stdlib.h>
#include <string.h>

#define BATCH_NS (2 * NS_PER_S)
#define THREADS_MAX 4096u

/* What was sampled in a while. */
struct part {
	struct native_sample *samples;
	uint32_t count;
	struct native_stacks natives;
	struct sampler_counts counts;
	bool there;
};

struct profiled {
	const struct native_profile_order *order;
	struct request request;
	struct sampler *sampler;
	struct frame_names names;
	struct stacks stacks;
	struct part part;
	struct buffer question;
	struct sampled_thread *threads; /* all that there were */
	uint32_t thread_count;
	uint64_t end_ns, next_ns;
	bool asked, stopped, last, failed, over;
};

/* --- The process's answers */

/* Numbers of threads stay: of one that comes again only what it is called may have changed. */
static void learn_thread(struct profiled *profiled, const struct sampled_thread *thread)
{
	for (uint32_t i = 0; i < profiled->thread_count; i++)
		if (profiled->threads[i].id == thread->id && profiled->threads[i].native_id == thread->native_id)
			return;
	if (profiled->thread_count == THREADS_MAX)
		return;
	profiled->threads = memory_resize(profiled->threads, (profiled->thread_count + 1) * sizeof(*profiled->threads));
	profiled->threads[profiled->thread_count++] = *thread;
}

static void learn_threads(struct profiled *profiled, const msgpack_object *threads)
{
	uint32_t count = value_count(threads) < THREADS_MAX ? value_count(threads) : THREADS_MAX, used = 0;
	struct sampled_thread *now = memory_zeroed((count + 1) * sizeof(*now));

	for (uint32_t i = 0; i < count; i++) {
		const msgpack_object *map = value_at(threads, i);
		struct slice name = value_text(value_get(map, "name"));
		struct sampled_thread *thread = &now[used];

		if (name.size >= 8 && memcmp(name.bytes, "rbprobe ", 8) == 0)
			continue;
		thread->id = value_uint(value_get(map, "id"));
		thread->context_at = value_uint(value_get(map, "context_at"));
		thread->native_id = (uint32_t)value_uint(value_get(map, "native_id"));
		thread->main = value_bool(value_get(map, "main"));
		memcpy(thread->name, name.bytes, name.size < sizeof(thread->name) ? name.size : sizeof(thread->name) - 1);
		learn_thread(profiled, thread);
		used++;
	}
	sampler_set_threads(profiled->sampler, now, used);
	free(now);
}

static int on_data(struct request *request, const msgpack_object *object, struct error *err)
{
	struct profiled *profiled = request->owner;
	uint64_t frame_words = value_uint(value_get(object, "frame_words"));

	request->stream->answered = 0;
	if (!profiled->sampler && frame_words >= FRAMES_WORDS_LEAST && frame_words <= FRAMES_WORDS_MAX) {
		stacks_init(&profiled->stacks, &request->attachment.target);
		profiled->sampler = sampler_new(&request->attachment.target, profiled->order->period_ns,
		                                profiled->order->duration_ns, frame_words);
		profiled->end_ns = clock_now_ns() + profiled->order->duration_ns;
		profiled->next_ns = clock_now_ns() + BATCH_NS;
	}
	if (!profiled->sampler)
		return error_set(err, -EPROTO, "process %d does not say where its frames are",
		                 (int)request->attachment.target.pid);
	stacks_learn_own(&profiled->stacks, value_get(object, "own_functions"));
	learn_threads(profiled, value_get(object, "threads"));
	frame_names_answer(&profiled->names, value_get(object, "names"));
	return 0;
}

static void on_done(struct request *request, uint32_t code, struct slice text)
{
	struct profiled *profiled = request->owner;

	request_report(request, code, text);
	profiled->failed = profiled->failed || code != 0;
	profiled->asked = false;
}

static bool is_sampled(const struct request *request)
{
	const struct profiled *profiled = request->owner;

	return profiled->sampler != NULL;
}

static const struct request_handler handler = {.data = on_data, .done = on_done, .partial = is_sampled};

/* --- What was sampled */

static struct command question_of(const struct profiled *profiled)
{
	struct command command = {.kind = COMMAND_FRAMES};

	command.arguments.text =
		(struct slice){profiled->question.bytes ? profiled->question.bytes : "", profiled->question.size};
	return command;
}

static bool ask(struct profiled *profiled, bool always)
{
	struct command command;

	profiled->question.size = 0;
	if (!frame_names_ask(&profiled->names, &profiled->question) && !always)
		return false;
	command = question_of(profiled);
	profiled->asked = true;
	request_again(&profiled->request, &command);
	return true;
}

static void part_take(struct profiled *profiled)
{
	struct part *part = &profiled->part;
	struct snapshot *snapshots;

	part->count = sampler_take(profiled->sampler, &part->samples, &part->counts);
	part->there = true;
	part->natives = (struct native_stacks){.threads = memory_zeroed((part->count + 1) * sizeof(*part->natives.threads)),
	                                       .count = part->count};
	snapshots = memory_zeroed((part->count + 1) * sizeof(*snapshots));
	for (uint32_t i = 0; i < part->count; i++) {
		snapshots[i] = part->samples[i].snapshot;
		for (uint32_t j = 0; j < part->samples[i].control.count; j++) {
			frame_names_want(&profiled->names, part->samples[i].control.frames[j].code);
			frame_names_want(&profiled->names, part->samples[i].control.frames[j].entry);
		}
	}
	if (part->count)
		native_stacks_unwind(&part->natives, snapshots, &profiled->request.attachment.target);
	free(snapshots);
}

static void part_free(struct part *part)
{
	native_stacks_free(&part->natives);
	sampler_free_samples(part->samples, part->count);
	*part = (struct part){0};
}

static void part_tell(struct profiled *profiled)
{
	struct part *part = &profiled->part;
	msgpack_sbuffer packed;
	msgpack_unpacked unpacked;
	struct error err;

	msgpack_sbuffer_init(&packed);
	msgpack_unpacked_init(&unpacked);
	stacks_tell(&profiled->stacks, &profiled->names, part->samples, part->count, &part->natives, profiled->threads,
	            profiled->thread_count, &part->counts, &packed);
	if (msgpack_unpack_next(&unpacked, packed.data, packed.size, NULL) == MSGPACK_UNPACK_SUCCESS &&
	    profiled->order->answer(profiled->order->owner, &profiled->request.attachment.target, &unpacked.data, &err) < 0)
		message("%s", err.text);
	msgpack_unpacked_destroy(&unpacked);
	msgpack_sbuffer_destroy(&packed);
	part_free(part);
}

/* --- The loop */

static void stop(struct profiled *profiled)
{
	if (profiled->sampler && !profiled->stopped)
		sampler_stop(profiled->sampler);
	profiled->stopped = true;
}

static void finish(struct profiled *profiled)
{
	profiled->over = true;
	request_detach(&profiled->request);
}

/* For so long names are waited for in the end. */
static uint64_t last_answer_ns(const struct profiled *profiled)
{
	return profiled->order->invocation->options.timeout_ns;
}

/* It may not be traced: one line says why. */
static bool is_refused(struct profiled *profiled)
{
	struct error err;

	if (!profiled->part.counts.refused || profiled->part.counts.stops)
		return false;
	trace_permission_explain(&profiled->request.attachment.target, profiled->part.counts.refused, &err);
	message("%s", err.text);
	profiled->failed = true;
	stop(profiled);
	part_free(&profiled->part);
	finish(profiled);
	return true;
}

static void step(struct profiled *profiled, uint64_t now_ns, bool ends)
{
	bool gone = profiled->request.over;

	if (!profiled->over && !profiled->sampler && (gone || profiled->failed))
		finish(profiled);
	if (profiled->over || !profiled->sampler)
		return;
	if ((ends || gone || now_ns >= profiled->end_ns) && !profiled->stopped) {
		stop(profiled);
		profiled->next_ns = now_ns;
		profiled->end_ns = now_ns + last_answer_ns(profiled);
	}
	if (profiled->asked && !gone && !(profiled->stopped && now_ns >= profiled->end_ns))
		return;
	if (profiled->part.there && (gone || profiled->asked || !ask(profiled, false))) {
		part_tell(profiled);
		if (profiled->last)
			finish(profiled);
		else
			profiled->next_ns = now_ns + BATCH_NS;
	}
	if (profiled->over || profiled->part.there || now_ns < profiled->next_ns)
		return;
	profiled->last = profiled->stopped;
	part_take(profiled);
	if (profiled->last)
		profiled->end_ns = clock_now_ns() + last_answer_ns(profiled);
	if (!is_refused(profiled) && !gone && !profiled->asked)
		ask(profiled, !profiled->last);
}

static uint64_t wake_ns(const struct profiled *profiled)
{
	uint64_t wake_ns = request_wake_ns(&profiled->request);

	if (!profiled->sampler || profiled->over)
		return wake_ns;
	if (profiled->next_ns < wake_ns && !profiled->asked)
		wake_ns = profiled->next_ns;
	return profiled->end_ns < wake_ns ? profiled->end_ns : wake_ns;
}

static bool turn(struct profiled *all, size_t count, struct pollfd *polled, bool *ends)
{
	uint64_t now_ns, until_ns = UINT64_MAX;
	bool any = false, by_process;

	for (size_t i = 0; i < count; i++) {
		polled[1 + i] = (struct pollfd){.fd = request_descriptor(&all[i].request), .events = POLLIN};
		until_ns = wake_ns(&all[i]) < until_ns ? wake_ns(&all[i]) : until_ns;
		any = any || !all[i].over || !all[i].request.over;
	}
	if (!any)
		return false;
	poll_until(polled, 1 + count, until_ns);
	*ends = *ends || signals_take(&by_process);
	now_ns = clock_now_ns();
	for (size_t i = 0; i < count; i++) {
		bool was_over = all[i].request.over;

		request_step(&all[i].request, polled[1 + i].revents != 0, now_ns);
		if (all[i].request.over && !was_over && all[i].request.error.text[0])
			message("%s", all[i].request.error.text);
		if (*ends && !all[i].sampler)
			request_cancel(&all[i].request);
		step(&all[i], now_ns, *ends);
	}
	return true;
}

static void profiled_free(struct profiled *profiled)
{
	stop(profiled);
	if (profiled->sampler)
		stacks_free(&profiled->stacks);
	sampler_free(profiled->sampler);
	frame_names_free(&profiled->names);
	buffer_free(&profiled->question);
	free(profiled->threads);
	request_close(&profiled->request);
}

int native_profile_run(const struct native_profile_order *order)
{
	struct invocation *invocation = order->invocation;
	size_t count = invocation->options.pids.count;
	struct profiled *all = memory_zeroed((count + 1) * sizeof(*all));
	struct pollfd *polled = memory_zeroed((1 + count) * sizeof(*polled));
	const struct command command = {.kind = COMMAND_FRAMES, .arguments = {.text = {"", 0}}};
	int signals = invocation_signals(invocation), status = STATUS_DONE;
	bool ends = false;

	for (size_t i = 0; i < count; i++) {
		all[i].order = order;
		all[i].asked = true;
		request_open(&all[i].request, invocation->options.pids.items[i], &command, &invocation->options, &handler,
		             &all[i]);
		all[i].request.keep = true;
		if (!all[i].request.over)
			continue;
		message("%s", all[i].request.error.text);
		finish(&all[i]);
	}
	do {
		polled[0] = (struct pollfd){.fd = signals, .events = POLLIN};
	} while (turn(all, count, polled, &ends));
	invocation->interrupted = ends;
	for (size_t i = 0; i < count; i++) {
		status = status                  ? status
		         : all[i].request.status ? all[i].request.status
		         : all[i].failed         ? STATUS_FAILED
		                                 : STATUS_DONE;
		profiled_free(&all[i]);
	}
	free(polled);
	free(all);
	return status;
}
