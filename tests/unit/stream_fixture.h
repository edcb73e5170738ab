#ifndef RBPROBE_TESTS_STREAM_FIXTURE_H
#define RBPROBE_TESTS_STREAM_FIXTURE_H

/*
 * What the tests of sinks stand on: records as a target sends them go in at one end of a socket, the sink's output is
 * what comes out.
 */

#include "proto/fields.h"
#include "proto/marks.h"
#include "tracer/stream/calls.h"
#include "tracer/stream/decode.h"
#include "tracer/stream/sink.h"
#include "unit.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define MICROSECOND UINT64_C(1000)

struct fixture {
	uint32_t method_flags; /* of methods that are announced from now on */
	int sockets[2];
	struct output output;
	struct sink *sink;
	struct stream *stream;
	struct call_limit limit;
	msgpack_sbuffer records;
};

static inline int fixture_open(void **state, const struct sink_ops *ops, const struct sink_style *style)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct error err;
	static const struct stream_handler nobody;

	*state = f;
	if (!f || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, f->sockets) != 0)
		return -1;
	msgpack_sbuffer_init(&f->records);
	if (output_open(&f->output, "/dev/null", false, &err) != 0)
		return -1;
	f->sink = sink_new(ops, &f->output, style);
	f->stream = stream_new(77, f->sink, &f->limit, &nobody, NULL);
	return 0;
}

static inline int fixture_close(void **state)
{
	struct fixture *f = *state;

	stream_free(f->stream);
	sink_free(f->sink);
	output_close(&f->output);
	msgpack_sbuffer_destroy(&f->records);
	close(f->sockets[0]);
	close(f->sockets[1]);
	free(f);
	return 0;
}

/* Sends what was recorded; all that was printed so far. */
static inline const char *fixture_output(struct fixture *f)
{
	struct error err = {0};
	int status;

	assert_int_equal(write(f->sockets[1], f->records.data, f->records.size), f->records.size);
	msgpack_sbuffer_clear(&f->records);
	while ((status = stream_read(f->stream, f->sockets[0], &err)) > 0)
		;
	if (status < 0)
		fail_msg("%d: %s", status, err.text);
	buffer_add_char(&f->output.buffer, '\0');
	f->output.buffer.size--;
	return f->output.buffer.bytes;
}

static inline void method(struct fixture *f, uint32_t ref, const char *class_name, const char *name)
{
	static const struct slice labels[] = {SLICE("self"), SLICE("num")};
	struct record record = {.kind = RECORD_METHOD};

	record.method = (struct record_method){.ref = ref,
	                                       .class_name = {class_name, strlen(class_name)},
	                                       .separator = '#',
	                                       .method_name = {name, strlen(name)},
	                                       .engine = ENGINE_TARGET,
	                                       .label_count = 2,
	                                       .labels = labels,
	                                       .flags = f->method_flags};
	record_encode(&f->records, &record);
}

static inline void marks_of(struct fixture *f, enum mark_kind kind)
{
	struct record record = {.kind = RECORD_METHOD};

	record.method = (struct record_method){.ref = MARK_REF(kind), .separator = '#', .engine = ENGINE_NONE, .mark = kind};
	record_encode(&f->records, &record);
}

static inline void line(struct fixture *f, uint32_t ref, const char *place)
{
	static const struct slice labels[] = {SLICE("num"), SLICE("sum")};
	struct record record = {.kind = RECORD_METHOD};

	record.method = (struct record_method){.ref = ref,
	                                       .class_name = SLICE("Shop"),
	                                       .separator = '#',
	                                       .method_name = SLICE("sell"),
	                                       .file = SLICE("/srv/shop.rb"),
	                                       .line = 7,
	                                       .engine = ENGINE_TARGET,
	                                       .label_count = 2,
	                                       .labels = labels,
	                                       .place = {place, strlen(place)}};
	record_encode(&f->records, &record);
}

static inline void fiber(struct fixture *f, uint32_t ref, uint32_t native_id, const char *name)
{
	struct record record = {.kind = RECORD_FIBER};

	record.fiber = (struct record_fiber){
		.ref = ref, .thread_id = native_id, .native_id = native_id, .thread_name = {name, strlen(name)}, .root = true};
	record_encode(&f->records, &record);
}

static inline void ruby_msgpack_values(msgpack_sbuffer *to, const char *first, const char *second)
{
	msgpack_packer packer;

	msgpack_packer_init(&packer, to, msgpack_sbuffer_write);
	if (first) {
		msgpack_pack_array(&packer, second ? 2 : 1);
		pack_text(&packer, first, strlen(first));
	}
	if (second)
		pack_text(&packer, second, strlen(second));
}

static inline void batch_of_one(struct fixture *f, const struct batch_event *one)
{
	struct batch batch;

	batch_begin(&batch, &f->records, one->time_ns);
	assert_true(batch_add(&batch, one));
	batch_end(&batch);
}

static inline void event(struct fixture *f, enum event_kind kind, enum ending ending, uint32_t method_ref, uint32_t fiber_ref,
                         uint64_t us, const char *first, const char *second)
{
	msgpack_sbuffer values;

	msgpack_sbuffer_init(&values);
	ruby_msgpack_values(&values, first, second);
	batch_of_one(f, &(struct batch_event){.kind = kind,
	                                      .ending = ending,
	                                      .method = method_ref,
	                                      .fiber = fiber_ref,
	                                      .time_ns = us * MICROSECOND,
	                                      .values = {values.data, values.size}});
	msgpack_sbuffer_destroy(&values);
}

/* A text that is NULL was left out. */
static inline void mark(struct fixture *f, enum mark_kind kind, uint32_t fiber_ref, uint64_t us, const char *const *texts,
                        size_t count)
{
	msgpack_sbuffer values;
	msgpack_packer packer;

	msgpack_sbuffer_init(&values);
	msgpack_packer_init(&packer, &values, msgpack_sbuffer_write);
	msgpack_pack_array(&packer, count);
	for (size_t i = 0; i < count; i++)
		if (texts[i])
			pack_text(&packer, texts[i], strlen(texts[i]));
		else
			msgpack_pack_nil(&packer);
	batch_of_one(f, &(struct batch_event){.kind = EVENT_MARK,
	                                      .method = MARK_REF(kind),
	                                      .fiber = fiber_ref,
	                                      .time_ns = us * MICROSECOND,
	                                      .values = {values.data, values.size}});
	msgpack_sbuffer_destroy(&values);
}

/* A whole call with at most one argument and one value as its outcome. */
static inline void whole(struct fixture *f, enum ending ending, uint32_t method_ref, uint32_t fiber_ref, uint64_t us,
                         uint64_t duration_us, const char *argument, const char *outcome)
{
	msgpack_sbuffer values, outcomes;

	msgpack_sbuffer_init(&values);
	msgpack_sbuffer_init(&outcomes);
	ruby_msgpack_values(&values, argument, NULL);
	ruby_msgpack_values(&outcomes, outcome, NULL);
	batch_of_one(f, &(struct batch_event){.kind = EVENT_CALL,
	                                      .ending = ending,
	                                      .method = method_ref,
	                                      .fiber = fiber_ref,
	                                      .time_ns = us * MICROSECOND,
	                                      .duration_ns = duration_us * MICROSECOND,
	                                      .values = {values.data, values.size},
	                                      .outcome = {outcomes.data, outcomes.size}});
	msgpack_sbuffer_destroy(&values);
	msgpack_sbuffer_destroy(&outcomes);
}

#endif
