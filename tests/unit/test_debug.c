/* RBPROBE_DEBUG: which domains a text names, and where lines go. */

#define _GNU_SOURCE
#include "stderr_fixture.h"
#include "tracer/base/debug.h"
#include "unit.h"

#include <errno.h>
#include <stdlib.h>

static int setup(void **state)
{
	(void)state;
	debug_wanted = 0;
	return stderr_begin();
}

static int teardown(void **state)
{
	(void)state;
	debug_divert(NULL);
	stderr_end();
	return 0;
}

static uint32_t parsed(const char *text)
{
	struct error err = {0};
	uint32_t domains = UINT32_MAX;

	if (debug_parse(text, &domains, &err) != 0)
		fail_msg("refused: %s", err.text);
	return domains;
}

static void domains_by_their_names(void **state)
{
	(void)state;
	assert_int_equal(parsed(NULL), 0);
	assert_int_equal(parsed(""), 0);
	assert_int_equal(parsed("load"), DEBUG_LOAD);
	assert_int_equal(parsed("load,engine"), DEBUG_LOAD | DEBUG_ENGINE);
	assert_int_equal(parsed(" load, engine,,load "), DEBUG_LOAD | DEBUG_ENGINE);
	assert_int_equal(parsed("all"), 0xff);
	assert_int_equal(parsed("eval,all"), 0xff);
}

static void an_unknown_name_is_one_error_and_no_domain(void **state)
{
	static const char *const wrong[] = {"lod", "LOAD", "loads", "loa", "load,lod", "all,lod", "load;engine"};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct error err = {0};
		uint32_t domains = UINT32_MAX;

		assert_int_equal(debug_parse(wrong[i], &domains, &err), -EINVAL);
		assert_error(&err, -EINVAL, "RBPROBE_DEBUG: there is no domain \"");
		assert_int_equal(domains, 0);
	}
}

static int evaluations;

static int evaluated(void)
{
	return ++evaluations;
}

static void a_domain_that_is_not_wanted_costs_no_evaluation(void **state)
{
	(void)state;
	evaluations = 0;
	debug_wanted = DEBUG_QUEUE;
	debug(DEBUG_LOAD, "number %d", evaluated());
	assert_int_equal(evaluations, 0);
	assert_string_equal(stderr_take(), "");
	debug(DEBUG_QUEUE, "number %d", evaluated());
	assert_int_equal(evaluations, 1);
	assert_string_equal(stderr_take(), "rbprobe: debug queue: number 1\n");
}

static void a_line_of_a_process_is_printable_and_only_of_a_wanted_domain(void **state)
{
	(void)state;
	debug_wanted = DEBUG_ENGINE;
	debug_from_process(12, 3, SLICE("not asked for"));
	debug_from_process(12, 32, SLICE("of no domain"));
	debug_from_process(12, UINT32_MAX, SLICE("of no domain"));
	debug_from_process(12, 6, SLICE("A#b\033[2J"));
	assert_string_equal(stderr_take(), "rbprobe: debug engine: from process 12: A#b\\x1b[2J\n");
}

static void lines_of_a_child_are_shown_by_its_parent(void **state)
{
	struct debug_lines *lines = calloc(1, sizeof(*lines));

	(void)state;
	assert_non_null(lines);
	debug_wanted = DEBUG_LOAD;
	debug_divert(lines);
	debug(DEBUG_LOAD, "one");
	debug(DEBUG_LOAD, "two");
	assert_string_equal(stderr_take(), "");
	debug_divert(NULL);
	debug_show(lines);
	assert_string_equal(stderr_take(), "rbprobe: debug load: one\nrbprobe: debug load: two\n");
	free(lines);
}

static void lines_that_find_no_room_are_counted(void **state)
{
	struct debug_lines *lines = calloc(1, sizeof(*lines));
	unsigned count = 0;

	(void)state;
	assert_non_null(lines);
	debug_wanted = DEBUG_LOAD;
	debug_divert(lines);
	while (!lines->left_out && count < 10000)
		debug(DEBUG_LOAD, "%04u %0100d", count++, 0);
	assert_true(count > 100 && count < 10000);
	assert_true(lines->used <= sizeof(lines->bytes));
	debug_divert(NULL);
	debug_show(lines);
	assert_non_null(strstr(stderr_take(), "rbprobe: debug: 1 more lines found no room\n"));
	free(lines);
}

/* What a child that was hit in the middle may have left. */
static void no_line_is_read_beyond_the_memory(void **state)
{
	struct debug_lines *lines = calloc(1, sizeof(*lines));

	(void)state;
	assert_non_null(lines);
	memset(lines->bytes, 'x', sizeof(lines->bytes));
	lines->used = UINT32_MAX;
	debug_show(lines);
	assert_non_null(strstr(stderr_take(), "rbprobe: xxxx"));
	free(lines);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(domains_by_their_names),
		TEST(an_unknown_name_is_one_error_and_no_domain),
		TEST(a_domain_that_is_not_wanted_costs_no_evaluation),
		TEST(a_line_of_a_process_is_printable_and_only_of_a_wanted_domain),
		TEST(lines_of_a_child_are_shown_by_its_parent),
		TEST(lines_that_find_no_room_are_counted),
		TEST(no_line_is_read_beyond_the_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
