/* The JSON lines, as another JSON parser reads them: every field, any text at all, and what fits into one object. */

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
	f->sink->ops->summary(f->sink, &(struct sink_summary){77, 1, 12, 0, 99, "over"});
	reads(f, "[{\"type\":\"lost\",\"pid\":77,\"calls\":12,\"from_ns\":1000,\"to_ns\":2000},"
	         "{\"type\":\"call\",\"pid\":77,\"thread\":100,\"fiber\":1,\"method\":\"Shop#sell\",\"class\":\"Shop\","
	         "\"name\":\"sell\",\"depth\":0,\"start_ns\":1000,\"values\":{\"self\":\"a\"},\"ended\":\"open\"},"
	         "{\"type\":\"summary\",\"pid\":77,\"calls\":1,\"lost\":12,\"duration_ns\":99,\"reason\":\"over\"}]");
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

/* Every byte and every kind of UTF-8, valid and not, against what jansson makes of the valid part. */
static void any_text_is_a_string(void **state)
{
	static const struct {
		struct slice given, expected;
	} texts[] = {
		{SLICE("\"\\/\b\f\n\r\t\x01\x1f\x7f"), SLICE("\"\\/\b\f\n\r\t\x01\x1f\x7f")},
		{SLICE("a\0b"), SLICE("a\0b")},
		{SLICE("z\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), SLICE("z\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80")},
		{SLICE("\xff"), SLICE("\xef\xbf\xbd")},
		{SLICE("\xe2\x82"), SLICE("\xef\xbf\xbd\xef\xbf\xbd")},
		{SLICE("\xed\xa0\x80"), SLICE("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd")},
		{SLICE("\xc0\x80x"), SLICE("\xef\xbf\xbd\xef\xbf\xbdx")},
		{SLICE(""), SLICE("")},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct buffer buffer = {0}, made = {0};
		json_t *value, *oracle = json_stringn(texts[i].expected.bytes, texts[i].expected.size);
		char *dumped = json_dumps(oracle, JSON_ENCODE_ANY);
		struct slice read;

		buffer_add_json(&buffer, texts[i].given);
		value = json_loadb(buffer.bytes, buffer.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
		assert_non_null(value);
		read = (struct slice){json_string_value(value), json_string_length(value)};
		assert_int_equal(read.size, texts[i].expected.size);
		assert_memory_equal(read.bytes, texts[i].expected.bytes, read.size);
		buffer_add_made_json(&made, dumped, strlen(dumped));
		assert_int_equal(made.size, buffer.size);
		assert_memory_equal(made.bytes, buffer.bytes, buffer.size);
		buffer_free(&made);
		free(dumped);
		json_decref(value);
		json_decref(oracle);
		buffer_free(&buffer);
	}
}

static void bytes_at_random_are_strings(void **state)
{
	uint32_t random = 1;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct buffer buffer = {0};
		char bytes[24];
		json_t *value;

		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (char)((random = random * 1664525 + 1013904223) >> 24);
		buffer_add_json(&buffer, (struct slice){bytes, (random >> 8) % sizeof(bytes)});
		value = json_loadb(buffer.bytes, buffer.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
		assert_non_null(value);
		json_decref(value);
		buffer_free(&buffer);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_close)
	const struct CMUnitTest tests[] = {
		TEST(a_call_is_one_object),
		TEST(what_is_open_lost_and_over),
		TEST(a_fiber_and_a_method_may_be_described_anew),
		TEST(labels_that_are_the_same_give_one_member),
		cmocka_unit_test(any_text_is_a_string),
		cmocka_unit_test(bytes_at_random_are_strings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
