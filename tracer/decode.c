/* Socket bytes to calls. See decode.h. The events' path is stream_events() and what it calls: keep it lean. */

#define _GNU_SOURCE
#include "decode.h"

#include "sink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_SIZE (512u << 10)
#define INPUT_SIZE (RECORD_PREFIX_SIZE + FRAME_SIZE_MAX + READ_SIZE)
#define ZONE_SIZE (64u << 10)
#define DESCRIPTORS (sizeof((struct stream *)0)->descriptors / sizeof(int))
#define DEPTH_MAX (16u << 20)

static void *ref_get(const struct ref_table *table, uint32_t ref)
{
	void **page = ref < REF_PAGES * REFS_PER_PAGE ? table->pages[ref / REFS_PER_PAGE] : NULL;

	return page ? page[ref % REFS_PER_PAGE] : NULL;
}

static void **ref_place(struct ref_table *table, uint32_t ref, struct error *err)
{
	void ***page;

	if (ref >= REF_PAGES * REFS_PER_PAGE) {
		error_set(err, -EPROTO, "the target announced a method or fiber with the number %u; at most %u are possible", ref,
		          REF_PAGES * REFS_PER_PAGE - 1);
		return NULL;
	}
	page = &table->pages[ref / REFS_PER_PAGE];
	if (!*page)
		*page = memory_zeroed(REFS_PER_PAGE * sizeof(void *));
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

static void slice_free(struct slice text)
{
	free((char *)text.bytes);
}

static struct slice slice_printable(struct slice text)
{
	struct buffer buffer = {0};

	buffer_add_printable(&buffer, text.bytes, text.size);
	return (struct slice){buffer.bytes, buffer.size};
}

static void method_free(void *thing)
{
	struct method *method = thing;

	while (method) {
		struct method *replaced = method->replaced;

		for (uint32_t i = 0; i < method->label_count; i++) {
			slice_free(method->labels[i]);
			slice_free(method->shown_labels[i]);
		}
		free(method->labels);
		free(method->shown_labels);
		slice_free(method->class_name);
		slice_free(method->method_name);
		slice_free(method->file);
		slice_free(method->shown);
		buffer_free(&method->prepared);
		free(method);
		method = replaced;
	}
}

static int stream_method(struct stream *stream, const struct record_method *record, struct error *err)
{
	void **place = ref_place(&stream->methods, record->ref, err);
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
	method->label_count = record->label_count;
	method->labels = memory_zeroed(record->label_count * sizeof(struct slice));
	method->shown_labels = memory_zeroed(record->label_count * sizeof(struct slice));
	for (uint32_t i = 0; i < record->label_count; i++) {
		method->labels[i] = slice_copy(record->labels[i]);
		method->shown_labels[i] = slice_printable(record->labels[i]);
	}
	buffer_add_printable(&shown, record->class_name.bytes, record->class_name.size);
	buffer_add_char(&shown, method->separator);
	buffer_add_printable(&shown, record->method_name.bytes, record->method_name.size);
	method->shown = (struct slice){shown.bytes, shown.size};
	method->replaced = *place;
	*place = method;
	return 0;
}

static void fiber_free(void *thing)
{
	struct fiber *fiber = thing;

	slice_free(fiber->thread_name);
	slice_free(fiber->created_at);
	free(fiber->calls);
	buffer_free(&fiber->kept);
	buffer_free(&fiber->prepared);
	free(fiber);
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
		fiber->stream->sink->ops->open(fiber->stream->sink, fiber, call);
	}
}

static int stream_fiber(struct stream *stream, const struct record_fiber *record, struct error *err)
{
	void **place = ref_place(&stream->fibers, record->ref, err);
	struct fiber *fiber;

	if (!place)
		return err->code;
	fiber = *place;
	if (!fiber) {
		*place = fiber = memory_zeroed(sizeof(*fiber));
		fiber->stream = stream;
		fiber->ref = record->ref;
		stream->fiber_count++;
	} else if (fiber->thread_id != record->thread_id || fiber->root != record->root) {
		fiber_close_calls(fiber); /* the number was given to another fiber */
	}
	slice_free(fiber->thread_name);
	slice_free(fiber->created_at);
	fiber->thread_name = slice_copy(record->thread_name);
	fiber->created_at = slice_copy(record->created_at);
	fiber->thread_id = record->thread_id;
	fiber->native_id = record->native_id;
	fiber->root = record->root;
	fiber->prepared.size = 0;
	return 0;
}

static int stream_fiber_gone(struct stream *stream, const struct record_fiber_gone *record, struct error *err)
{
	void **place = ref_place(&stream->fibers, record->ref, err);
	struct fiber *fiber;

	if (!place)
		return err->code;
	fiber = *place;
	if (!fiber)
		return 0;
	fiber_close_calls(fiber);
	if (stream->shown_fiber == fiber)
		stream->shown_fiber = NULL;
	if (stream->last_fiber == fiber)
		stream->last_fiber = NULL;
	fiber_free(fiber);
	*place = NULL;
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

static int call_start(struct stream *stream, struct fiber *fiber, const struct event *event, struct error *err)
{
	struct method *method = method_of(stream, event, err);
	struct call_limit *limit = stream->limit;
	struct call *call;

	if (!method)
		return -EPROTO;
	if (fiber->depth == fiber->capacity) {
		if (fiber->depth >= DEPTH_MAX)
			return error_set(err, -EPROTO, "malformed stream: more than %u calls open in one fiber", DEPTH_MAX);
		fiber_grow(fiber);
	}
	call = &fiber->calls[fiber->depth];
	call->method = method;
	call->start_ns = event->time_ns;
	call->kept = fiber->kept.size;
	call->held = false;
	call->skipped = limit && limit->limited && limit->left == 0;
	if (!call->skipped) {
		if (limit) {
			limit->left--;
			limit->open++;
		}
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

/* A call that nothing happened in. */
static int call_whole(struct stream *stream, struct fiber *fiber, const struct event *event, struct error *err)
{
	struct method *method = method_of(stream, event, err);

	if (!method)
		return -EPROTO;
	if (stream->limit) {
		if (stream->limit->limited && stream->limit->left == 0)
			return 0;
		stream->limit->left--;
	}
	stream->calls++;
	stream->sink->ops->whole(stream->sink, fiber, method, event);
	return 0;
}

typedef int (*event_handler)(struct stream *stream, struct fiber *fiber, const struct event *event, struct error *err);

static const event_handler event_handlers[] = {
	[EVENT_START] = call_start,
	[EVENT_END] = call_end,
	[EVENT_CALL] = call_whole,
};

/* A fiber with nothing open is often a dead one: programs make them by the million, and their end is not announced. */
static void fiber_rest(struct fiber *fiber)
{
	if (fiber->depth)
		return;
	free(fiber->calls);
	fiber->calls = NULL;
	fiber->capacity = 0;
	buffer_free(&fiber->kept);
}

static int stream_events(struct stream *stream, struct record_events *events, struct error *err)
{
	struct event event;
	int status;

	if (!stream->sink)
		return error_set(err, -EPROTO, "malformed stream: events that nobody asked for");
	while ((status = event_next(events, &event, err)) > 0) {
		struct fiber *fiber = stream->last_fiber;

		if (!fiber || fiber->ref != event.fiber) {
			fiber = ref_get(&stream->fibers, event.fiber);
			if (!fiber)
				return error_set(err, -EPROTO,
				                 "malformed stream: an event of a fiber (%u) that was not announced",
				                 event.fiber);
			if (stream->last_fiber)
				fiber_rest(stream->last_fiber);
			stream->last_fiber = fiber;
		}
		status = event_handlers[event.kind](stream, fiber, &event, err);
		if (status < 0)
			return status;
	}
	return status;
}

static int stream_record(struct stream *stream, struct record *record, struct error *err)
{
	const struct stream_handler *handler = stream->handler;

	switch (record->kind) {
	case RECORD_EVENTS:
		return stream_events(stream, &record->events, err);
	case RECORD_METHOD:
		return stream_method(stream, &record->method, err);
	case RECORD_FIBER:
		return stream_fiber(stream, &record->fiber, err);
	case RECORD_FIBER_GONE:
		return stream_fiber_gone(stream, &record->fiber_gone, err);
	case RECORD_LOST:
		stream->lost += record->lost.calls;
		if (stream->sink)
			stream->sink->ops->lost(stream->sink, stream, &record->lost);
		return 0;
	case RECORD_HELLO:
		stream->wall_offset_ns = (int64_t)(record->hello.realtime_ns - record->hello.monotonic_ns);
		return handler->hello ? handler->hello(stream->owner, &record->hello, err) : 0;
	case RECORD_REPLY:
		return handler->reply ? handler->reply(stream->owner, &record->reply, err) : 0;
	case RECORD_NOTE:
		return handler->note ? handler->note(stream->owner, &record->note, err) : 0;
	case RECORD_MATCH:
		return handler->match ? handler->match(stream->owner, &record->match, err) : 0;
	case RECORD_END:
		stream->ended = true;
		return handler->end ? handler->end(stream->owner, &record->end, err) : 0;
	case RECORD_OUTPUT:
		return handler->output ? handler->output(stream->owner, &record->output, err) : 0;
	case RECORD_DATA:
		return handler->data ? handler->data(stream->owner, &record->data, err) : 0;
	case RECORD_DONE:
		return handler->done ? handler->done(stream->owner, &record->done, err) : 0;
	}
	return 0; /* of a later version */
}

static size_t prefix_load(const uint8_t *from)
{
	return (size_t)from[0] | (size_t)from[1] << 8 | (size_t)from[2] << 16 | (size_t)from[3] << 24;
}

static int stream_decode(struct stream *stream, struct error *err)
{
	while (stream->end - stream->begin >= RECORD_PREFIX_SIZE) {
		const uint8_t *at = stream->bytes + stream->begin;
		size_t size = prefix_load(at);
		struct record record;
		int status;

		if (size > FRAME_SIZE_MAX)
			return error_set(err, -EMSGSIZE, "malformed stream: a record of %zu bytes; the limit is %u", size,
			                 FRAME_SIZE_MAX);
		if (stream->end - stream->begin - RECORD_PREFIX_SIZE < size)
			break;
		stream->begin += RECORD_PREFIX_SIZE + size;
		status = record_decode(&record, at + RECORD_PREFIX_SIZE, size, &stream->zone, err);
		if (status == 0)
			status = stream_record(stream, &record, err);
		msgpack_zone_clear(&stream->zone);
		if (status < 0)
			return status;
	}
	return 0;
}

struct stream *stream_new(pid_t pid, struct sink *sink, struct call_limit *limit, const struct stream_handler *handler,
                          void *owner)
{
	struct stream *stream = memory_zeroed(sizeof(*stream));

	stream->pid = pid;
	stream->sink = sink;
	stream->limit = limit;
	stream->handler = handler;
	stream->owner = owner;
	stream->bytes = memory_resize(NULL, INPUT_SIZE);
	for (size_t i = 0; i < DESCRIPTORS; i++)
		stream->descriptors[i] = -1;
	if (!msgpack_zone_init(&stream->zone, ZONE_SIZE))
		memory_resize(NULL, SIZE_MAX); /* says so and ends the program */
	return stream;
}

void stream_free(struct stream *stream)
{
	if (!stream)
		return;
	for (int descriptor; (descriptor = stream_take_descriptor(stream)) >= 0;)
		close(descriptor);
	refs_free(&stream->methods, method_free);
	refs_free(&stream->fibers, fiber_free);
	msgpack_zone_destroy(&stream->zone);
	free(stream->bytes);
	free(stream);
}

int stream_take_descriptor(struct stream *stream)
{
	int descriptor = stream->descriptors[0];

	memmove(stream->descriptors, stream->descriptors + 1, sizeof(stream->descriptors) - sizeof(int));
	stream->descriptors[DESCRIPTORS - 1] = -1;
	return descriptor;
}

/* A target that sends more than it announces gets them closed. */
static void keep_descriptor(struct stream *stream, int descriptor)
{
	for (size_t i = 0; i < DESCRIPTORS; i++)
		if (stream->descriptors[i] < 0) {
			stream->descriptors[i] = descriptor;
			return;
		}
	close(descriptor);
}

static ssize_t receive(struct stream *stream, int fd)
{
	union {
		char bytes[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
		struct cmsghdr aligned;
	} control;
	struct iovec piece = {stream->bytes + stream->end, READ_SIZE};
	struct msghdr message = {
		.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
	ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	for (struct cmsghdr *header = got < 0 ? NULL : CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
		size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int descriptor;

			memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
			keep_descriptor(stream, descriptor);
		}
	}
	return got;
}

int stream_read(struct stream *stream, int fd, struct error *err)
{
	ssize_t got;
	int status;

	/* A record that is not complete moves to the front when what is left behind it gets short. */
	if (stream->begin == stream->end) {
		stream->begin = stream->end = 0;
	} else if (INPUT_SIZE - stream->end < READ_SIZE) {
		memmove(stream->bytes, stream->bytes + stream->begin, stream->end - stream->begin);
		stream->end -= stream->begin;
		stream->begin = 0;
	}
	got = receive(stream, fd);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0
		       : errno == ECONNRESET
		               ? -ENODATA
		               : error_set(err, -errno, "cannot read from process %d: %s", (int)stream->pid, strerror(errno));
	if (got == 0)
		return -ENODATA;
	stream->end += (size_t)got;
	status = stream_decode(stream, err);
	return status < 0 ? status : 1;
}

void stream_finish(struct stream *stream)
{
	if (!stream->sink)
		return;
	for (size_t i = 0; i < REF_PAGES; i++)
		for (size_t k = 0; stream->fibers.pages[i] && k < REFS_PER_PAGE; k++)
			if (stream->fibers.pages[i][k])
				fiber_close_calls(stream->fibers.pages[i][k]);
}
