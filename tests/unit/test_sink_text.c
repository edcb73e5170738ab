/* The text tree, from records as a target sends them to the exact lines: nesting, endings, threads that interleave, losses. */

#include "stream_fixture.h"
#include "unit.h"

static const struct sink_style plain = {.durations = true, .indent = 3};

static int setup(void **state)
{
	return fixture_open(state, &sink_text, &plain);
}

static void begins(struct fixture *f, uint32_t method_ref, uint32_t fiber_ref, uint64_t us)
{
	event(f, EVENT_START, ENDING_RETURNED, method_ref, fiber_ref, us, NULL, NULL);
}

static void ends(struct fixture *f, uint32_t method_ref, uint32_t fiber_ref, uint64_t us)
{
	event(f, EVENT_END, ENDING_RETURNED, method_ref, fiber_ref, us, NULL, NULL);
}

/* Sends what was recorded, and compares what was printed so far. */
static void prints(struct fixture *f, const char *expected)
{
	assert_string_equal(fixture_output(f), expected);
}

static void nested_calls_are_indented(void **state)
{
	struct fixture *f = *state;

	method(f, 1, "Shop", "sell");
	method(f, 2, "Shop", "price");
	fiber(f, 1, 100, "");
	begins(f, 1, 1, 0);
	begins(f, 2, 1, 10);
	ends(f, 2, 1, 30);
	begins(f, 2, 1, 40);
	ends(f, 2, 1, 70);
	ends(f, 1, 1, 198);
	prints(f, "Shop#sell\n"
	          "   Shop#price <0.000020>\n"
	          "   Shop#price <0.000030>\n"
	          "Shop#sell <0.000198>\n");
}

/* The same tree, whether an end comes with its start or not. */
static void whole_calls_are_one_line(void **state)
{
	struct fixture *f = *state;

	method(f, 1, "Shop", "sell");
	method(f, 2, "Shop", "price");
	fiber(f, 1, 100, "main");
	fiber(f, 2, 200, "clerk");
	begins(f, 1, 1, 0);
	begins(f, 1, 2, 1);
	whole(f, ENDING_RETURNED, 2, 1, 10, 20, "#<Shop>", "7");
	whole(f, ENDING_RAISED, 2, 1, 40, 30, NULL, "SoldOut");
	ends(f, 1, 1, 198);
	whole(f, ENDING_KILLED, 2, 2, 200, 1, NULL, NULL);
	prints(f, "[thread 100 \"main\"]\n"
	          "Shop#sell\n"
	          "[thread 200 \"clerk\"]\n"
	          "Shop#sell\n"
	          "[thread 100 \"main\"]\n"
	          "   Shop#price(self=#<Shop>) => 7 <0.000020>\n"
	          "   Shop#price ! SoldOut <0.000030>\n"
	          "Shop#sell <0.000198>\n"
	          "[thread 200 \"clerk\"]\n"
	          "   Shop#price ~ killed <0.000001>\n");
}

static void a_line_stands_at_its_depth(void **state)
{
	struct fixture *f = *state;

	method(f, 1, "Shop", "sell");
	line(f, 2, "shop.rb:7");
	fiber(f, 1, 100, "main");
	whole(f, ENDING_RETURNED, 2, 1, 1, 0, "1", NULL);
	event(f, EVENT_START, 0, 1, 1, 2, NULL, NULL);
	event(f, EVENT_CALL, 0, 2, 1, 3, "1", "\"a b\"");
	event(f, EVENT_CALL, 0, 2, 1, 4, NULL, NULL);
	event(f, EVENT_END, ENDING_RETURNED, 1, 1, 5, NULL, NULL);
	prints(f, "shop.rb:7 num=1\n"
	          "Shop#sell\n"
	          "   shop.rb:7 num=1 sum=\"a b\"\n"
	          "   shop.rb:7\n"
	          "Shop#sell <0.000003>\n");
	assert_int_equal(f->stream->calls, 1);
	assert_int_equal(f->stream->lines, 3);
}

static void a_limit_counts_whole_calls(void **state)
{
	struct fixture *f = *state;

	f->limit = (struct call_limit){.limited = true, .left = 3};
	method(f, 1, "Shop", "sell");
	fiber(f, 1, 100, "");
	begins(f, 1, 1, 0);
	whole(f, ENDING_RETURNED, 1, 1, 1, 1, NULL, NULL);
	whole(f, ENDING_RETURNED, 1, 1, 3, 1, NULL, NULL);
	whole(f, ENDING_RETURNED, 1, 1, 5, 1, NULL, NULL);
	ends(f, 1, 1, 9);
	prints(f, "Shop#sell\n"
	          "   Shop#sell <0.000001>\n"
	          "   Shop#sell <0.000001>\n"
	          "Shop#sell <0.000009>\n");
	assert_int_equal(f->limit.left, 0);
	assert_int_equal(f->limit.open, 0);
	assert_int_equal(f->stream->calls, 3);
}

static void durations_have_six_decimals(void **state)
{
	static const uint64_t microseconds[] = {9, 10, 99, 123456, 999999, 1000000, 12345678901};
	struct fixture *f = *state;
	uint64_t us = 0;

	method(f, 1, "A", "b");
	fiber(f, 1, 100, "");
	for (size_t i = 0; i < sizeof(microseconds) / sizeof(*microseconds); us += microseconds[i++])
		whole(f, ENDING_RETURNED, 1, 1, us, microseconds[i], NULL, NULL);
	prints(f, "A#b <0.000009>\nA#b <0.000010>\nA#b <0.000099>\nA#b <0.123456>\nA#b <0.999999>\nA#b <1.000000>\n"
	          "A#b <12345.678901>\n");
}

static void values_stand_behind_the_name(void **state)
{
	struct fixture *f = *state;

	method(f, 1, "Shop", "sell");
	fiber(f, 1, 100, "");
	event(f, EVENT_START, 0, 1, 1, 0, "#<Shop>", "3");
	event(f, EVENT_END, ENDING_RETURNED, 1, 1, 5, "42", NULL);
	prints(f, "Shop#sell(self=#<Shop>, num=3) => 42 <0.000005>\n");
}

static void a_value_cannot_command_the_terminal(void **state)
{
	struct fixture *f = *state;

	method(f, 1, "Shop", "sell");
	fiber(f, 1, 100, "");
	event(f, EVENT_START, 0, 1, 1, 0, "a\033[2Jb\n\xff", NULL);
	ends(f, 1, 1, 5);
	prints(f, "Shop#sell(self=a\\x1b[2Jb\\x0a\\xff) <0.000005>\n");
}

static void every_ending_has_its_mark(void **state)
{
	static const enum ending endings[] = {ENDING_RAISED, ENDING_RAISED, ENDING_THROWN, ENDING_KILLED, ENDING_UNKNOWN};
	struct fixture *f = *state;

	method(f, 1, "Shop", "sell");
	fiber(f, 1, 100, "");
	for (uint64_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
		begins(f, 1, 1, 10 * i);
		event(f, EVENT_END, endings[i], 1, 1, 10 * i + 1, i == 0 ? "SoldOut" : NULL, i == 0 ? "none left" : NULL);
	}
	prints(f, "Shop#sell ! SoldOut: none left <0.000001>\n"
	          "Shop#sell ! raised <0.000001>\n"
	          "Shop#sell ~ thrown <0.000001>\n"
	          "Shop#sell ~ killed <0.000001>\n"
	          "Shop#sell ~ ended <0.000001>\n");
}

static void threads_that_interleave_keep_their_own_trees(void **state)
{
	struct fixture *f = *state;

	method(f, 1, "Shop", "sell");
	method(f, 2, "Shop", "price");
	fiber(f, 1, 100, "main");
	fiber(f, 2, 200, "clerk");
	begins(f, 1, 1, 0);
	begins(f, 1, 2, 1);
	begins(f, 2, 1, 2);
	begins(f, 2, 2, 3);
	ends(f, 2, 1, 4);
	ends(f, 2, 2, 5);
	ends(f, 1, 2, 6);
	ends(f, 1, 1, 7);
	prints(f, "[thread 100 \"main\"]\n"
	          "Shop#sell\n"
	          "[thread 200 \"clerk\"]\n"
	          "Shop#sell\n"
	          "[thread 100 \"main\"]\n"
	          "   Shop#price <0.000002>\n"
	          "[thread 200 \"clerk\"]\n"
	          "   Shop#price <0.000002>\n"
	          "Shop#sell <0.000005>\n"
	          "[thread 100 \"main\"]\n"
	          "Shop#sell <0.000007>\n");
}

static void a_loss_stands_where_it_happened(void **state)
{
	struct fixture *f = *state;
	struct record record = {.kind = RECORD_LOST};

	method(f, 1, "Shop", "sell");
	fiber(f, 1, 100, "");
	begins(f, 1, 1, 0);
	ends(f, 1, 1, 5);
	record.lost = (struct record_lost){1234, 5 * MICROSECOND, 12005 * MICROSECOND};
	record_encode(&f->records, &record);
	begins(f, 1, 1, 20000);
	ends(f, 1, 1, 20001);
	prints(f, "Shop#sell <0.000005>\n"
	          "... 1234 calls lost (0.012000 s) ...\n"
	          "Shop#sell <0.000001>\n");
	assert_int_equal(f->stream->lost, 1234);
}

static void a_mark_stands_in_the_open_call(void **state)
{
	static const char *const texts[] = {"ArgumentError", "no\n3", "shop.rb", "12"};
	struct fixture *f = *state;

	method(f, 1, "Shop", "sell");
	marks_of(f, MARK_RAISE);
	fiber(f, 1, 100, "");
	begins(f, 1, 1, 0);
	mark(f, MARK_RAISE, 1, 1, texts, 4);
	ends(f, 1, 1, 5);
	mark(f, MARK_RAISE, 1, 6, texts, 2);
	prints(f, "Shop#sell\n"
	          "   ! raised ArgumentError: no\\x0a3 at shop.rb:12\n"
	          "Shop#sell <0.000005>\n"
	          "! raised ArgumentError: no\\x0a3\n");
	assert_int_equal(f->stream->marks[MARK_RAISE], 2);
	assert_int_equal(f->stream->calls, 1);
}

static void an_exception_has_its_stack_below(void **state)
{
	static const char *const texts[] = {"ArgumentError", "no", "shop.rb", "12", "0"};
	static const char *const unknown[] = {"ArgumentError", "no", "shop.rb", "12", "7"};
	struct fixture *f = *state;

	marks_of(f, MARK_RAISE);
	fiber(f, 1, 100, "");
	mark(f, MARK_RAISE, 1, 1, texts, 5);
	mark(f, MARK_RAISE, 1, 2, unknown, 5);
	prints(f, "! raised ArgumentError: no at shop.rb:12\n"
	          "! raised ArgumentError: no at shop.rb:12\n"
	          "   from ?\n");
}

static void collections_and_waits_are_marks_too(void **state)
{
	static const char *const minor[] = {"minor",   "newobj", "",     "lazy",   "1200000", "1",
	                                    "1200000", "40210",  "9000", "900000", "290000"};
	static const char *const phases_not_known[] = {"minor",   "newobj", "",     "lazy", "1200000", "1",
	                                               "1200000", "40210",  "9000", NULL,   NULL};
	static const char *const major[] = {"major", "method", "force", "lazy", "1500000000", "12", "5", "1234567", "31000"};
	static const char *const pause[] = {"major", "newobj", "2000000"};
	static const char *const wait[] = {"12000000"};
	struct fixture *f = *state;

	marks_of(f, MARK_GC);
	marks_of(f, MARK_GC_PAUSE);
	marks_of(f, MARK_GVL);
	fiber(f, 1, 100, "");
	mark(f, MARK_GC, 1, 1, minor, 11);
	mark(f, MARK_GC, 1, 1, phases_not_known, 11);
	mark(f, MARK_GC, 1, 2, major, 9);
	mark(f, MARK_GC_PAUSE, 1, 3, pause, 3);
	mark(f, MARK_GVL, 1, 4, wait, 1);
	prints(f, "# gc minor (newobj) 0.001200 s (mark 0.000900, sweep 0.000290), 40,210 -> 9,000 objects\n"
	          "# gc minor (newobj) 0.001200 s, 40,210 -> 9,000 objects\n"
	          "# gc major (method, force) 1.500000 s in 12 pauses, 1,234,567 -> 31,000 objects\n"
	          "# gc major (newobj) pause 0.002000 s\n"
	          "# gvl waited 0.012000 s\n");
}

static void a_kind_of_mark_that_is_not_known_is_passed_over(void **state)
{
	struct fixture *f = *state;

	method(f, 1, "Shop", "sell");
	marks_of(f, (enum mark_kind)31);
	fiber(f, 1, 100, "");
	mark(f, (enum mark_kind)31, 1, 0, NULL, 0);
	begins(f, 1, 1, 1);
	ends(f, 1, 1, 6);
	prints(f, "Shop#sell <0.000005>\n");
	assert_int_equal(f->stream->calls, 1);
}

static void calls_that_do_not_end_are_shown_as_begun(void **state)
{
	struct fixture *f = *state;

	method(f, 1, "Shop", "sell");
	fiber(f, 1, 100, "");
	begins(f, 1, 1, 0);
	begins(f, 1, 1, 1);
	prints(f, "Shop#sell\n");
	calls_finish(f->stream);
	prints(f, "Shop#sell\n"
	          "   Shop#sell\n");
}

static void a_quiet_moment_shows_what_was_held_back(void **state)
{
	struct fixture *f = *state;

	method(f, 1, "Shop", "sell");
	fiber(f, 1, 100, "");
	begins(f, 1, 1, 0);
	prints(f, "");
	f->sink->ops->quiet(f->sink);
	prints(f, "Shop#sell\n");
	ends(f, 1, 1, 9);
	prints(f, "Shop#sell\n"
	          "Shop#sell <0.000009>\n");
}

static int setup_bare(void **state)
{
	return fixture_open(state, &sink_text, &(struct sink_style){.many_pids = true, .indent = 1});
}

static void several_processes_name_themselves(void **state)
{
	struct fixture *f = *state;

	method(f, 1, "Shop", "sell");
	method(f, 2, "Shop", "price");
	fiber(f, 1, 100, "");
	begins(f, 1, 1, 0);
	begins(f, 2, 1, 10);
	ends(f, 2, 1, 30);
	ends(f, 1, 1, 198);
	prints(f, "77: Shop#sell\n"
	          "77:  Shop#price\n"
	          "77: Shop#sell <end>\n");
}

static void local_variables_stand_before_the_outcome(void **state)
{
	static const struct slice names[] = {SLICE("sum"), SLICE("last")};
	struct fixture *f = *state;
	struct record record = {.kind = RECORD_METHOD,
	                        .method = {.ref = 1,
	                                   .class_name = SLICE("Shop"),
	                                   .separator = '#',
	                                   .method_name = SLICE("sell"),
	                                   .local_count = 2,
	                                   .locals = names}};

	record_encode(&f->records, &record);
	fiber(f, 1, 100, "");
	batch_of_one(f, &(struct batch_event){
				.kind = EVENT_CALL, .method = 1, .fiber = 1, .outcome = SLICE("\x92\xa1r\x92\xa1x\xa1y")});
	batch_of_one(f, &(struct batch_event){.kind = EVENT_START, .method = 1, .fiber = 1});
	batch_of_one(f, &(struct batch_event){.kind = EVENT_END,
	                                      .ending = ENDING_RAISED,
	                                      .method = 1,
	                                      .fiber = 1,
	                                      .values = SLICE("\x93\xa1N\xa0\x92\xc0\xa1y")});
	batch_of_one(f, &(struct batch_event){.kind = EVENT_CALL, .method = 1, .fiber = 1, .outcome = SLICE("\x91\x91\xa1x")});
	prints(f, "Shop#sell sum=x last=y => r <0.000000>\n"
	          "Shop#sell last=y ! N <0.000000>\n"
	          "Shop#sell sum=x <0.000000>\n");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_close)
	const struct CMUnitTest tests[] = {
		TEST(nested_calls_are_indented),
		TEST(whole_calls_are_one_line),
		TEST(a_line_stands_at_its_depth),
		TEST(a_limit_counts_whole_calls),
		TEST(durations_have_six_decimals),
		TEST(values_stand_behind_the_name),
		TEST(local_variables_stand_before_the_outcome),
		TEST(a_value_cannot_command_the_terminal),
		TEST(every_ending_has_its_mark),
		TEST(threads_that_interleave_keep_their_own_trees),
		TEST(a_loss_stands_where_it_happened),
		TEST(a_mark_stands_in_the_open_call),
		TEST(an_exception_has_its_stack_below),
		TEST(collections_and_waits_are_marks_too),
		TEST(a_kind_of_mark_that_is_not_known_is_passed_over),
		TEST(calls_that_do_not_end_are_shown_as_begun),
		TEST(a_quiet_moment_shows_what_was_held_back),
		cmocka_unit_test_setup_teardown(several_processes_name_themselves, setup_bare, fixture_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
