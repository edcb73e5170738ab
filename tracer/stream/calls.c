/* Methods, fibers and the calls in them. See calls.h. The events' path is calls_events() and what it calls: keep it lean. */

#include "tracer/stream/calls.h"

#include "tracer/stream/callers.h"
#include "tracer/stream/calls_memory.h"
#include "tracer/stream/sink.h"
#include "tracer/stream/thread_states.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX (16u << 20)

static void *ref_get(const struct ref_table *table, uint32_t ref)
{
	void **page = ref < REF_PAGES * REFS_PER_PAGE ? table->pages[ref / REFS_PER_PAGE] : NULL;

	return page ? page[ref % REFS_PER_PAGE] : NULL;
}

static void **ref_place(struct stream *stream, struct ref_table *table, uint32_t ref, struct error *err)
{
	void ***page;

	if (ref >= REF_PAGES * REFS_PER_PAGE) {
		error_set(err, -EPROTO, "the target announced a method or fiber with the number %u; at most %u are possible", ref,
		          REF_PAGES * REFS_PER_PAGE - 1);
		return NULL;
	}
	page = &table->pages[ref / REFS_PER_PAGE];
	if (!*page) {
		*page = memory_zeroed(REFS_PER_PAGE * sizeof(void *));
		stream->memory += REFS_PER_PAGE * sizeof(void *);
	}
	return &(*page)[ref % REFS_PER_PAGE];
}

static void refs_free(struct ref_table *table, void (*free_one)(void *))
{
	for (size_t i = 0; i < REF_PAGES; i++) {
		for (size_t k = 0; table->pages[i] && k < REFS_PER_PAGE; k++)
			if (table->pages[i][k])
				free_one(table->pages[i][k]);
		free(table->pages[i]);
	}
}

static struct slice slice_copy(struct slice text)
{
	struct slice copy = {NULL, text.size};

	if (text.bytes) {
		char *bytes = memory_resize(NULL, text.size);

		memcpy(bytes, text.bytes, text.size);
		copy.bytes = bytes;
	}
	return copy;
}

/* It takes no more than is counted. */
static struct slice slice_of(struct buffer *buffer)
{
	return (struct slice){memory_resize(buffer->bytes, buffer->size), buffer->size};
}

static struct slice slice_printable(struct slice text)
{
	struct buffer buffer = {0};

	buffer_add_printable(&buffer, text.bytes, text.size);
	return slice_of(&buffer);
}

static struct labels labels_copy(const struct slice *names, uint32_t count)
{
	struct labels labels = {.count = count,
	                        .names = memory_zeroed(count * sizeof(struct slice)),
	                        .shown = memory_zeroed(count * sizeof(struct slice))};

	for (uint32_t i = 0; i < count; i++) {
		labels.names[i] = slice_copy(names[i]);
		labels.shown[i] = slice_printable(names[i]);
	}
	return labels;
}

int calls_method(struct stream *stream, const struct record_method *record, struct error *err)
{
	void **place = ref_place(stream, &stream->methods, record->ref, err);
	struct buffer shown = {0};
	struct method *method;

	if (!place)
		return err->code;
	method = memory_zeroed(sizeof(*method));
	method->ref = record->ref;
	method->class_name = slice_copy(record->class_name);
	method->separator = record->separator == '.' ? '.' : '#';
	method->method_name = slice_copy(record->method_name);
	method->file = slice_copy(record->file);
	method->line = record->line;
	method->engine = record->engine;
	if (record->mark == MARK_STATE)
		stream->states_rate_hz = record->line > 0 ? (uint32_t)record->line : 0;
	/* STATES tells what threads do, and no event. */
	method->mark = record->mark == MARK_STATE ? NULL : mark_form(record->mark);
	method->mark_kind = method->mark ? record->mark : MARK_NONE;
	method->labels = labels_copy(record->labels, record->label_count);
	method->locals = labels_copy(record->locals, record->local_count);
	method->is_line = record->place.bytes != NULL;
	method->always = record->flags & METHOD_ALWAYS;
	if (method->is_line) {
		buffer_add_printable(&shown, record->place.bytes, record->place.size);
	} else {
		buffer_add_printable(&shown, record->class_name.bytes, record->class_name.size);
		buffer_add_char(&shown, method->separator);
		buffer_add_printable(&shown, record->method_name.bytes, record->method_name.size);
	}
	method->shown = slice_of(&shown);
	method->replaced = *place;
	*place = method;
	stream->memory += calls_method_size(method);
	return calls_memory_check(stream, err);
}

const struct method *calls_method_of(const struct stream *stream, uint32_t ref)
{
	return ref_get(&stream->methods, ref);
}

static size_t fiber_size(const struct fiber *fiber)
{
	return sizeof(*fiber) + fiber->thread_name.size + fiber->created_at.size;
}

static void fiber_free(void *thing)
{
	struct fiber *fiber = thing;

	calls_text_free(fiber->thread_name);
	calls_text_free(fiber->created_at);
	free(fiber->calls);
	buffer_free(&fiber->kept);
	buffer_free(&fiber->prepared);
	free(fiber);
}

static int check_flood(const struct stream *stream, struct error *err)
{
	if (!output_is_flood(stream->sink->output))
		return 0;
	return error_set(err, -ENOSPC,
	                 "malformed stream: what process %d has sent becomes more than %u times as much when it is shown",
	                 (int)stream->pid, OUTPUT_FACTOR);
}

/* Calls that will never end, innermost first: their fiber is gone, or the stream is. */
static void fiber_close_calls(struct fiber *fiber)
{
	while (fiber->depth) {
		struct call *call = &fiber->calls[--fiber->depth];

		if (call->skipped)
			continue;
		if (fiber->stream->limit)
			fiber->stream->limit->open--;
		if (fiber->stream->sink->ops->open)
			fiber->stream->sink->ops->open(fiber->stream->sink, fiber, call);
	}
	if (fiber->stream->sink && fiber->stream->sink->ops->forget)
		fiber->stream->sink->ops->forget(fiber->stream->sink, fiber);
}

int calls_fiber(struct stream *stream, const struct record_fiber *record, struct error *err)
{
	void **place = ref_place(stream, &stream->fibers, record->ref, err);
	struct fiber *fiber;

	if (!place)
		return err->code;
	fiber = *place;
	if (!fiber) {
		*place = fiber = memory_zeroed(sizeof(*fiber));
		fiber->stream = stream;
		fiber->ref = record->ref;
		stream->fiber_count++;
		stream->memory += fiber_size(fiber);
	} else if (fiber->thread_id != record->thread_id || fiber->root != record->root) {
		fiber_close_calls(fiber); /* the number was given to another fiber */
	}
	stream->memory -= fiber_size(fiber);
	calls_text_free(fiber->thread_name);
	calls_text_free(fiber->created_at);
	fiber->thread_name = slice_copy(record->thread_name);
	fiber->created_at = slice_copy(record->created_at);
	stream->memory += fiber_size(fiber);
	fiber->thread_id = record->thread_id;
	fiber->native_id = record->native_id;
	fiber->root = record->root;
	if (stream->sink && stream->sink->ops->described_anew)
		stream->sink->ops->described_anew(stream->sink, fiber);
	fiber->prepared.size = 0;
	return calls_memory_check(stream, err);
}

int calls_fiber_gone(struct stream *stream, const struct record_fiber_gone *record, struct error *err)
{
	void **place = ref_place(stream, &stream->fibers, record->ref, err);
	struct fiber *fiber;

	if (!place)
		return err->code;
	fiber = *place;
	if (!fiber)
		return calls_memory_check(stream, err);
	fiber_close_calls(fiber);
	if (stream->shown_fiber == fiber)
		stream->shown_fiber = NULL;
	if (stream->last_fiber == fiber)
		stream->last_fiber = NULL;
	stream->memory -= fiber_size(fiber) + fiber->counted;
	fiber_free(fiber);
	*place = NULL;
	return 0;
}

int calls_retried(struct stream *stream, const struct record_retried *record, struct error *err)
{
	struct fiber *fiber = ref_get(&stream->fibers, record->fiber);

	if (!fiber || !fiber->depth)
		return error_set(err, -EPROTO, "malformed stream: a retry of a call that did not begin");
	fiber->calls[fiber->depth - 1].retries = record->times;
	return 0;
}

static void fiber_grow(struct fiber *fiber)
{
	fiber->capacity = fiber->capacity ? 2 * fiber->capacity : 16;
	fiber->calls = memory_resize(fiber->calls, fiber->capacity * sizeof(*fiber->calls));
}

static struct method *method_of(const struct stream *stream, const struct event *event, struct error *err)
{
	struct method *method = ref_get(&stream->methods, event->method);

	if (!method)
		error_set(err, -EPROTO, "malformed stream: an event of a method (%u) that was not announced", event->method);
	return method;
}

/* Whether --count leaves out what happens in this fiber now. */
static bool is_beyond_limit(const struct stream *stream, const struct fiber *fiber)
{
	const struct call_limit *limit = stream->limit;
	bool inside = fiber->depth && !fiber->calls[fiber->depth - 1].skipped;

	return limit && limit->limited && limit->left == 0 && !(limit->whole_trees && inside);
}

static void count_for_limit(struct call_limit *limit)
{
	if (limit && limit->left)
		limit->left--;
}

static int call_start(struct stream *stream, struct fiber *fiber, const struct event *event, struct error *err)
{
	struct method *method = method_of(stream, event, err);
	struct call *call;

	if (!method)
		return -EPROTO;
	if (method->is_line)
		return error_set(err, -EPROTO, "malformed stream: a line (%u) begins, which has no end", event->method);
	if (fiber->depth == fiber->capacity) {
		if (fiber->depth >= DEPTH_MAX)
			return error_set(err, -EPROTO, "malformed stream: more than %u calls open in one fiber", DEPTH_MAX);
		fiber_grow(fiber);
	}
	call = &fiber->calls[fiber->depth];
	call->skipped = is_beyond_limit(stream, fiber);
	call->method = method;
	call->start_ns = event->time_ns;
	call->kept = fiber->kept.size;
	call->retries = 0;
	call->held = false;
	call->truths = 0;
	if (!call->skipped) {
		count_for_limit(stream->limit);
		if (stream->limit)
			stream->limit->open++;
		stream->calls++;
		stream->sink->ops->start(stream->sink, fiber, call, event);
	}
	fiber->depth++;
	return 0;
}

static int call_end(struct stream *stream, struct fiber *fiber, const struct event *event, struct error *err)
{
	struct call *call;

	if (!fiber->depth)
		return error_set(err, -EPROTO, "malformed stream: the end of a call that did not begin");
	call = &fiber->calls[fiber->depth - 1];
	if (call->method->ref != event->method)
		return error_set(err, -EPROTO, "malformed stream: %.*s is open, but another call (%u) ends",
		                 (int)call->method->shown.size, call->method->shown.bytes, event->method);
	fiber->depth--;
	if (call->skipped)
		return 0;
	if (stream->limit)
		stream->limit->open--;
	stream->sink->ops->end(stream->sink, fiber, call, event, call_duration_ns(call, event));
	return 0;
}

/* A call that nothing happened in; or a line that was reached. */
static int call_whole(struct stream *stream, struct fiber *fiber, const struct event *event, struct error *err)
{
	struct method *method = method_of(stream, event, err);

	if (!method)
		return -EPROTO;
	if (is_beyond_limit(stream, fiber))
		return 0;
	count_for_limit(stream->limit);
	if (method->is_line) {
		stream->lines++;
		stream->sink->ops->line(stream->sink, fiber, method, event);
	} else {
		stream->calls++;
		stream->sink->ops->whole(stream->sink, fiber, method, event);
	}
	return 0;
}

/* Of a kind that is known; a later version may have others. */
static int mark(struct stream *stream, struct fiber *fiber, const struct event *event, struct error *err)
{
	struct method *method = method_of(stream, event, err);

	if (!method)
		return -EPROTO;
	if (!method->mark || !stream->sink->ops->mark)
		return 0;
	if (is_beyond_limit(stream, fiber))
		return 0;
	count_for_limit(stream->limit);
	stream->marks[method->mark_kind]++;
	stream->sink->ops->mark(stream->sink, fiber, method, event);
	return 0;
}

typedef int (*event_handler)(struct stream *stream, struct fiber *fiber, const struct event *event, struct error *err);

static const event_handler event_handlers[] = {
	[EVENT_START] = call_start,
	[EVENT_END] = call_end,
	[EVENT_CALL] = call_whole,
	[EVENT_MARK] = mark,
};

/* A fiber with nothing open is often a dead one: programs make them by the million, and their end is not announced. */
static void fiber_rest(struct fiber *fiber)
{
	if (fiber->depth)
		return;
	free(fiber->calls);
	fiber->calls = NULL;
	fiber->capacity = 0;
	if (!fiber->kept.size)
		buffer_free(&fiber->kept);
}

int calls_events(struct stream *stream, struct record_events *events, struct error *err)
{
	struct event event;
	int status;

	if (!stream->sink || stream->sink->ops->data)
		return error_set(err, -EPROTO, "malformed stream: events that nobody asked for");
	while ((status = event_next(events, &event, err)) > 0) {
		struct fiber *fiber = stream->last_fiber;

		if (!fiber || fiber->ref != event.fiber) {
			fiber = ref_get(&stream->fibers, event.fiber);
			if (!fiber)
				return error_set(err, -EPROTO,
				                 "malformed stream: an event of a fiber (%u) that was not announced",
				                 event.fiber);
			if (stream->last_fiber) {
				fiber_rest(stream->last_fiber);
				calls_count(stream, stream->last_fiber);
			}
			stream->last_fiber = fiber;
		}
		status = event_handlers[event.kind](stream, fiber, &event, err);
		if (status == 0)
			status = check_flood(stream, err);
		if (status < 0)
			return status;
	}
	if (stream->last_fiber)
		calls_count(stream, stream->last_fiber);
	return status < 0 ? status : calls_memory_check(stream, err);
}

void calls_finish(struct stream *stream)
{
	if (!stream->sink)
		return;
	thread_states_finish(stream);
	for (size_t i = 0; i < REF_PAGES; i++)
		for (size_t k = 0; stream->fibers.pages[i] && k < REFS_PER_PAGE; k++)
			if (stream->fibers.pages[i][k])
				fiber_close_calls(stream->fibers.pages[i][k]);
}

void calls_each_fiber(const struct stream *stream, void (*visit)(const struct fiber *fiber, void *owner), void *owner)
{
	for (size_t i = 0; i < REF_PAGES; i++)
		for (size_t k = 0; stream->fibers.pages[i] && k < REFS_PER_PAGE; k++)
			if (stream->fibers.pages[i][k])
				visit(stream->fibers.pages[i][k], owner);
}

void calls_free(struct stream *stream)
{
	refs_free(&stream->methods, calls_method_free);
	refs_free(&stream->fibers, fiber_free);
	callers_free(stream);
}
