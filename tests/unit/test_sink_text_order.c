/* The text format in order of threads: what is shown in one piece, what waits, and what ends the waiting. */

#include "stream_fixture.h"
#include "unit.h"

#include "proto/clock.h"
#include "tracer/stream/sink_text_order.h"

static const struct sink_style by_thread = {.durations = true, .indent = 3, .by_thread = true};

static int setup(void **state)
{
	int status = fixture_open(state, &sink_text, &by_thread);
	struct fixture *f = *state;

	method(f, 1, "Shop", "sell");
	method(f, 2, "Shop", "price");
	fiber(f, 1, 100, "main");
	fiber(f, 2, 200, "clerk");
	fiber(f, 3, 300, "boss");
	return status;
}

static void begins(struct fixture *f, uint32_t method_ref, uint32_t fiber_ref, uint64_t us)
{
	event(f, EVENT_START, ENDING_RETURNED, method_ref, fiber_ref, us, NULL, NULL);
}

static void ends(struct fixture *f, uint32_t method_ref, uint32_t fiber_ref, uint64_t us)
{
	event(f, EVENT_END, ENDING_RETURNED, method_ref, fiber_ref, us, NULL, NULL);
}

static void happens(struct fixture *f, uint32_t method_ref, uint32_t fiber_ref, uint64_t us)
{
	whole(f, ENDING_RETURNED, method_ref, fiber_ref, us, 1, NULL, NULL);
}

/* Sends what was recorded, and compares what was printed since the last time. */
static void prints(struct fixture *f, const char *expected)
{
	assert_string_equal(fixture_output(f), expected);
	f->output.buffer.size = 0;
}

static void each_outermost_call_is_in_one_piece(void **state)
{
	struct fixture *f = *state;

	begins(f, 1, 1, 0);
	begins(f, 1, 2, 1);
	happens(f, 2, 1, 2);
	happens(f, 2, 2, 3);
	ends(f, 1, 2, 6);
	happens(f, 2, 3, 7);
	prints(f, "[thread 100 \"main\"]\n"
	          "Shop#sell\n"
	          "   Shop#price <0.000001>\n");
	ends(f, 1, 1, 8);
	prints(f, "Shop#sell <0.000008>\n"
	          "[thread 200 \"clerk\"]\n"
	          "Shop#sell\n"
	          "   Shop#price <0.000001>\n"
	          "Shop#sell <0.000005>\n"
	          "[thread 300 \"boss\"]\n"
	          "Shop#price <0.000001>\n");
	assert_int_equal(f->sink->ops->wake_ns(f->sink), UINT64_MAX);
}

/* Whose outermost call goes on when another's has ended is shown from then on, as it happens. */
static void then_the_next_one_is_live(void **state)
{
	struct fixture *f = *state;

	happens(f, 2, 1, 0);
	begins(f, 1, 1, 1);
	begins(f, 1, 2, 2);
	happens(f, 2, 2, 3);
	prints(f, "[thread 100 \"main\"]\n"
	          "Shop#price <0.000001>\n");
	ends(f, 1, 1, 4);
	prints(f, "Shop#sell <0.000003>\n"
	          "[thread 200 \"clerk\"]\n"
	          "Shop#sell\n"
	          "   Shop#price <0.000001>\n");
	happens(f, 2, 2, 5);
	prints(f, "   Shop#price <0.000001>\n");
	/* What one thread does after the other is in order of time. */
	ends(f, 1, 2, 6);
	happens(f, 2, 1, 7);
	prints(f, "Shop#sell <0.000004>\n"
	          "[thread 100 \"main\"]\n"
	          "Shop#price <0.000001>\n");
}

static void nothing_waits_for_ever(void **state)
{
	struct fixture *f = *state;
	uint64_t due_ns;

	begins(f, 1, 1, 0);
	happens(f, 2, 1, 1);
	begins(f, 1, 2, 2);
	happens(f, 2, 2, 3);
	happens(f, 2, 3, 4);
	prints(f, "[thread 100 \"main\"]\n"
	          "Shop#sell\n"
	          "   Shop#price <0.000001>\n");
	due_ns = f->sink->ops->wake_ns(f->sink);
	assert_true(due_ns <= clock_now_ns() + ORDER_WAIT_NS);
	f->sink->ops->wake(f->sink, due_ns - 1);
	prints(f, "");
	f->sink->ops->wake(f->sink, due_ns + ORDER_WAIT_NS);
	prints(f, "[thread 200 \"clerk\"]\n"
	          "Shop#sell\n"
	          "   Shop#price <0.000001>\n"
	          "[thread 300 \"boss\"]\n"
	          "Shop#price <0.000001>\n");
	/* What comes of a call that was shown in part says so. */
	ends(f, 1, 1, 5);
	ends(f, 1, 2, 6);
	happens(f, 2, 1, 7);
	prints(f, "[thread 100 \"main\", continued]\n"
	          "Shop#sell <0.000005>\n"
	          "[thread 200 \"clerk\", continued]\n"
	          "Shop#sell <0.000004>\n"
	          "[thread 100 \"main\"]\n"
	          "Shop#price <0.000001>\n");
}

static void what_waits_is_limited(void **state)
{
	struct fixture *f = *state;
	char argument[1000];
	size_t size;

	memset(argument, 'x', sizeof(argument) - 1);
	argument[sizeof(argument) - 1] = '\0';
	begins(f, 1, 1, 0);
	begins(f, 1, 2, 1);
	for (uint64_t i = 0; i < ORDER_SIZE_MAX / 1000 + 100; i++) {
		whole(f, ENDING_RETURNED, 2, 2, 2, 1, argument, NULL);
		if (i % 50 == 0)
			fixture_output(f);
	}
	size = strlen(fixture_output(f));
	assert_in_range(size + f->output.flushed, ORDER_SIZE_MAX, ORDER_SIZE_MAX + 300000);
}

static void a_loss_ends_the_waiting(void **state)
{
	struct fixture *f = *state;
	struct record record = {.kind = RECORD_LOST, .lost = {.calls = 2, .from_ns = 0, .to_ns = 1000}};

	begins(f, 1, 1, 0);
	begins(f, 1, 2, 1);
	begins(f, 2, 2, 2);
	record_encode(&f->records, &record);
	prints(f, "[thread 100 \"main\"]\n"
	          "Shop#sell\n"
	          "[thread 200 \"clerk\"]\n"
	          "Shop#sell\n"
	          "   Shop#price\n"
	          "... 2 calls lost (0.000001 s) ...\n");
}

static void all_is_shown_at_the_end(void **state)
{
	struct fixture *f = *state;

	begins(f, 1, 1, 0);
	happens(f, 2, 2, 1);
	begins(f, 1, 2, 2);
	begins(f, 2, 2, 3);
	prints(f, "");
	calls_finish(f->stream);
	prints(f, "[thread 100 \"main\"]\n"
	          "Shop#sell\n"
	          "[thread 200 \"clerk\"]\n"
	          "Shop#price <0.000001>\n"
	          "Shop#sell\n"
	          "   Shop#price\n");
}

static void a_quiet_moment_shows_what_the_live_one_does(void **state)
{
	struct fixture *f = *state;

	begins(f, 1, 1, 0);
	begins(f, 1, 2, 1);
	prints(f, "");
	assert_true(f->sink->ops->holds(f->sink));
	f->sink->ops->quiet(f->sink);
	assert_false(f->sink->ops->holds(f->sink));
	prints(f, "[thread 100 \"main\"]\n"
	          "Shop#sell\n");
	ends(f, 1, 2, 3);
	ends(f, 1, 1, 4);
	prints(f, "Shop#sell <0.000004>\n"
	          "[thread 200 \"clerk\"]\n"
	          "Shop#sell <0.000002>\n");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_close)
	const struct CMUnitTest tests[] = {
		TEST(each_outermost_call_is_in_one_piece),
		TEST(then_the_next_one_is_live),
		TEST(nothing_waits_for_ever),
		TEST(what_waits_is_limited),
		TEST(a_loss_ends_the_waiting),
		TEST(all_is_shown_at_the_end),
		TEST(a_quiet_moment_shows_what_the_live_one_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
