/* What is kept of a session lets another reader begin in the middle of it. */

#include "stream_fixture.h"
#include "tracer/recording/session_state.h"
#include "unit.h"

struct keeping_sink {
	struct sink sink;
	struct session_state *state;
};

static void on_start(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event)
{
	(void)sink;
	(void)call;
	session_state_begin(fiber, event);
}

static void on_end(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event, uint64_t duration_ns)
{
	(void)sink;
	(void)event;
	(void)duration_ns;
	session_state_end(fiber, call);
}

static void on_whole(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	(void)sink;
	(void)fiber;
	(void)method;
	(void)event;
}

static void on_open(struct sink *sink, struct fiber *fiber, struct call *call)
{
	(void)sink;
	session_state_end(fiber, call);
}

static void on_record(struct sink *sink, struct stream *stream, const struct record *record, const uint8_t *bytes, size_t size)
{
	struct keeping_sink *keeping = (struct keeping_sink *)sink;

	(void)stream;
	if (!keeping->state)
		keeping->state = session_state_new();
	session_state_note(keeping->state, record, bytes, size);
}

static void on_close(struct sink *sink)
{
	session_state_free(((struct keeping_sink *)sink)->state);
}

static const struct sink_ops sink_keeping = {
	.name = "keeping",
	.size = sizeof(struct keeping_sink),
	.start = on_start,
	.end = on_end,
	.whole = on_whole,
	.open = on_open,
	.record = on_record,
	.close = on_close,
};

static const struct sink_style plain = {.indent = 3};

static int setup(void **state)
{
	return fixture_open(state, &sink_keeping, &plain);
}

static void take(void *owner, const struct buffer *records)
{
	msgpack_sbuffer_write(owner, records->bytes, records->size);
}

/* What a reader shows that gets what is kept, and then what the fixture's records hold. */
static void continues(struct fixture *f, const char *expected)
{
	const struct keeping_sink *keeping = (const struct keeping_sink *)f->sink;
	struct output output = {.fd = -1};
	struct sink *sink = sink_new(&sink_text, &output, &plain);
	struct stream *stream = stream_new(77, sink, NULL, NULL, NULL);
	msgpack_sbuffer kept;
	struct error err = {0};

	msgpack_sbuffer_init(&kept);
	session_state_give(keeping->state, f->stream, take, &kept);
	if (stream_feed(stream, kept.data, kept.size, &err) < 0 ||
	    stream_feed(stream, f->records.data, f->records.size, &err) < 0)
		fail_msg("%s", err.text);
	buffer_add_char(&output.buffer, '\0');
	assert_string_equal(output.buffer.bytes, expected);
	msgpack_sbuffer_destroy(&kept);
	msgpack_sbuffer_clear(&f->records);
	stream_free(stream);
	sink_free(sink);
	buffer_free(&output.buffer);
}

static void open_calls_have_their_values(void **state)
{
	struct fixture *f = *state;

	method(f, 1, "Shop", "sell");
	method(f, 2, "Shop", "price");
	fiber(f, 1, 77, "main");
	event(f, EVENT_START, 0, 1, 1, 1, "#<Shop>", "3");
	event(f, EVENT_START, 0, 2, 1, 2, NULL, NULL);
	event(f, EVENT_END, ENDING_RETURNED, 2, 1, 3, NULL, NULL);
	event(f, EVENT_START, 0, 2, 1, 4, "tea", NULL);
	fixture_output(f);
	event(f, EVENT_END, ENDING_RETURNED, 2, 1, 5, NULL, NULL);
	event(f, EVENT_END, ENDING_RETURNED, 1, 1, 6, NULL, NULL);
	continues(f, "Shop#sell(self=#<Shop>, num=3)\n   Shop#price(self=tea)\nShop#sell <end>\n");
}

static void what_is_announced_anew_counts_and_what_is_gone_does_not(void **state)
{
	static const struct record gone = {.kind = RECORD_FIBER_GONE, .fiber_gone = {.ref = 2}};
	struct fixture *f = *state;

	method(f, 1, "#<Class:0x1>", "sell");
	method(f, 1, "Shop", "sell");
	fiber(f, 1, 77, "main");
	fiber(f, 2, 78, "worker");
	event(f, EVENT_START, 0, 1, 2, 1, NULL, NULL);
	record_encode(&f->records, &gone);
	fixture_output(f);
	whole(f, ENDING_RETURNED, 1, 1, 9, 1, "soap", NULL);
	continues(f, "Shop#sell(self=soap)\n");
}

static void a_deep_stack_takes_several_records(void **state)
{
	enum { DEPTH = 3 * BATCH_EVENTS_MAX };
	struct fixture *f = *state;
	struct keeping_sink *keeping = (struct keeping_sink *)f->sink;
	struct stream *stream;
	struct sink *sink = sink_new(&sink_keeping, &f->output, &plain);
	msgpack_sbuffer kept;
	struct error err = {0};

	method(f, 1, "Shop", "sell");
	fiber(f, 1, 77, "main");
	fixture_output(f);
	for (int i = 0; i < DEPTH; i++) {
		event(f, EVENT_START, 0, 1, 1, (uint64_t)i, "#<Shop>", NULL);
		if (i % 100 == 99 || i == DEPTH - 1)
			fixture_output(f);
	}
	msgpack_sbuffer_init(&kept);
	session_state_give(keeping->state, f->stream, take, &kept);
	stream = stream_new(77, sink, NULL, NULL, NULL);
	if (stream_feed(stream, kept.data, kept.size, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(stream->calls, DEPTH);
	msgpack_sbuffer_destroy(&kept);
	stream_free(stream);
	sink_free(sink);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(open_calls_have_their_values, setup, fixture_close),
		cmocka_unit_test_setup_teardown(what_is_announced_anew_counts_and_what_is_gone_does_not, setup, fixture_close),
		cmocka_unit_test_setup_teardown(a_deep_stack_takes_several_records, setup, fixture_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
