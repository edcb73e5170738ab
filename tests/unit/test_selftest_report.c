/* Self-tests, shown: what holds, what does not and what is refused for it, and answers that nobody should send. */

#include "answer_fixture.h"
#include "tracer/commands/selftest_report.h"

#include <jansson.h>

struct assumption {
	const char *name, *state, *reason;
};

static void pair(const char *key, const char *value)
{
	answer_text(key);
	answer_text(value);
}

static const msgpack_object *answer(const struct assumption *facts, size_t count)
{
	msgpack_pack_map(&packer, 2);
	pair("ruby", "3.1.2");
	answer_text("facts");
	msgpack_pack_array(&packer, count);
	for (size_t i = 0; i < count; i++) {
		msgpack_pack_map(&packer, facts[i].reason ? 6 : 5);
		pair("name", facts[i].name);
		pair("state", facts[i].state);
		pair("what", "One thing leads to another");
		pair("without", "a third is refused");
		pair("seen", "2.7 3.1");
		if (facts[i].reason)
			pair("reason", facts[i].reason);
	}
	assert_int_equal(msgpack_unpack_next(&unpacked, packed.data, packed.size, NULL), MSGPACK_UNPACK_SUCCESS);
	return &unpacked.data;
}

static void shows(const char *expected)
{
	buffer_add_char(&shown, '\0');
	assert_string_equal(shown.bytes, expected);
}

static const struct assumption mixed[] = {
	{"frames.identity", "ok", NULL},
	{"hook.flags", "failed", "it was not found"},
	{"methods.shared", "not_applicable", "nothing needs it"},
	{"patch.calls", "not_tried", "it stands on those before"},
};

static void a_line_for_each_fact(void **state)
{
	(void)state;
	selftest_report_text(&shown, 77, answer(mixed, 4), false);
	shows("process 77, ruby 3.1.2\n"
	      "ok         frames.identity     One thing leads to another\n"
	      "FAILED     hook.flags          One thing leads to another: it was not found; so a third is refused\n"
	      "n/a        methods.shared      One thing leads to another: nothing needs it\n"
	      "not tried  patch.calls         One thing leads to another: it stands on those before; without it a third is "
	      "refused\n"
	      "1 ok, 1 failed, 1 not applicable, 1 not tried\n");
}

static void verbose_tells_where_each_was_seen(void **state)
{
	(void)state;
	selftest_report_text(&shown, 77, answer(mixed, 1), true);
	shows("process 77, ruby 3.1.2\n"
	      "ok         frames.identity     One thing leads to another (seen on 2.7 3.1)\n"
	      "1 ok, 0 failed\n");
}

static void json_is_one_line(void **state)
{
	json_error_t error;
	json_t *line;

	(void)state;
	selftest_report_json(&shown, 77, answer(mixed, 4));
	assert_ptr_equal(memchr(shown.bytes, '\n', shown.size), shown.bytes + shown.size - 1);
	line = json_loadb(shown.bytes, shown.size, JSON_REJECT_DUPLICATES, &error);
	assert_non_null(line);
	assert_string_equal(json_string_value(json_object_get(line, "type")), "selftest");
	assert_int_equal(json_integer_value(json_object_get(line, "pid")), 77);
	assert_int_equal(json_integer_value(json_object_get(line, "failed")), 1);
	assert_int_equal(json_integer_value(json_object_get(line, "not_applicable")), 1);
	assert_int_equal(json_array_size(json_object_get(line, "facts")), 4);
	json_decref(line);
}

static void failures_in_one_line(void **state)
{
	const struct assumption two[] = {{"a.b", "failed", "x"}, {"c.d", "ok", NULL}, {"e.f", "failed", "y"}};

	(void)state;
	selftest_report_failures(&shown, answer(two, 3));
	shows("a.b, e.f");
}

static void no_failure_is_no_line(void **state)
{
	(void)state;
	selftest_report_failures(&shown, answer(mixed, 1));
	shows("");
}

/* Whatever the target sends, nobody is told that all is well. */
static void what_is_no_state_has_failed(void **state)
{
	const struct assumption odd[] = {{"a.b", "fine\033[0m", NULL}};

	(void)state;
	assert_int_equal(selftest_count(answer(odd, 1)).failed, 1);
}

static void what_is_no_answer_has_no_facts(void **state)
{
	(void)state;
	answer_text("nothing");
	assert_int_equal(msgpack_unpack_next(&unpacked, packed.data, packed.size, NULL), MSGPACK_UNPACK_SUCCESS);
	assert_int_equal(selftest_count(&unpacked.data).facts, 0);
	selftest_report_text(&shown, 77, &unpacked.data, true);
	shows("process 77\n0 ok, 0 failed\n");
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, answer_setup, answer_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_line_for_each_fact),
		TEST(verbose_tells_where_each_was_seen),
		TEST(json_is_one_line),
		TEST(failures_in_one_line),
		TEST(no_failure_is_no_line),
		TEST(what_is_no_state_has_failed),
		TEST(what_is_no_answer_has_no_facts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
