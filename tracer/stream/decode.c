/* Socket bytes to records, and to whom each of them goes. See decode.h. */

#define _GNU_SOURCE
#include "tracer/stream/decode.h"

#include "tracer/base/debug.h"
#include "tracer/stream/callers.h"
#include "tracer/stream/calls.h"
#include "tracer/stream/sink.h"
#include "tracer/stream/thread_states.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_SIZE (512u << 10)
#define INPUT_SIZE (RECORD_PREFIX_SIZE + FRAME_SIZE_MAX + READ_SIZE)
#define ZONE_SIZE (64u << 10)
#define DESCRIPTORS (sizeof((struct stream *)0)->descriptors / sizeof(int))

static int stream_record(struct stream *stream, struct record *record, size_t size, struct error *err)
{
	const struct stream_handler *handler = stream->handler;

	switch (record->kind) {
	case RECORD_EVENTS:
		return calls_events(stream, &record->events, err);
	case RECORD_METHOD:
		return calls_method(stream, &record->method, err);
	case RECORD_FIBER:
		thread_states_fiber(stream, &record->fiber);
		return calls_fiber(stream, &record->fiber, err);
	case RECORD_FIBER_GONE:
		return calls_fiber_gone(stream, &record->fiber_gone, err);
	case RECORD_CALLER:
		return callers_note(stream, &record->caller, err);
	case RECORD_RETRIED:
		return calls_retried(stream, &record->retried, err);
	case RECORD_LOST:
		stream->lost += record->lost.calls;
		if (stream->sink && stream->sink->ops->lost)
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
		stream->answered += size;
		if (stream->answered > STREAM_ANSWER_MAX)
			return error_set(err, -EMSGSIZE,
			                 "malformed stream: process %d answers one request with more than %llu MiB",
			                 (int)stream->pid, STREAM_ANSWER_MAX >> 20);
		return handler->data ? handler->data(stream->owner, &record->data, err) : 0;
	case RECORD_DONE:
		stream->answered = 0;
		return handler->done ? handler->done(stream->owner, &record->done, err) : 0;
	case RECORD_FOUND:
		return handler->found ? handler->found(stream->owner, &record->found, err) : 0;
	case RECORD_TOTALS:
		return handler->totals ? handler->totals(stream->owner, &record->totals, err) : 0;
	case RECORD_STATES:
		return thread_states_note(stream, &record->states, err);
	case RECORD_DEBUG:
		debug_from_process((int)stream->pid, record->debug.domain, record->debug.text);
		return 0;
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
			status = stream_record(stream, &record, size, err);
		if (status == 0 && stream->sink && stream->sink->ops->record)
			stream->sink->ops->record(stream->sink, stream, &record, at, RECORD_PREFIX_SIZE + size);
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
		stream_drop_descriptor(descriptor);
	calls_free(stream);
	thread_states_free(stream);
	msgpack_zone_destroy(&stream->zone);
	free(stream->bytes);
	free(stream);
}

void stream_drop_descriptor(int descriptor)
{
	static const struct linger none = {.l_onoff = 0};

	setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(descriptor);
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
	stream_drop_descriptor(descriptor);
}

static ssize_t receive(struct stream *stream, int fd)
{
	union {
		char bytes[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
		struct cmsghdr aligned;
	} control;
	struct iovec piece = {stream->bytes + stream->end, READ_SIZE};
	struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
	ssize_t got;

	/* One that nobody wants is not even to be closed: that may take as long as whoever has made it likes. */
	if (stream->takes_descriptors) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
	}
	got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

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

/* A record that is not complete moves to the front when the room after it gets short. */
static void make_room(struct stream *stream)
{
	if (stream->begin == stream->end) {
		stream->begin = stream->end = 0;
	} else if (INPUT_SIZE - stream->end < READ_SIZE) {
		memmove(stream->bytes, stream->bytes + stream->begin, stream->end - stream->begin);
		stream->end -= stream->begin;
		stream->begin = 0;
	}
}

int stream_feed(struct stream *stream, const void *bytes, size_t size, struct error *err)
{
	int status = 0;

	for (const char *from = bytes; size && status == 0;) {
		size_t piece = size < READ_SIZE ? size : READ_SIZE;

		make_room(stream);
		memcpy(stream->bytes + stream->end, from, piece);
		stream->end += piece;
		from += piece;
		size -= piece;
		if (stream->sink)
			output_earn(stream->sink->output, piece);
		status = stream_decode(stream, err);
	}
	return status;
}

int stream_read(struct stream *stream, int fd, struct error *err)
{
	ssize_t got;
	int status;

	make_room(stream);
	got = receive(stream, fd);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0
		       : errno == ECONNRESET
		               ? -ENODATA
		               : error_set(err, -errno, "cannot read from process %d: %s", (int)stream->pid, strerror(errno));
	if (got == 0)
		return -ENODATA;
	stream->end += (size_t)got;
	if (stream->sink)
		output_earn(stream->sink->output, (size_t)got);
	status = stream_decode(stream, err);
	return status < 0 ? status : 1;
}
