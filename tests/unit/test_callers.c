/* Stacks: a tree of frames goes in, and a call's number leads to the lines that show it. */

#include "stream_fixture.h"
#include "tracer/stream/callers.h"

#include <errno.h>

static const struct sink_style with_stack = {.indent = 3, .flags = TRACE_STACK};
static const struct sink_style with_both = {.indent = 3, .flags = TRACE_STACK | TRACE_OBJECTS};

static int setup(void **state)
{
	return fixture_open(state, &sink_text, &with_stack);
}

static int setup_both(void **state)
{
	return fixture_open(state, &sink_text, &with_both);
}

static int setup_json(void **state)
{
	return fixture_open(state, &sink_json, &with_stack);
}

static void caller(struct fixture *f, uint32_t ref, uint32_t parent, const char *label, uint32_t line)
{
	struct record record = {.kind = RECORD_CALLER};

	record.caller = (struct record_caller){
		.ref = ref, .parent = parent, .label = {label, strlen(label)}, .file = SLICE("a.rb"), .line = line};
	record_encode(&f->records, &record);
}

static void call_with(struct fixture *f, const char *outcome, size_t size)
{
	batch_of_one(f, &(struct batch_event){.kind = EVENT_CALL,
	                                      .method = 1,
	                                      .fiber = 1,
	                                      .time_ns = 1000,
	                                      .duration_ns = 1000,
	                                      .outcome = {outcome, size}});
}

static void begin(struct fixture *f)
{
	method(f, 1, "Shop", "sell");
	fiber(f, 1, 100, "");
	caller(f, 1, 0, "<main>", 9);
	caller(f, 2, 1, "Shop#open", 3);
	caller(f, 3, 1, "Shop#\033", 4);
}

static void a_number_is_the_frames_from_the_innermost_on(void **state)
{
	struct fixture *f = *state;

	begin(f);
	call_with(f, "\x91\x02", 2);
	call_with(f, "\x91\x03", 2);
	call_with(f, "\x91\x00", 2); /* nobody called */
	assert_string_equal(fixture_output(f), "Shop#sell\n"
	                                       "   from a.rb:3 in Shop#open\n"
	                                       "   from a.rb:9 in <main>\n"
	                                       "Shop#sell\n"
	                                       "   from a.rb:4 in Shop#\\x1b\n"
	                                       "   from a.rb:9 in <main>\n"
	                                       "Shop#sell\n");
}

static void a_stack_that_is_not_known_is_said_to_be(void **state)
{
	struct fixture *f = *state;

	begin(f);
	call_with(f, "\x91\xc0", 2);
	call_with(f, "\x91\x04", 2);
	assert_string_equal(fixture_output(f), "Shop#sell\n   from ?\nShop#sell\n   from ?\n");
}

static void it_stands_after_what_was_measured(void **state)
{
	struct fixture *f = *state;

	begin(f);
	call_with(f, "\x92\x07\x01", 3);
	call_with(f, "\x91\x01", 2); /* one number where two were asked for */
	assert_string_equal(fixture_output(f), "Shop#sell <alloc 7>\n   from a.rb:9 in <main>\nShop#sell\n");
}

static void json_has_an_array(void **state)
{
	struct fixture *f = *state;
	const char *output;

	begin(f);
	call_with(f, "\x91\x02", 2);
	call_with(f, "\x91\xc0", 2);
	output = fixture_output(f);
	assert_non_null(strstr(output, "\"stack\":[{\"file\":\"a.rb\",\"line\":3,\"label\":\"Shop#open\"},"
	                               "{\"file\":\"a.rb\",\"line\":9,\"label\":\"<main>\"}]}\n"));
	assert_non_null(strstr(output, "\"stack\":null}\n"));
}

static void frames_that_do_not_follow_are_refused(void **state)
{
	struct fixture *f = *state;
	struct error err;

	begin(f);
	fixture_output(f);
	assert_int_equal(callers_note(f->stream, &(struct record_caller){.ref = 3}, &err), -EPROTO);
	assert_int_equal(callers_note(f->stream, &(struct record_caller){.ref = 5}, &err), -EPROTO);
	assert_int_equal(callers_note(f->stream, &(struct record_caller){.ref = 4, .parent = 4}, &err), -EPROTO);
	assert_int_equal(callers_note(f->stream, &(struct record_caller){.ref = 4, .parent = UINT32_MAX}, &err), -EPROTO);
	for (uint32_t ref = 4; ref <= 3 + STACK_FRAMES_MAX; ref++)
		assert_int_equal(
			callers_note(f->stream, &(struct record_caller){.ref = ref, .parent = ref == 4 ? 0 : ref - 1}, &err), 0);
	assert_int_equal(callers_note(f->stream,
	                              &(struct record_caller){.ref = 4 + STACK_FRAMES_MAX, .parent = 3 + STACK_FRAMES_MAX}, &err),
	                 -EPROTO);
	assert_error(&err, -EPROTO, "does not follow");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_number_is_the_frames_from_the_innermost_on, setup, fixture_close),
		cmocka_unit_test_setup_teardown(a_stack_that_is_not_known_is_said_to_be, setup, fixture_close),
		cmocka_unit_test_setup_teardown(it_stands_after_what_was_measured, setup_both, fixture_close),
		cmocka_unit_test_setup_teardown(json_has_an_array, setup_json, fixture_close),
		cmocka_unit_test_setup_teardown(frames_that_do_not_follow_are_refused, setup, fixture_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
