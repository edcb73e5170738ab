/* The rbtrace format, from records to exact lines: lines that go on, trees set apart, and slow calls of which little is known. */

#include "stream_fixture.h"
#include "unit.h"

static int open_plain(void **state)
{
	static const struct sink_style style = {.durations = true, .indent = 3};

	return fixture_open(state, &sink_rbtrace, &style);
}

static int open_slow(void **state)
{
	static const struct sink_style style = {.durations = true, .indent = 3, .running = true};

	return fixture_open(state, &sink_rbtrace, &style);
}

static int open_without_durations(void **state)
{
	static const struct sink_style style = {.indent = 1};

	return fixture_open(state, &sink_rbtrace, &style);
}

static void begins(struct fixture *f, uint32_t method_ref, uint32_t fiber_ref, uint64_t us)
{
	event(f, EVENT_START, ENDING_RETURNED, method_ref, fiber_ref, us, NULL, NULL);
}

static void ends(struct fixture *f, uint32_t method_ref, uint32_t fiber_ref, uint64_t us)
{
	event(f, EVENT_END, ENDING_RETURNED, method_ref, fiber_ref, us, NULL, NULL);
}

static void three_methods(struct fixture *f)
{
	method(f, 1, "Shop", "sell");
	method(f, 2, "Shop", "price");
	method(f, 3, "Shop", "tax");
	fiber(f, 1, 100, "main");
}

static void prints(struct fixture *f, const char *expected)
{
	assert_string_equal(fixture_output(f), expected);
}

/* As whoever looks at a terminal sees it. */
static void a_line_goes_on_when_its_call_ends(void **state)
{
	struct fixture *f = *state;

	three_methods(f);
	begins(f, 1, 1, 0);
	prints(f, "Shop#sell");
	ends(f, 1, 1, 50);
	prints(f, "Shop#sell <0.000050>\n");
}

static void a_tree_is_set_apart(void **state)
{
	struct fixture *f = *state;

	three_methods(f);
	begins(f, 1, 1, 0);
	begins(f, 2, 1, 10);
	ends(f, 2, 1, 30);
	ends(f, 1, 1, 40);
	begins(f, 2, 1, 50);
	ends(f, 2, 1, 60);
	prints(f, "Shop#sell\n"
	          "   Shop#price <0.000020>\n"
	          "Shop#sell <0.000040>\n"
	          "\n"
	          "Shop#price <0.000010>\n"
	          "\n");
}

static void how_a_call_ended_is_not_shown(void **state)
{
	struct fixture *f = *state;

	three_methods(f);
	whole(f, ENDING_RAISED, 2, 1, 40, 30, NULL, "SoldOut");
	prints(f, "Shop#price <0.000030>\n");
}

static void without_durations_a_name_is_all(void **state)
{
	struct fixture *f = *state;

	three_methods(f);
	begins(f, 1, 1, 0);
	begins(f, 2, 1, 10);
	ends(f, 2, 1, 30);
	ends(f, 1, 1, 40);
	prints(f, "Shop#sell\n Shop#price\nShop#sell\n\n");
}

/* Each thread has its own depth and its own times. */
static void threads_are_told_apart(void **state)
{
	struct fixture *f = *state;

	three_methods(f);
	fiber(f, 2, 200, "clerk");
	begins(f, 1, 1, 0);
	begins(f, 2, 2, 10);
	ends(f, 1, 1, 20);
	ends(f, 2, 2, 40);
	prints(f, "[thread 100 \"main\"]\n"
	          "Shop#sell\n"
	          "[thread 200 \"clerk\"]\n"
	          "Shop#price\n"
	          "[thread 100 \"main\"]\n"
	          "Shop#sell <0.000020>\n"
	          "[thread 200 \"clerk\"]\n"
	          "Shop#price <0.000030>\n");
}

/* Calls that ended before they were told to be running come innermost first, and nobody says how deep. */
static void slow_calls_are_below_those_around_them(void **state)
{
	struct fixture *f = *state;

	three_methods(f);
	whole(f, ENDING_RETURNED, 3, 1, 20, 30, NULL, NULL);
	whole(f, ENDING_RETURNED, 2, 1, 10, 50, NULL, NULL);
	prints(f, "");
	whole(f, ENDING_RETURNED, 1, 1, 0, 70, NULL, NULL);
	whole(f, ENDING_RETURNED, 1, 1, 100, 10, NULL, NULL);
	fixture_output(f);
	f->sink->ops->quiet(f->sink);
	prints(f, "      Shop#tax <0.000030>\n"
	          "   Shop#price <0.000050>\n"
	          "Shop#sell <0.000070>\n"
	          "\n"
	          "Shop#sell <0.000010>\n"
	          "\n");
}

static void a_slow_call_that_was_told_to_run_counts_once(void **state)
{
	struct fixture *f = *state;

	three_methods(f);
	begins(f, 1, 1, 0);
	whole(f, ENDING_RETURNED, 2, 1, 10, 50, NULL, NULL);
	ends(f, 1, 1, 70);
	fixture_output(f);
	f->sink->ops->quiet(f->sink);
	prints(f, "   Shop#price <0.000050>\n"
	          "Shop#sell <0.000070>\n");
}

/* Where some methods are shown in any case: slow calls around them do not count, and those inside stand right below them. */
static void slow_calls_among_calls_that_are_all_shown(void **state)
{
	struct fixture *f = *state;

	three_methods(f);
	f->method_flags = METHOD_ALWAYS;
	method(f, 4, "Desk", "open");
	begins(f, 1, 1, 0);
	begins(f, 4, 1, 10);
	whole(f, ENDING_RETURNED, 3, 1, 30, 20, NULL, NULL);
	whole(f, ENDING_RETURNED, 2, 1, 20, 40, NULL, NULL);
	ends(f, 4, 1, 70);
	whole(f, ENDING_RETURNED, 2, 1, 75, 5, NULL, NULL);
	ends(f, 1, 1, 90);
	fixture_output(f);
	f->sink->ops->quiet(f->sink);
	prints(f, "Desk#open\n"
	          "   Shop#tax <0.000020>\n"
	          "   Shop#price <0.000040>\n"
	          "Desk#open <0.000060>\n"
	          "   Shop#price <0.000005>\n"
	          "Shop#sell <0.000090>\n");
}

/* What is held of a fiber is shown before it goes. */
static void a_fiber_may_go_meanwhile(void **state)
{
	struct fixture *f = *state;
	struct record_fiber_gone gone = {.ref = 1};
	struct error err;

	three_methods(f);
	whole(f, ENDING_RETURNED, 3, 1, 20, 30, NULL, NULL);
	prints(f, "");
	assert_int_equal(calls_fiber_gone(f->stream, &gone, &err), 0);
	prints(f, "Shop#tax <0.000030>\n");
	assert_false(f->sink->ops->holds(f->sink));
}

static void more_than_can_be_held_is_shown(void **state)
{
	struct fixture *f = *state;
	size_t lines = 0;

	three_methods(f);
	for (uint64_t i = 0; i < 200; i++)
		whole(f, ENDING_RETURNED, 3, 1, 10 * i, 5, NULL, NULL);
	fixture_output(f);
	f->sink->ops->quiet(f->sink);
	for (const char *text = fixture_output(f); (text = strchr(text, '\n')); text++)
		lines++;
	assert_int_equal(lines, 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_line_goes_on_when_its_call_ends, open_plain, fixture_close),
		cmocka_unit_test_setup_teardown(a_tree_is_set_apart, open_plain, fixture_close),
		cmocka_unit_test_setup_teardown(how_a_call_ended_is_not_shown, open_plain, fixture_close),
		cmocka_unit_test_setup_teardown(without_durations_a_name_is_all, open_without_durations, fixture_close),
		cmocka_unit_test_setup_teardown(threads_are_told_apart, open_plain, fixture_close),
		cmocka_unit_test_setup_teardown(slow_calls_are_below_those_around_them, open_slow, fixture_close),
		cmocka_unit_test_setup_teardown(a_slow_call_that_was_told_to_run_counts_once, open_slow, fixture_close),
		cmocka_unit_test_setup_teardown(slow_calls_among_calls_that_are_all_shown, open_slow, fixture_close),
		cmocka_unit_test_setup_teardown(a_fiber_may_go_meanwhile, open_slow, fixture_close),
		cmocka_unit_test_setup_teardown(more_than_can_be_held_is_shown, open_slow, fixture_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
