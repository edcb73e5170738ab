/* The JSON lines, as another JSON parser reads them: every field, and what fits into one object. */

#include "stream_fixture.h"
#include "unit.h"

#include <jansson.h>

static const struct sink_style plain = {.durations = true, .indent = 3};

static int setup(void **state)
{
	return fixture_open(state, &sink_json, &plain);
}

/* The lines so far as an array. */
static json_t *lines(struct fixture *f)
{
	const char *from = fixture_output(f);
	json_t *all = json_array();

	while (*from) {
		const char *end = strchr(from, '\n');
		json_error_t error;
		json_t *line;

		assert_non_null(end);
		line = json_loadb(from, (size_t)(end - from), JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
		if (!line)
			fail_msg("%s: %.*s", error.text, (int)(end - from), from);
		json_array_append_new(all, line);
		from = end + 1;
	}
	return all;
}

static void reads(struct fixture *f, const char *expected)
{
	json_t *actual = lines(f);
	json_error_t error;
	json_t *wanted = json_loads(expected, 0, &error);

	if (!wanted)
		fail_msg("the test's own JSON: %s", error.text);
	if (!json_equal(actual, wanted))
		fail_msg("%s", json_dumps(actual, 0));
	json_decref(actual);
	json_decref(wanted);
}

static void a_call_is_one_object(void **state)
{
	struct fixture *f = *state;

	f->stream->wall_offset_ns = 5000;
	method(f, 1, "Shop", "sell");
	fiber(f, 1, 100, "main");
	event(f, EVENT_START, 0, 1, 1, 1, "#<Shop>", "3");
	whole(f, ENDING_RETURNED, 1, 1, 2, 3, NULL, "nil");
	event(f, EVENT_END, ENDING_RAISED, 1, 1, 9, "SoldOut", "none left");
	reads(f, "[{\"type\":\"call\",\"pid\":77,\"thread\":100,\"thread_name\":\"main\",\"fiber\":1,\"method\":\"Shop#sell\","
	         "\"class\":\"Shop\",\"name\":\"sell\",\"depth\":1,\"start_ns\":7000,\"duration_ns\":3000,\"ended\":\"returned\","
	         "\"result\":\"nil\"},"
	         "{\"type\":\"call\",\"pid\":77,\"thread\":100,\"thread_name\":\"main\",\"fiber\":1,\"method\":\"Shop#sell\","
	         "\"class\":\"Shop\",\"name\":\"sell\",\"depth\":0,\"start_ns\":6000,\"values\":{\"self\":\"#<Shop>\",\"num\":"
	         "\"3\"},"
	         "\"duration_ns\":8000,\"ended\":\"raised\",\"exception\":{\"class\":\"SoldOut\",\"message\":\"none left\"}}]");
}

static void a_mark_is_one_object(void **state)
{
	static const char *const texts[] = {"SoldOut", "none left", "shop.rb", "12"};
	struct fixture *f = *state;

	marks_of(f, MARK_RAISE);
	fiber(f, 1, 100, "main");
	mark(f, MARK_RAISE, 1, 1, texts, 4);
	reads(f, "[{\"type\":\"raise\",\"pid\":77,\"thread\":100,\"thread_name\":\"main\",\"fiber\":1,\"depth\":0,"
	         "\"time_ns\":1000,\"class\":\"SoldOut\",\"message\":\"none left\",\"file\":\"shop.rb\",\"line\":12}]");
}

static void phases_of_a_collection_are_null_where_they_are_not_known(void **state)
{
	static const char *const texts[] = {"minor", "newobj", "", "lazy", "1200", "2", "700", "40", "31", "900", "290"};
	static const char *const left_out[] = {"minor", "newobj", "", "lazy", "1200", "2", "700", "40", "31", NULL, NULL};
	struct fixture *f = *state;
	json_t *all;

	marks_of(f, MARK_GC);
	fiber(f, 1, 100, "main");
	mark(f, MARK_GC, 1, 1, texts, 11);
	mark(f, MARK_GC, 1, 2, left_out, 11);
	mark(f, MARK_GC, 1, 3, texts, 9); /* as an older process sends it */
	all = lines(f);
	assert_int_equal(json_array_size(all), 3);
	for (size_t i = 0; i < 3; i++) {
		json_t *line = json_array_get(all, i), *mark_ns = json_object_get(line, "mark_ns");
		json_t *sweep_ns = json_object_get(line, "sweep_ns");

		assert_int_equal(json_integer_value(json_object_get(line, "objects_after")), 31);
		if (i == 0) {
			assert_int_equal(json_integer_value(mark_ns), 900);
			assert_int_equal(json_integer_value(sweep_ns), 290);
		} else {
			assert_true(json_is_null(mark_ns) && json_is_null(sweep_ns));
		}
	}
	json_decref(all);
}

static void what_is_open_lost_and_over(void **state)
{
	struct fixture *f = *state;
	struct record record = {.kind = RECORD_LOST, .lost = {12, 1000, 2000}};

	method(f, 1, "Shop", "sell");
	fiber(f, 1, 100, "");
	record_encode(&f->records, &record);
	event(f, EVENT_START, 0, 1, 1, 1, "a", NULL);
	fixture_output(f);
	calls_finish(f->stream);
	f->sink->ops->summary(f->sink,
	                      &(struct sink_summary){.pid = 77, .calls = 1, .lost = 12, .duration_ns = 99, .reason = "over"});
	reads(f, "[{\"type\":\"lost\",\"pid\":77,\"calls\":12,\"from_ns\":1000,\"to_ns\":2000},"
	         "{\"type\":\"call\",\"pid\":77,\"thread\":100,\"fiber\":1,\"method\":\"Shop#sell\",\"class\":\"Shop\","
	         "\"name\":\"sell\",\"depth\":0,\"start_ns\":1000,\"values\":{\"self\":\"a\"},\"ended\":\"open\"},"
	         "{\"type\":\"summary\",\"pid\":77,\"calls\":1,\"lost\":12,\"duration_ns\":99,\"reason\":\"over\"}]");
}

static void a_summary_says_what_was_left_out(void **state)
{
	struct fixture *f = *state;

	f->sink->ops->summary(f->sink,
	                      &(struct sink_summary){.pid = 77, .calls = 1, .left_out = 41, .counted = 900, .reason = "over"});
	reads(f, "[{\"type\":\"summary\",\"pid\":77,\"calls\":1,\"lost\":0,\"left_out\":41,\"counted\":900,\"duration_ns\":0,"
	         "\"reason\":\"over\"}]");
}

static void a_line_is_no_call(void **state)
{
	struct fixture *f = *state;

	line(f, 1, "shop.rb:7");
	fiber(f, 1, 100, "main");
	event(f, EVENT_CALL, 0, 1, 1, 3, "1", "2");
	fixture_output(f);
	f->sink->ops->summary(f->sink, &(struct sink_summary){.pid = 77, .lines = 1, .reason = "over"});
	reads(f, "[{\"type\":\"line\",\"pid\":77,\"thread\":100,\"thread_name\":\"main\",\"fiber\":1,\"method\":\"Shop#sell\","
	         "\"class\":\"Shop\",\"name\":\"sell\",\"depth\":0,\"time_ns\":3000,\"values\":{\"num\":\"1\",\"sum\":\"2\"},"
	         "\"file\":\"/srv/shop.rb\",\"line\":7},"
	         "{\"type\":\"summary\",\"pid\":77,\"calls\":0,\"lines\":1,\"lost\":0,\"duration_ns\":0,\"reason\":\"over\"}]");
}

static void a_slow_call_that_runs_is_told_once(void **state)
{
	struct fixture *f = *state;

	f->sink->style.running = true;
	method(f, 1, "Shop", "sell");
	fiber(f, 1, 100, "");
	fiber(f, 2, 200, "");
	event(f, EVENT_START, 0, 1, 1, 1, "a", NULL);
	event(f, EVENT_START, 0, 1, 1, 2, "b", NULL);
	event(f, EVENT_START, 0, 1, 2, 3, NULL, NULL);
	event(f, EVENT_END, ENDING_RETURNED, 1, 2, 4, NULL, NULL);
	fixture_output(f);
	assert_true(f->sink->ops->holds(f->sink));
	f->sink->ops->quiet(f->sink);
	assert_false(f->sink->ops->holds(f->sink));
	event(f, EVENT_END, ENDING_RETURNED, 1, 1, 5, NULL, NULL);
	fixture_output(f);
	assert_false(f->sink->ops->holds(f->sink));
	reads(f, "[{\"type\":\"call\",\"pid\":77,\"thread\":200,\"fiber\":2,\"method\":\"Shop#sell\",\"class\":\"Shop\","
	         "\"name\":\"sell\",\"depth\":0,\"start_ns\":3000,\"duration_ns\":1000,\"ended\":\"returned\"},"
	         "{\"type\":\"running\",\"pid\":77,\"thread\":100,\"fiber\":1,\"method\":\"Shop#sell\",\"class\":\"Shop\","
	         "\"name\":\"sell\",\"depth\":0,\"start_ns\":1000,\"values\":{\"self\":\"a\"}},"
	         "{\"type\":\"running\",\"pid\":77,\"thread\":100,\"fiber\":1,\"method\":\"Shop#sell\",\"class\":\"Shop\","
	         "\"name\":\"sell\",\"depth\":1,\"start_ns\":2000,\"values\":{\"self\":\"b\"}},"
	         "{\"type\":\"call\",\"pid\":77,\"thread\":100,\"fiber\":1,\"method\":\"Shop#sell\",\"class\":\"Shop\","
	         "\"name\":\"sell\",\"depth\":1,\"start_ns\":2000,\"values\":{\"self\":\"b\"},\"duration_ns\":3000,"
	         "\"ended\":\"returned\"}]");
}

static void a_fiber_and_a_method_may_be_described_anew(void **state)
{
	struct fixture *f = *state;
	json_t *all;

	for (int i = 0; i < 2; i++) {
		method(f, 1, "Shop", i ? "buy" : "sell");
		fiber(f, 1, 100, i ? "clerk" : "");
		whole(f, ENDING_RETURNED, 1, 1, 2, 3, NULL, NULL);
	}
	all = lines(f);
	assert_null(json_object_get(json_array_get(all, 0), "thread_name"));
	assert_string_equal(json_string_value(json_object_get(json_array_get(all, 1), "thread_name")), "clerk");
	assert_string_equal(json_string_value(json_object_get(json_array_get(all, 1), "method")), "Shop#buy");
	json_decref(all);
}

static void labels_that_are_the_same_give_one_member(void **state)
{
	static const struct slice labels[] = {SLICE("self"), SLICE("@a"), SLICE("self")};
	struct fixture *f = *state;
	struct record record = {.kind = RECORD_METHOD,
	                        .method = {.ref = 1,
	                                   .class_name = SLICE("A"),
	                                   .separator = '.',
	                                   .method_name = SLICE("b"),
	                                   .label_count = 3,
	                                   .labels = labels}};
	json_t *all, *values;

	record_encode(&f->records, &record);
	fiber(f, 1, 100, "");
	batch_of_one(f,
	             &(struct batch_event){.kind = EVENT_CALL, .method = 1, .fiber = 1, .values = SLICE("\x93\xa1x\xa1y\xa1z")});
	all = lines(f);
	values = json_object_get(json_array_get(all, 0), "values");
	assert_int_equal(json_object_size(values), 2);
	assert_string_equal(json_string_value(json_object_get(values, "self")), "z");
	assert_string_equal(json_string_value(json_object_get(values, "@a")), "y");
	json_decref(all);
}

static void local_variables_are_an_object_of_their_own(void **state)
{
	static const struct slice names[] = {SLICE("sum"), SLICE("gone"), SLICE("last")};
	struct fixture *f = *state;
	struct record record = {.kind = RECORD_METHOD,
	                        .method = {.ref = 1,
	                                   .class_name = SLICE("A"),
	                                   .separator = '.',
	                                   .method_name = SLICE("b"),
	                                   .local_count = 3,
	                                   .locals = names}};
	struct slice outcome = SLICE("\x92\xa1r\x93\xa1x\xc0\xa1y");
	json_t *all, *locals;

	record_encode(&f->records, &record);
	fiber(f, 1, 100, "");
	batch_of_one(f, &(struct batch_event){.kind = EVENT_CALL, .method = 1, .fiber = 1, .outcome = outcome});
	all = lines(f);
	assert_string_equal(json_string_value(json_object_get(json_array_get(all, 0), "result")), "r");
	locals = json_object_get(json_array_get(all, 0), "locals");
	assert_int_equal(json_object_size(locals), 2);
	assert_string_equal(json_string_value(json_object_get(locals, "sum")), "x");
	assert_string_equal(json_string_value(json_object_get(locals, "last")), "y");
	assert_null(json_object_get(json_array_get(all, 0), "values"));
	json_decref(all);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_close)
	const struct CMUnitTest tests[] = {
		TEST(a_call_is_one_object),
		TEST(a_mark_is_one_object),
		TEST(phases_of_a_collection_are_null_where_they_are_not_known),
		TEST(what_is_open_lost_and_over),
		TEST(a_summary_says_what_was_left_out),
		TEST(a_slow_call_that_runs_is_told_once),
		TEST(a_line_is_no_call),
		TEST(a_fiber_and_a_method_may_be_described_anew),
		TEST(labels_that_are_the_same_give_one_member),
		TEST(local_variables_are_an_object_of_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
