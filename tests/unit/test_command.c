/* Commands: what is encoded is decoded, and everything that breaks a rule or a limit is refused with its reason. */

#include "command_fixture.h"

#include <stddef.h>
#include <stdlib.h>

static void attach_comes_back_as_it_was(void **state)
{
	struct command command = {.kind = COMMAND_ATTACH, .id = 1};
	struct command result;

	(void)state;
	command.attach.version = PROTOCOL_VERSION;
	command.attach.socket_path = SLICE("/tmp/rbprobe-12-Xy/s");
	command.attach.client_pid = 4194303;
	result = passed(&command);
	assert_int_equal(result.attach.version, PROTOCOL_VERSION);
	assert_slice(result.attach.socket_path, "/tmp/rbprobe-12-Xy/s");
	assert_int_equal(result.attach.client_pid, 4194303);
	assert_int_equal(result.attach.debug, 0);
}

/* Who asks for no debug lines sends what every version has sent. */
static void attach_names_debug_domains_only_where_some_are_wanted(void **state)
{
	struct command command = {.kind = COMMAND_ATTACH, .id = 1};
	size_t size;

	(void)state;
	command.attach.socket_path = SLICE("/tmp/s");
	command_encode(&buffer, &command);
	assert_int_equal((uint8_t)buffer.data[0], 0x95); /* an array of five */
	size = buffer.size;
	msgpack_sbuffer_clear(&buffer);
	command.attach.debug = 0x81;
	assert_int_equal(passed(&command).attach.debug, 0x81);
	assert_true(buffer.size > size);
}

static void attach_has_the_clients_command_line(void **state)
{
	struct command command = {.kind = COMMAND_ATTACH, .id = 1}, result;

	(void)state;
	command.attach.socket_path = SLICE("/tmp/s");
	command.attach.command = SLICE("rbprobe bt -p 12");
	result = passed(&command);
	assert_slice(result.attach.command, "rbprobe bt -p 12");
	assert_int_equal(result.attach.debug, 0);
}

static void trace_comes_back_as_it_was(void **state)
{
	const struct slice expressions[] = {SLICE("self"), SLICE("@total"), SLICE("items.map { |i| \"\xc3\xa9\" + i }")};
	const struct selector selectors[] = {
		{SLICE("Billing::*"), '#', SLICE("*charge*"), 3, expressions, ROLE_SHOWN, SELECTOR_OPTIONAL | SELECTOR_OUTERMOST,
	         SELECTOR_SETS_MAX, 0, false},
		{SLICE(""), 0, SLICE("sleep"), 0, NULL, ROLE_SHOWN, 0, 0, 0, false},
		{SLICE("Dir"), '.', SLICE(""), 0, NULL, ROLE_SHOWN, 0, 0, 0, false},
	};
	struct command command = {.kind = COMMAND_TRACE, .id = 2, .selector_count = 3, .selectors = selectors};
	struct command result;

	(void)state;
	command.options = (struct trace_options){
		.flags = TRACE_ARGUMENTS | TRACE_RESULT,
		.engine = ENGINE_HOOK,
		.overflow = OVERFLOW_BLOCK,
		.value_size = VALUE_SIZE_MAX,
		.value_depth = 3,
		.value_length = 16,
		.expression_timeout_ms = 250,
		.work_limit_ms = 90000,
	};
	result = passed(&command);
	assert_memory_equal(&result.options, &command.options, offsetof(struct trace_options, conditions));
	assert_false(conditions_any(&result.options.conditions));
	assert_int_equal(result.selector_count, 3);
	assert_slice(result.selectors[0].class_pattern, "Billing::*");
	assert_int_equal(result.selectors[0].separator, '#');
	assert_slice(result.selectors[0].method_pattern, "*charge*");
	assert_int_equal(result.selectors[0].flags, SELECTOR_OPTIONAL | SELECTOR_OUTERMOST);
	assert_int_equal(result.selectors[0].set, SELECTOR_SETS_MAX);
	assert_int_equal(result.selectors[1].flags, 0);
	assert_int_equal(result.selectors[1].set, 0);
	assert_int_equal(result.selectors[0].expression_count, 3);
	for (size_t i = 0; i < 3; i++)
		assert_slice(result.selectors[0].expressions[i], expressions[i].bytes);
	assert_int_equal(result.selectors[1].separator, 0);
	assert_slice(result.selectors[1].class_pattern, "");
	assert_slice(result.selectors[1].method_pattern, "sleep");
	assert_int_equal(result.selectors[1].expression_count, 0);
	assert_int_equal(result.selectors[2].separator, '.');
}

static void conditions_and_roles_come_back(void **state)
{
	const struct selector selectors[] = {
		{SLICE("Order"), '#', SLICE("save"), 0, NULL, ROLE_SHOWN, 0, 0, 0, false},
		{SLICE("Api"), '#', SLICE("call"), 0, NULL, ROLE_WITHIN, 0, 0, 0, false},
		{SLICE("Health"), '#', SLICE("check"), 0, NULL, ROLE_OUTSIDE, 0, 0, 0, false},
	};
	struct command command = {.kind = COMMAND_TRACE, .id = 2, .selector_count = 3, .selectors = selectors};
	struct command result;

	(void)state;
	assert_false(conditions_any(&command.options.conditions));
	command.options.stack_frames = STACK_FRAMES_MAX;
	command.options.key = (struct slice)SLICE("sql.size");
	command.options.marks = (struct mark_options){.kinds = 1u << MARK_RAISE | 1u << MARK_ALLOCATION,
	                                              .raise = SLICE("Net::*"),
	                                              .allocations = {{SLICE("Order"), false, 1}, {SLICE("A::B"), true, 50}},
	                                              .allocation_count = 2};
	command.options.conditions = (struct conditions){.slow_ns = UINT64_MAX / 2,
	                                                 .slow_cpu_ns = 7,
	                                                 .every = UINT32_MAX,
	                                                 .rate = 8,
	                                                 .depth = 9,
	                                                 .raised = SLICE("Net::*"),
	                                                 .thread = SLICE("puma*"),
	                                                 .expression = SLICE("count > 3")};
	result = passed(&command);
	assert_true(conditions_any(&result.options.conditions));
	assert_true(result.options.conditions.slow_ns == UINT64_MAX / 2);
	assert_true(result.options.conditions.slow_cpu_ns == 7);
	assert_int_equal(result.options.conditions.every, UINT32_MAX);
	assert_int_equal(result.options.conditions.rate, 8);
	assert_int_equal(result.options.conditions.depth, 9);
	assert_slice(result.options.conditions.raised, "Net::*");
	assert_slice(result.options.conditions.thread, "puma*");
	assert_slice(result.options.conditions.expression, "count > 3");
	assert_int_equal(result.options.marks.kinds, 1u << MARK_RAISE | 1u << MARK_ALLOCATION);
	assert_int_equal(result.options.marks.allocation_count, 2);
	assert_slice(result.options.marks.allocations[1].class, "A::B");
	assert_true(result.options.marks.allocations[1].below);
	assert_int_equal(result.options.marks.allocations[1].every, 50);
	assert_slice(result.options.marks.raise, "Net::*");
	assert_int_equal(result.options.stack_frames, STACK_FRAMES_MAX);
	assert_slice(result.options.key, "sql.size");
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(result.selectors[i].role, i);
}

static void any_exception_is_not_none(void **state)
{
	struct command command = {.kind = COMMAND_TRACE, .id = 2};

	(void)state;
	assert_null(passed(&command).options.conditions.raised.bytes);
	msgpack_sbuffer_clear(&buffer);
	command.options.conditions.raised = SLICE("");
	assert_non_null(passed(&command).options.conditions.raised.bytes);
}

static void methods_and_detach_come_back_as_they_were(void **state)
{
	const struct selector selector = {SLICE("Kernel"), '#', SLICE(""), 0, NULL, ROLE_SHOWN, 0, 0, 0, false};
	struct command methods = {.kind = COMMAND_METHODS, .id = 3, .selector_count = 1, .selectors = &selector};
	struct command detach = {.kind = COMMAND_DETACH, .id = UINT32_MAX};
	struct command result;

	(void)state;
	methods.options.engine = ENGINE_TARGET;
	methods.options.work_limit_ms = 90000;
	result = passed(&methods);
	assert_int_equal(result.options.engine, ENGINE_TARGET);
	assert_int_equal(result.options.work_limit_ms, 90000);
	assert_slice(result.selectors[0].class_pattern, "Kernel");
	msgpack_sbuffer_clear(&buffer);
	passed(&detach);
}

static void a_request_comes_back_as_it_was(void **state)
{
	struct command command = {.id = 9};
	struct command result;

	(void)state;
	command.arguments.flags = EVAL_MAIN | EVAL_PARTIAL;
	command.arguments.number = UINT64_MAX;
	command.arguments.timeout_ms = UINT32_MAX;
	command.arguments.name = SLICE("(file)");
	command.arguments.text = SLICE("1 +\n1");
	for (command.kind = COMMAND_EVAL; command.kind < COMMAND_COUNT; command.kind++) {
		result = passed(&command);
		assert_int_equal(result.arguments.flags, EVAL_MAIN | EVAL_PARTIAL);
		assert_true(result.arguments.number == UINT64_MAX);
		assert_int_equal(result.arguments.timeout_ms, UINT32_MAX);
		assert_slice(result.arguments.name, "(file)");
		assert_slice(result.arguments.text, "1 +\n1");
		msgpack_sbuffer_clear(&buffer);
	}
}

static void a_separator_is_one_of_three(void **state)
{
	const struct selector selector = {SLICE("A"), '/', SLICE("b"), 0, NULL, ROLE_SHOWN, 0, 0, 0, false};
	struct command command = {.kind = COMMAND_METHODS, .id = 1, .selector_count = 1, .selectors = &selector};

	(void)state;
	command_encode(&buffer, &command);
	refused("is neither 0 nor '#' nor '.' nor ':'");
}

static void a_line_has_a_file_and_a_number(void **state)
{
	static const struct selector wrong[] = {
		{SLICE("a.rb"), ':', SLICE("b"), 0, NULL, ROLE_SHOWN, 0, 0, 0, false},
		{SLICE("a.rb"), ':', SLICE("0"), 0, NULL, ROLE_SHOWN, 0, 0, 0, false},
		{SLICE("a.rb"), ':', SLICE("1234567890"), 0, NULL, ROLE_SHOWN, 0, 0, 0, false},
		{SLICE(""), ':', SLICE("1"), 0, NULL, ROLE_SHOWN, 0, 0, 0, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct command command = {.kind = COMMAND_METHODS, .id = 1, .selector_count = 1, .selectors = &wrong[i]};

		msgpack_sbuffer_clear(&buffer);
		command_encode(&buffer, &command);
		refused("is not the number of a line of a file");
	}
}

static void other_shapes_are_refused(void **state)
{
	(void)state;
	refused("not one msgpack value"); /* nothing at all */
	msgpack_pack_int(&packer, 1);
	refused("not an array");
	msgpack_pack_int(&packer, 1);
	refused("not one msgpack value"); /* two values */

	msgpack_sbuffer_clear(&buffer);
	msgpack_pack_array(&packer, 0);
	refused("field 1 is missing");

	msgpack_sbuffer_clear(&buffer);
	msgpack_pack_array(&packer, 2);
	msgpack_pack_int(&packer, COMMAND_DETACH);
	msgpack_pack_int(&packer, -1);
	refused("field 2 is not an unsigned integer");

	msgpack_sbuffer_clear(&buffer);
	msgpack_pack_array(&packer, 4);
	msgpack_pack_int(&packer, COMMAND_METHODS);
	msgpack_pack_int(&packer, 1);
	msgpack_pack_int(&packer, 0);
	msgpack_pack_array(&packer, 1);
	msgpack_pack_nil(&packer);
	refused("malformed selector: not an array");
}

static void an_unknown_command_can_still_be_answered(void **state)
{
	struct command command;
	struct error err;

	(void)state;
	msgpack_pack_array(&packer, 2);
	msgpack_pack_int(&packer, 99);
	msgpack_pack_int(&packer, 1234);
	assert_int_equal(decode(&command, &err), -EPROTO);
	assert_error(&err, -EPROTO, "no command 99");
	assert_int_equal(command.kind, 99);
	assert_int_equal(command.id, 1234);
}

static void fields_of_a_later_version_are_ignored(void **state)
{
	struct command command;
	struct error err;

	(void)state;
	msgpack_pack_array(&packer, 3);
	msgpack_pack_int(&packer, COMMAND_DETACH);
	msgpack_pack_int(&packer, 5);
	msgpack_pack_nil(&packer);
	assert_int_equal(decode(&command, &err), 0);
	assert_int_equal(command.id, 5);
}

static void a_command_cut_anywhere_is_refused(void **state)
{
	const struct slice expression = SLICE("items.size");
	const struct selector selector = {SLICE("A"), '#', SLICE("b"), 1, &expression, ROLE_SHOWN, 0, 0, 0, false};
	struct command command = {.kind = COMMAND_TRACE, .id = 1, .selector_count = 1, .selectors = &selector};
	struct error err;

	(void)state;
	command_encode(&buffer, &command);
	for (size_t size = 0; size < buffer.size; size++) {
		/* A copy of just that size, so that a sanitizer sees what is read behind it. */
		uint8_t *part = malloc(size ? size : 1);

		assert_non_null(part);
		memcpy(part, buffer.data, size);
		assert_int_equal(command_decode(&command, part, size, zone, &err), -EPROTO);
		free(part);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(attach_comes_back_as_it_was),
		TEST(attach_names_debug_domains_only_where_some_are_wanted),
		TEST(attach_has_the_clients_command_line),
		TEST(trace_comes_back_as_it_was),
		TEST(conditions_and_roles_come_back),
		TEST(any_exception_is_not_none),
		TEST(methods_and_detach_come_back_as_they_were),
		TEST(a_request_comes_back_as_it_was),
		TEST(a_separator_is_one_of_three),
		TEST(a_line_has_a_file_and_a_number),
		TEST(other_shapes_are_refused),
		TEST(an_unknown_command_can_still_be_answered),
		TEST(fields_of_a_later_version_are_ignored),
		TEST(a_command_cut_anywhere_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
