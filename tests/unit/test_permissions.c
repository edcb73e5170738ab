/* What the application has to allow for a command, and what is said where it does not. */

#include "unit.h"

#include <errno.h>

#include "tracee/session/permissions.h"

#define TRACE (1u << PERMIT_TRACE)
#define EVAL (1u << PERMIT_EVAL)

static int allow_all(void **state)
{
	(void)state;
	permissions_set(PERMISSIONS_ALL);
	permissions_take_change();
	return 0;
}

static uint32_t needed_for(const char *expression, bool strict)
{
	struct slice text = {expression, strlen(expression)};
	struct selector selector = {.method_pattern = SLICE("save"), .expression_count = 1, .expressions = &text};
	struct command command = {.kind = COMMAND_TRACE, .selector_count = 1, .selectors = &selector};

	return permissions_needed(&command, strict);
}

static void every_command_needs_one_but_those_of_the_session_itself(void **state)
{
	static const char *const names[] = {
		[COMMAND_TRACE] = "trace",         [COMMAND_METHODS] = "trace",  [COMMAND_STATISTICS] = "trace",
		[COMMAND_EVAL] = "eval",           [COMMAND_COMPLETE] = "eval",  [COMMAND_LIST] = "eval",
		[COMMAND_ENTER] = "eval",          [COMMAND_SOURCE] = "eval",    [COMMAND_HEAP_DUMP] = "heap",
		[COMMAND_BACKTRACE] = "backtrace", [COMMAND_MEMORY] = "memory",  [COMMAND_FORK] = "fork",
		[COMMAND_SELFTEST] = "selftest",   [COMMAND_VERSIONS] = "trace", [COMMAND_PROFILE] = "backtrace",
		[COMMAND_FRAMES] = "backtrace",
	};

	(void)state;
	for (int kind = COMMAND_ATTACH; kind < COMMAND_COUNT; kind++) {
		struct command command = {.kind = (enum command_kind)kind};
		uint32_t needed = permissions_needed(&command, true);

		if (kind == COMMAND_ATTACH || kind == COMMAND_DETACH || kind == COMMAND_CANCEL) {
			assert_int_equal(needed, 0);
			continue;
		}
		/* A new command: name in permissions.c what it needs. */
		assert_true((size_t)kind < sizeof(names) / sizeof(names[0]) && names[kind]);
		assert_string_equal(permission_name((enum permission)__builtin_ctz(needed)), names[kind]);
		assert_int_equal(needed & (needed - 1), 0);
	}
}

static void a_command_that_nobody_knows_needs_all(void **state)
{
	struct command command = {.kind = COMMAND_COUNT};

	(void)state;
	assert_int_equal(permissions_needed(&command, true), PERMISSIONS_ALL);
}

static void variables_are_no_code(void **state)
{
	static const char *const variables[] = {"self", "__source__", "@total", "it: @total", "me: self"};

	(void)state;
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		assert_int_equal(needed_for(variables[i], true), TRACE);
}

static void a_word_may_be_a_call(void **state)
{
	static const char *const words[] = {"total", "it: total", "&block"};

	(void)state;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		assert_int_equal(needed_for(words[i], false), TRACE);
		assert_int_equal(needed_for(words[i], true), TRACE | EVAL);
	}
}

static void all_else_is_code(void **state)
{
	static const char *const code[] = {"total.to_s", "exit!",   "@total = 1", "@@all",  "$0", "self.class",
	                                   "(self)",     "Order",   "1 + 1",      "self;x", "@",  "@1",
	                                   "a\nb",       "it: a.b", "selfish?",   ""};

	(void)state;
	for (size_t i = 0; i < sizeof(code) / sizeof(code[0]); i++)
		assert_int_equal(needed_for(code[i], true), TRACE | EVAL);
	assert_int_equal(needed_for("total.to_s", false), TRACE | EVAL);
	assert_int_equal(needed_for("a\nb", false), TRACE | EVAL);
}

static void conditions_keys_and_inspect_are_code(void **state)
{
	struct command inspect = {.kind = COMMAND_TRACE, .options = {.flags = TRACE_ARGUMENTS | TRACE_INSPECT}};
	struct command plain = {.kind = COMMAND_TRACE, .options = {.flags = TRACE_ARGUMENTS | TRACE_RESULT | TRACE_IVARS}};
	struct command condition = {.kind = COMMAND_TRACE, .options = {.conditions = {.expression = SLICE("item")}}};
	struct command key = {.kind = COMMAND_TRACE, .options = {.key = SLICE("item.class")}};

	(void)state;
	assert_int_equal(permissions_needed(&condition, false), TRACE | EVAL);
	assert_int_equal(permissions_needed(&key, false), TRACE | EVAL);
	assert_int_equal(permissions_needed(&inspect, false), TRACE | EVAL);
	assert_int_equal(permissions_needed(&plain, true), TRACE);
}

static void what_is_missing_is_said(void **state)
{
	struct error err;

	(void)state;
	assert_int_equal(permissions_check(PERMISSIONS_ALL, &err), 0);
	permissions_set(TRACE | 1u << PERMIT_MEMORY);
	assert_int_equal(permissions_check(TRACE, &err), 0);
	assert_true(permissions_check(1u << PERMIT_HEAP, &err) < 0);
	assert_error(&err, -EPERM, "the application does not allow heap (Rbprobe.allow); it allows trace, memory");
	assert_true(permissions_check(TRACE | EVAL, &err) < 0);
	assert_error(&err, -EPERM, "does not allow eval, which expressions, conditions and --inspect need (Rbprobe.allow)");
	permissions_set(0);
	assert_true(permissions_check(TRACE, &err) < 0);
	assert_error(&err, -EPERM, "it allows nothing");
}

static void a_change_is_noticed_once(void **state)
{
	(void)state;
	assert_false(permissions_take_change());
	permissions_set(TRACE);
	assert_true(permission_is_given(PERMIT_TRACE));
	assert_false(permission_is_given(PERMIT_EVAL));
	assert_true(permissions_take_change());
	assert_false(permissions_take_change());
}

#define TEST(name) cmocka_unit_test_setup(name, allow_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_command_needs_one_but_those_of_the_session_itself),
		TEST(a_command_that_nobody_knows_needs_all),
		TEST(variables_are_no_code),
		TEST(a_word_may_be_a_call),
		TEST(all_else_is_code),
		TEST(conditions_keys_and_inspect_are_code),
		TEST(what_is_missing_is_said),
		TEST(a_change_is_noticed_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
