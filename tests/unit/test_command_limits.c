/* Commands: what is as large as it may be is taken, and nothing larger. */

#include "command_fixture.h"

#include <stdlib.h>

static void conditions_have_limits(void **state)
{
	static char text[EXPRESSION_SIZE_MAX + 1];
	struct selector selector = {SLICE("A"), '#', SLICE("b"), 0, NULL, ROLE_COUNT, 0, 0, 0, false};
	const struct conditions cases[] = {
		{.slow_ns = UINT64_MAX / 2 + 1},
		{.slow_cpu_ns = UINT64_MAX},
		{.raised = {text, NAME_SIZE_MAX + 1}},
		{.thread = {text, NAME_SIZE_MAX + 1}},
		{.expression = {text, EXPRESSION_SIZE_MAX + 1}},
	};
	struct command command = {.kind = COMMAND_TRACE, .id = 1};

	(void)state;
	memset(text, 'x', sizeof(text));
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		command.options.conditions = cases[i];
		msgpack_sbuffer_clear(&buffer);
		command_encode(&buffer, &command);
		refused("conditions: field");
	}
	command.options.conditions = (struct conditions){0};
	command.selector_count = 1;
	command.selectors = &selector;
	msgpack_sbuffer_clear(&buffer);
	command_encode(&buffer, &command);
	refused("selector: field 5 is too large");
	selector.role = ROLE_SHOWN;
	selector.set = SELECTOR_SETS_MAX + 1;
	msgpack_sbuffer_clear(&buffer);
	command_encode(&buffer, &command);
	refused("selector: field 7 is too large");
}

static void as_many_selectors_as_allowed_and_not_one_more(void **state)
{
	struct selector *selectors = calloc(SELECTORS_MAX + 1, sizeof(*selectors));
	struct command command = {.kind = COMMAND_METHODS, .id = 1, .selector_count = SELECTORS_MAX, .selectors = selectors};

	(void)state;
	assert_non_null(selectors);
	for (size_t i = 0; i <= SELECTORS_MAX; i++)
		selectors[i] = (struct selector){SLICE("A"), '#', SLICE("b"), 0, NULL, ROLE_SHOWN, 0, 0, 0, false};
	assert_int_equal(passed(&command).selector_count, SELECTORS_MAX);
	msgpack_sbuffer_clear(&buffer);
	command.selector_count++;
	command_encode(&buffer, &command);
	refused("has too many elements");
	free(selectors);
}

/* A METHODS command with one selector, of which one part has the given size. */
static void encode_sized(size_t class_size, size_t method_size, size_t expression_size, uint32_t expression_count)
{
	static char text[EXPRESSION_SIZE_MAX + 1];
	struct slice expressions[EXPRESSIONS_MAX + 1];
	struct selector selector = {
		{text, class_size}, '#', {text, method_size}, expression_count, expressions, ROLE_SHOWN, 0, 0, 0, false};
	struct command command = {.kind = COMMAND_METHODS, .id = 1, .selector_count = 1, .selectors = &selector};

	memset(text, 'x', sizeof(text));
	for (size_t i = 0; i < expression_count; i++)
		expressions[i] = (struct slice){text, expression_size};
	msgpack_sbuffer_clear(&buffer);
	command_encode(&buffer, &command);
}

static void every_text_has_its_limit(void **state)
{
	static const struct {
		size_t class_size, method_size, expression_size;
		uint32_t expression_count;
		const char *refusal;
	} cases[] = {
		{NAME_SIZE_MAX, NAME_SIZE_MAX, EXPRESSION_SIZE_MAX, EXPRESSIONS_MAX, NULL},
		{NAME_SIZE_MAX + 1, 1, 1, 1, "selector: field 1 is too long"},
		{1, NAME_SIZE_MAX + 1, 1, 1, "selector: field 3 is too long"},
		{1, 1, EXPRESSION_SIZE_MAX + 1, 1, "expression"},
		{1, 1, 1, EXPRESSIONS_MAX + 1, "selector: field 4 has too many elements"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct command command;
		struct error err;

		encode_sized(cases[i].class_size, cases[i].method_size, cases[i].expression_size, cases[i].expression_count);
		if (cases[i].refusal)
			refused(cases[i].refusal);
		else
			assert_int_equal(decode(&command, &err), 0);
	}
}

static void a_socket_path_that_no_socket_can_have_is_refused(void **state)
{
	char path[SOCKET_PATH_MAX + 1];
	struct command command = {.kind = COMMAND_ATTACH, .id = 1};

	(void)state;
	memset(path, '/', sizeof(path));
	command.attach.socket_path = (struct slice){path, SOCKET_PATH_MAX};
	assert_int_equal(passed(&command).attach.socket_path.size, SOCKET_PATH_MAX);
	msgpack_sbuffer_clear(&buffer);
	command.attach.socket_path.size++;
	command_encode(&buffer, &command);
	refused("is too long");
}

static void numbers_have_limits(void **state)
{
	static const struct {
		enum engine_id engine;
		uint32_t overflow, value_size, value_depth, value_length;
	} cases[] = {
		{ENGINE_COUNT, 0, 1, 1, 1}, {0, OVERFLOW_BLOCK + 1, 1, 1, 1}, {0, 0, VALUE_SIZE_MAX + 1, 1, 1},
		{0, 0, 1, 65, 1},           {0, 0, 1, 1, VALUE_SIZE_MAX + 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct command command = {.kind = COMMAND_TRACE, .id = 1};

		command.options.engine = cases[i].engine;
		command.options.overflow = (enum overflow_policy)cases[i].overflow;
		command.options.value_size = cases[i].value_size;
		command.options.value_depth = cases[i].value_depth;
		command.options.value_length = cases[i].value_length;
		msgpack_sbuffer_clear(&buffer);
		command_encode(&buffer, &command);
		refused("is too large");
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(conditions_have_limits),   TEST(as_many_selectors_as_allowed_and_not_one_more),
		TEST(every_text_has_its_limit), TEST(a_socket_path_that_no_socket_can_have_is_refused),
		TEST(numbers_have_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
