/* Written JSON: commas, numbers and any text at all, against what another parser reads and another writer makes of it. */

#include "buffer_fixture.h"
#include "tracer/base/json.h"
#include "tracer/base/value.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

static void commas_come_by_themselves(void **state)
{
	struct buffer *to = &buffer;

	(void)state;
	for (int line = 0; line < 2; line++) {
		json_open_object(to);
		json_member_uint(to, "a", 1);
		json_open_array(json_key(to, "list"));
		json_add_null(to);
		json_add_bool(to, false);
		json_open_array(to);
		json_close_array(to);
		json_open_object(to);
		json_close_object(to);
		json_open_object(to);
		json_member_string(to, "b", "{[:,");
		json_member_seconds(to, "c", 1500000000);
		json_close_object(to);
		json_add_string(to, "");
		json_close_array(to);
		json_open_object(json_key(to, "empty"));
		json_close_object(to);
		json_member_bool(to, "last", true);
		json_close_line(to);
	}
#define LINE "{\"a\":1,\"list\":[null,false,[],{},{\"b\":\"{[:,\",\"c\":1.500000},\"\"],\"empty\":{},\"last\":true}\n"
	assert_added(LINE LINE);
}

static void members_are_prepared_and_joined(void **state)
{
	struct buffer part = {0}, nothing = {0};

	(void)state;
	json_member_uint(&part, "a", 1);
	json_key(&part, "b");
	json_open_object(&buffer);
	json_add_members(&buffer, &nothing);
	json_add_members(&buffer, &part);
	json_add_uint(&buffer, 2);
	json_add_members(&buffer, &part);
	json_add_uint(&buffer, 3);
	json_close_object(&buffer);
	assert_added("{\"a\":1,\"b\":2,\"a\":1,\"b\":3}");
	buffer_free(&part);
}

static void numbers(void **state)
{
	static const double reals[] = {0.0, -0.0, 1.0, -2.5, 0.1, 1e15, 1e16, 1e17, 1e22, -1e-5, 1.5e300, 5e-324, 100, 1e100};

	(void)state;
	json_add_int(&buffer, INT64_MIN);
	json_add_int(&buffer, 7);
	json_add_uint(&buffer, UINT64_MAX);
	json_add_real(&buffer, NAN);
	json_add_real(&buffer, -INFINITY);
	assert_added("-9223372036854775808,7,18446744073709551615,null,null");
	for (size_t i = 0; i < sizeof(reals) / sizeof(*reals); i++) {
		json_t *oracle = json_real(reals[i]);
		char *dumped = json_dumps(oracle, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));

		json_add_real(&buffer, reals[i]);
		assert_added(dumped);
		free(dumped);
		json_decref(oracle);
	}
}

static void text(const char *bytes, size_t size, const char *expected)
{
	json_add_text(&buffer, (struct slice){bytes, size});
	assert_added(expected);
}

static void what_a_terminal_must_not_be_shown_is_escaped(void **state)
{
	(void)state;
	text("", 0, "\"\"");
	text("a\"b\\c", 5, "\"a\\\"b\\\\c\"");
	text("\n\t", 2, "\"\\n\\t\"");
	text("\0\033", 2, "\"\\u0000\\u001B\"");
	text("\x7f", 1, "\"\\u007F\"");
	text("\xc3\xa9", 2, "\"\xc3\xa9\"");
	text("\xff", 1, "\"\xef\xbf\xbd\"");
	text("\xe2\x80\xae", 3, "\"\\u202E\"");
	json_key_text(&buffer, (struct slice){"a\"", 2});
	assert_added("\"a\\\"\":");
}

/* Every byte and every kind of UTF-8, valid and not. */
static void any_text_is_a_string(void **state)
{
	static const struct {
		struct slice given, expected;
	} texts[] = {
		{SLICE("\"\\/\b\f\n\r\t\x01\x1f"), SLICE("\"\\/\b\f\n\r\t\x01\x1f")},
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
		json_t *value, *oracle = json_stringn(texts[i].expected.bytes, texts[i].expected.size);
		char *dumped = json_dumps(oracle, JSON_ENCODE_ANY);
		struct slice read;

		json_add_text(&buffer, texts[i].given);
		value = json_loadb(buffer.bytes, buffer.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
		assert_non_null(value);
		read = (struct slice){json_string_value(value), json_string_length(value)};
		assert_int_equal(read.size, texts[i].expected.size);
		assert_memory_equal(read.bytes, texts[i].expected.bytes, read.size);
		assert_added(dumped);
		free(dumped);
		json_decref(value);
		json_decref(oracle);
	}
}

static void bytes_at_random_are_strings(void **state)
{
	uint32_t random = 1;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		char bytes[24];
		json_t *value;

		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (char)((random = random * 1664525 + 1013904223) >> 24);
		buffer.size = 0;
		json_add_text(&buffer, (struct slice){bytes, (random >> 8) % sizeof(bytes)});
		value = json_loadb(buffer.bytes, buffer.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
		assert_non_null(value);
		json_decref(value);
	}
}

/* As a target sends them, keys that are no text included. */
static void values_of_a_target(void **state)
{
	static const char bytes[] = "\x88\xa1n\xc0\xa1t\xc3\xa1i\xfe\xa1u\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xa1"
				    "f\xcb\x3f\xe0\0\0\0\0\0\0\xa1"
				    "b\xc4\x02\xff\"\xa1l\x92\x01\x80\x07\xa1k";
	msgpack_unpacked unpacked;
	size_t offset = 0;

	(void)state;
	msgpack_unpacked_init(&unpacked);
	assert_int_equal(msgpack_unpack_next(&unpacked, bytes, sizeof(bytes) - 1, &offset), MSGPACK_UNPACK_SUCCESS);
	json_open_object(&buffer);
	value_add_members(&buffer, NULL);
	value_add_members(&buffer, value_get(&unpacked.data, "l"));
	json_member_int(&buffer, "pid", 1);
	value_add_members(&buffer, &unpacked.data);
	value_add_json(json_key(&buffer, "none"), NULL);
	json_close_object(&buffer);
	assert_added("{\"pid\":1,\"n\":null,\"t\":true,\"i\":-2,\"u\":18446744073709551615,\"f\":0.5,\"b\":\"\xef\xbf\xbd\\\"\","
	             "\"l\":[1,{}],\"\":\"k\",\"none\":null}");
	msgpack_unpacked_destroy(&unpacked);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, buffer_teardown)
	const struct CMUnitTest tests[] = {
		TEST(commas_come_by_themselves),
		TEST(members_are_prepared_and_joined),
		TEST(numbers),
		TEST(what_a_terminal_must_not_be_shown_is_escaped),
		TEST(any_text_is_a_string),
		TEST(bytes_at_random_are_strings),
		TEST(values_of_a_target),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
