/*
 * The writer thread: what traced threads push and post arrives complete and in order, and it lets go of what it has. No
 * Ruby here.
 */

#include "proto/record.h"
#include "tracee/base/command_inbox.h"
#include "tracee/base/ticks.h"
#include "tracee/session/bell.h"
#include "tracee/session/stream.h"
#include "tracer/stream/decode.h"
#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CALLS 200000u
#define FIBER_EVERY 1000u /* calls, after which a definition is posted */

static _Atomic unsigned rings;

/* What the writer asks of the rest of the extension. */
void bell_ring_self(void)
{
	atomic_fetch_add(&rings, 1);
}

void bell_trigger(void)
{
	atomic_fetch_add(&rings, 1);
}

bool command_inbox_take(void)
{
	return false;
}

struct pair {
	struct session *session;
	int client;
};

static struct pair session_pair(void)
{
	struct pair pair = {.session = aligned_alloc(_Alignof(struct session), sizeof(struct session))};
	int sockets[2];

	memset(pair.session, 0, sizeof(*pair.session));
	pair.session->oldest = pair.session->newest = calloc(1, sizeof(struct message));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
	assert_int_equal(ring_open(&pair.session->ring, 1 << 16), 0);
	pair.session->socket = sockets[0];
	pair.client = sockets[1];
	assert_int_equal(stream_start(pair.session), 0);
	return pair;
}

/* descriptor -1: none goes with it. */
static void post_with(struct session *session, const struct record *record, int descriptor)
{
	msgpack_sbuffer buffer;
	struct message *message;

	msgpack_sbuffer_init(&buffer);
	record_encode(&buffer, record);
	message = calloc(1, sizeof(*message) + buffer.size);
	message->size = buffer.size;
	message->has_descriptor = descriptor >= 0;
	message->descriptor = descriptor;
	memcpy(message->bytes, buffer.data, buffer.size);
	stream_post(session, message);
	msgpack_sbuffer_destroy(&buffer);
}

static void post(struct session *session, const struct record *record)
{
	post_with(session, record, -1);
}

/* The traced side: calls one after the other, of fibers that are defined just before their first call. */
static void *produce(void *argument)
{
	struct session *session = argument;

	for (uint32_t call = 0; call < CALLS; call++) {
		struct ring_record record = {
			.kind = RING_START, .method = call, .fiber = call / FIBER_EVERY, .time = ticks_now()};
		uint64_t start;

		if (call % FIBER_EVERY == 0)
			post(session, &(struct record){.kind = RECORD_FIBER,
			                               .fiber = {.ref = call / FIBER_EVERY, .thread_name = {"", 0}}});
		session->calls++;
		start = ring_push_start(&session->ring, &record, NULL, 0);
		if (start == RING_NOWHERE)
			continue;
		record.kind = RING_END;
		record.time = ticks_now();
		ring_push_end(&session->ring, start, &record, NULL, 0);
	}
	session->end_reason = END_DETACHED;
	atomic_store_explicit(&session->closing, true, memory_order_release);
	return NULL;
}

struct seen {
	uint64_t starts, ends, lost, time_ns;
	uint32_t last_method, fiber;
	bool fiber_known;
	struct record_end end;
	bool ended;
};

static void see_events(struct seen *seen, struct record_events *events)
{
	struct event event;

	while (event_next(events, &event, NULL) > 0) {
		/* A fiber is announced before its calls, and not before those of the fiber in front of it. */
		assert_true(seen->fiber_known);
		assert_int_equal(event.fiber, seen->fiber);
		if (event.kind == EVENT_END)
			assert_int_equal(event.method, seen->last_method);
		else if (seen->starts)
			assert_true(event.method > seen->last_method);
		assert_true(event.time_ns >= seen->time_ns);
		seen->time_ns = event.time_ns + event.duration_ns;
		seen->last_method = event.method;
		seen->starts += event.kind != EVENT_END;
		seen->ends += event.kind != EVENT_START;
	}
}

static void see(struct seen *seen, struct record *record)
{
	if (record->kind == RECORD_EVENTS)
		see_events(seen, &record->events);
	if (record->kind == RECORD_FIBER) {
		seen->fiber = record->fiber.ref;
		seen->fiber_known = true;
	}
	if (record->kind == RECORD_LOST)
		seen->lost += record->lost.calls;
	if (record->kind == RECORD_END) {
		seen->end = record->end;
		seen->ended = true;
	}
}

static void read_exactly(int fd, void *to, size_t size)
{
	for (size_t got = 0; got < size;) {
		ssize_t part = read(fd, (char *)to + got, size - got);

		assert_true(part > 0);
		got += (size_t)part;
	}
}

/* Reads one record and sees it. */
static void see_next(struct pair *pair, struct seen *seen)
{
	static uint8_t bytes[FRAME_SIZE_MAX];
	uint8_t prefix[RECORD_PREFIX_SIZE];
	struct record record;
	msgpack_zone zone;
	size_t size;

	read_exactly(pair->client, prefix, sizeof(prefix));
	size = prefix[0] | (size_t)prefix[1] << 8 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 24;
	assert_true(size <= FRAME_SIZE_MAX);
	read_exactly(pair->client, bytes, size);
	assert_true(msgpack_zone_init(&zone, 65536));
	assert_int_equal(record_decode(&record, bytes, size, &zone, NULL), 0);
	see(seen, &record);
	msgpack_zone_destroy(&zone);
}

static void all_that_is_pushed_arrives(void **state)
{
	struct pair pair = session_pair();
	struct seen seen = {0};
	pthread_t producer;
	char nothing;

	(void)state;
	assert_int_equal(pthread_create(&producer, NULL, produce, pair.session), 0);
	while (!seen.ended)
		see_next(&pair, &seen);
	pthread_join(producer, NULL);
	assert_int_equal(seen.starts, seen.ends);
	assert_int_equal(seen.starts + seen.lost, CALLS);
	assert_int_equal(seen.end.calls, CALLS);
	assert_int_equal(seen.end.lost, seen.lost);
	assert_int_equal(read(pair.client, &nothing, 1), 0);
	close(pair.client);
	stream_await_all(10000);
}

static void end_session(struct pair *pair)
{
	atomic_store_explicit(&pair->session->closing, true, memory_order_release);
}

/* A start is seen although nothing comes after it, and its end is told once, by itself. */
static void a_call_that_takes_long_is_told_when_it_begins(void **state)
{
	struct pair pair = session_pair();
	struct ring_record record = {.kind = RING_START, .method = 7, .fiber = 3, .time = ticks_now()};
	struct seen seen = {.fiber = 3, .fiber_known = true};
	uint64_t start = ring_push_start(&pair.session->ring, &record, NULL, 0);

	(void)state;
	pair.session->calls = 1;
	see_next(&pair, &seen);
	assert_int_equal(seen.starts, 1);
	assert_int_equal(seen.ends, 0);
	record.kind = RING_END;
	record.time = ticks_now();
	ring_push_end(&pair.session->ring, start, &record, NULL, 0);
	see_next(&pair, &seen);
	assert_int_equal(seen.starts, 1);
	assert_int_equal(seen.ends, 1);
	end_session(&pair);
	see_next(&pair, &seen);
	assert_true(seen.ended);
	close(pair.client);
	stream_await_all(10000);
}

static void a_client_that_goes_is_noticed(void **state)
{
	struct pair pair = session_pair();

	(void)state;
	close(pair.client);
	while (atomic_load(&rings) == 0)
		usleep(1000);
	/* As the job does that the bell asks for. */
	assert_true(atomic_load(&pair.session->gone));
	atomic_store(&pair.session->closing, true);
	stream_await_all(10000);
}

struct taken {
	struct stream *stream;
	int descriptors[3];
	size_t count;
	size_t notes_before[3];
	size_t notes;
};

static int take_note(void *owner, const struct record_note *note, struct error *err)
{
	(void)note;
	(void)err;
	((struct taken *)owner)->notes++;
	return 0;
}

static int take_data(void *owner, const struct record_data *data, struct error *err)
{
	struct taken *taken = owner;

	(void)data;
	(void)err;
	taken->notes_before[taken->count] = taken->notes;
	taken->descriptors[taken->count++] = stream_take_descriptor(taken->stream);
	return 0;
}

/* A pipe that holds that one byte. */
static int pipe_with(char byte)
{
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], &byte, 1), 1);
	close(ends[1]);
	return ends[0];
}

static void descriptors_come_with_their_records(void **state)
{
	static const struct stream_handler handler = {.note = take_note, .data = take_data};
	struct pair pair = session_pair();
	struct taken taken = {.count = 0};
	struct record note = {.kind = RECORD_NOTE, .note = {.text = {"note", 4}}};
	struct record data = {.kind = RECORD_DATA, .data = {.command_id = 1, .packed = {"\x80", 1}}};

	(void)state;
	taken.stream = stream_new(1, NULL, NULL, &handler, &taken);
	taken.stream->takes_descriptors = true;
	for (int i = 0; i < 3; i++) {
		post(pair.session, &note);
		post_with(pair.session, &data, pipe_with((char)('a' + i)));
	}
	while (taken.count < 3)
		assert_true(stream_read(taken.stream, pair.client, NULL) >= 0);
	for (size_t i = 0; i < 3; i++) {
		char byte = 0;

		assert_int_equal(taken.notes_before[i], i + 1);
		assert_true(taken.descriptors[i] >= 0);
		assert_int_equal(read(taken.descriptors[i], &byte, 1), 1);
		assert_int_equal(byte, 'a' + i);
		close(taken.descriptors[i]);
	}
	assert_int_equal(stream_take_descriptor(taken.stream), -1);
	stream_free(taken.stream);
	end_session(&pair);
	stream_await_all(10000);
	close(pair.client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_is_pushed_arrives),
		cmocka_unit_test(a_call_that_takes_long_is_told_when_it_begins),
		cmocka_unit_test(descriptors_come_with_their_records),
		cmocka_unit_test(a_client_that_goes_is_noticed),
	};

	ticks_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
