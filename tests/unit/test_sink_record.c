/* What a recorder does with what several processes send, by the clock, and when one of them goes. */
#define _GNU_SOURCE

#include "proto/clock.h"
#include "tracer/recording/sink_record_parts.h"
#include "tracer/stream/decode.h"
#include "unit.h"

#include <stdlib.h>

static struct output output;
static struct sink *sink;
static struct stream *streams[2];

static void feed(struct stream *stream, const struct record *record)
{
	msgpack_sbuffer bytes;
	struct error err;

	msgpack_sbuffer_init(&bytes);
	record_encode(&bytes, record);
	assert_int_equal(stream_feed(stream, bytes.data, bytes.size, &err), 0);
	msgpack_sbuffer_destroy(&bytes);
}

static void add_fiber(struct stream *stream)
{
	feed(stream, &(struct record){.kind = RECORD_FIBER, .fiber = {.thread_name = SLICE("main"), .created_at = SLICE("")}});
}

/* Two processes, of which the first is armed. */
static int setup(void **state)
{
	static const struct stream_handler nobody;
	static const struct sink_style style;
	static const struct record_manner manner;
	struct error err;

	(void)state;
	if (output_open(&output, "/dev/null", false, &err) != 0)
		return -1;
	sink = sink_record_new(&output, &style, &(struct recording_head){0}, &manner);
	for (int i = 0; i < 2; i++) {
		streams[i] = stream_new(0x7ffffff0 + i, sink, NULL, &nobody, NULL);
		feed(streams[i], &(struct record){.kind = RECORD_HELLO, .hello = {.ruby_version = SLICE("3.1.2")}});
	}
	feed(streams[0], &(struct record){.kind = RECORD_REPLY});
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	sink_record_end(sink);
	for (int i = 0; i < 2; i++)
		stream_free(streams[i]);
	sink_free(sink);
	return output_close(&output);
}

static void what_a_silent_process_has_sent_is_written_by_the_clock(void **state)
{
	uint64_t began_ns = clock_now_ns();

	(void)state;
	assert_true(sink->ops->wake_ns(sink) == UINT64_MAX);
	add_fiber(streams[0]);
	assert_true(sink->ops->holds(sink));
	assert_true(sink->ops->wake_ns(sink) >= began_ns + NS_PER_S);
	assert_true(sink->ops->wake_ns(sink) <= clock_now_ns() + NS_PER_S);
	sink->ops->wake(sink, began_ns);
	assert_true(sink->ops->holds(sink));
	sink->ops->wake(sink, clock_now_ns() + NS_PER_S);
	assert_false(sink->ops->holds(sink));
	assert_true(output.flushed > 0 && !output.buffer.size);
}

/* It has no summary. */
static void a_process_that_refuses_is_forgotten(void **state)
{
	const struct sink_record *recorder = (const struct sink_record *)sink;

	(void)state;
	assert_int_equal(recorder->count, 2);
	sink->ops->gone(sink, streams[1]);
	assert_int_equal(recorder->count, 1);
	assert_ptr_equal(recorder->sessions[0].stream, streams[0]);
	assert_null(recorder->last);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_a_silent_process_has_sent_is_written_by_the_clock, setup, teardown),
		cmocka_unit_test_setup_teardown(a_process_that_refuses_is_forgotten, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
