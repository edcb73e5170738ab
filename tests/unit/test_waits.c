/* Why a call took long: spans of threads, from the changes on the wire, and who held the GVL. */

#define _GNU_SOURCE
#include "stream_fixture.h"
#include "tracer/recording/figures.h"
#include "tracer/recording/slowest.h"
#include "tracer/recording/waits.h"

#include <string.h>

#define MS UINT64_C(1000)
#define HOG 11u
#define WEB 22u

struct waiting {
	struct fixture *fixture;
	struct waits *waits;
	struct slowest *slowest;
	struct figures *figures;
	struct sink *sink;
};

static int setup(void **state)
{
	static const struct sink_style style;
	struct waiting *waiting = calloc(1, sizeof(*waiting));
	void *fixture;

	if (!waiting || fixture_open(&fixture, &sink_text, &style) != 0)
		return -1;
	waiting->fixture = fixture;
	waiting->waits = waits_new();
	waiting->slowest = slowest_new(1, slowest_json, waiting->waits);
	waiting->figures = figures_new(FIGURES_BY_METHOD, waiting->slowest);
	figures_follow(waiting->figures, waiting->waits);
	waiting->sink = figures_sink(waiting->figures, &waiting->fixture->output, &style);
	waiting->fixture->stream->sink = waiting->sink;
	*state = waiting;
	return 0;
}

static int teardown(void **state)
{
	struct waiting *waiting = *state;
	void *fixture = waiting->fixture;

	fixture_close(&fixture);
	sink_free(waiting->sink);
	figures_free(waiting->figures);
	slowest_free(waiting->slowest);
	waits_free(waiting->waits);
	free(waiting);
	return 0;
}

static void send_states(struct waiting *waiting, const struct thread_state *states, uint32_t count, uint64_t lost)
{
	const struct record record = {.kind = RECORD_STATES, .states = {.lost = lost, .count = count, .states = states}};

	record_encode(&waiting->fixture->records, &record);
}

static struct thread_state at(uint64_t ms, uint32_t thread, enum state_event event)
{
	/* Who is woken does not say its native id. */
	return (struct thread_state){.thread = thread,
	                             .time_ns = ms * MS * MICROSECOND,
	                             .native_id = event == STATE_WAITS ? 0 : thread,
	                             .event = event};
}

static void contains(const struct buffer *text, const char *part)
{
	if (!memmem(text->bytes, text->size, part, strlen(part)))
		fail_msg("no %s in %.*s", part, (int)text->size, text->bytes);
}

static size_t count_of(const struct buffer *text, const char *part)
{
	const char *at = text->bytes, *end = text->bytes + text->size;
	size_t count = 0;

	for (; (at = memmem(at, (size_t)(end - at), part, strlen(part))) != NULL; at += strlen(part))
		count++;
	return count;
}

static void a_call_waited_while_another_thread_was_in_its_own(void **state)
{
	struct waiting *waiting = *state;
	const struct thread_state states[] = {
		at(1000, HOG, STATE_RUNS),    at(1010, WEB, STATE_WAITS),     at(1260, HOG, STATE_IN_IO),
		at(1260, WEB, STATE_RUNS),    at(1270, WEB, STATE_GC_BEGINS), at(1280, WEB, STATE_GC_ENDS),
		at(1300, WEB, STATE_BLOCKED),
	};
	struct buffer text = {0};

	method(waiting->fixture, 1, "JSON", "generate");
	method(waiting->fixture, 2, "Web", "request");
	method(waiting->fixture, 3, "Job", "perform");
	fiber(waiting->fixture, 1, HOG, "hog");
	fiber(waiting->fixture, 2, WEB, "web");
	event(waiting->fixture, EVENT_START, ENDING_RETURNED, 3, 1, 900 * MS, NULL, NULL);
	whole(waiting->fixture, ENDING_RETURNED, 1, 1, 1005 * MS, 250 * MS, NULL, NULL);
	event(waiting->fixture, EVENT_END, ENDING_RETURNED, 3, 1, 1265 * MS, NULL, NULL);
	whole(waiting->fixture, ENDING_RETURNED, 2, 2, 1000 * MS, 300 * MS, NULL, NULL);
	send_states(waiting, states, sizeof(states) / sizeof(*states), 0);
	fixture_output(waiting->fixture);
	calls_finish(waiting->fixture->stream);
	waits_table(waiting->waits, true, &text);
	contains(&text, "\"name\":\"hog\",\"running_ns\":260000000,\"waiting_ns\":0,\"blocked_ns\":0,\"io_ns\":40000000,"
	                "\"sleeping_ns\":0,\"thread_ns\":0,\"process_ns\":0,\"gc_ns\":0");
	contains(&text, "\"name\":\"web\",\"running_ns\":30000000,\"waiting_ns\":250000000,\"blocked_ns\":10000000,\"io_ns\":0,"
	                "\"sleeping_ns\":0,\"thread_ns\":0,\"process_ns\":0,\"gc_ns\":10000000,\"waits\":1,\"longest_wait_ns\":"
	                "250000000");
	text.size = 0;
	waits_explain(waiting->waits,
	              &(struct waits_place){
			      .native_id = WEB, .start_ns = 1000 * MS * MICROSECOND, .duration_ns = 300 * MS * MICROSECOND},
	              &text);
	contains(&text, "waited 0.250000 s of 0.300000 for the GVL, held by hog for 0.250000 s in JSON#generate; ran 0.030000 s, "
	                "GC 0.010000 s, blocked 0.010000 s");
	text.size = 0;
	waits_table(waiting->waits, false, &text);
	contains(&text, "  RUNNING   WAITING   BLOCKED       I/O        GC   WAITS   LONGEST  THREAD\n");
	contains(&text, "   0.260s    0.000s    0.000s    0.040s    0.000s       0    0.000s  hog\n");
	buffer_free(&text);
}

static void a_gap_belongs_to_nobody(void **state)
{
	struct waiting *waiting = *state;
	const struct thread_state before[] = {at(0, HOG, STATE_RUNS), at(10, HOG, STATE_BLOCKED)};
	const struct thread_state after[] = {at(500, WEB, STATE_BLOCKED), at(510, HOG, STATE_RUNS), at(520, HOG, STATE_BLOCKED)};
	struct buffer text = {0};

	send_states(waiting, before, 2, 0);
	/* Its name comes late. */
	fiber(waiting->fixture, 1, HOG, "hog");
	send_states(waiting, after, 3, 77);
	fixture_output(waiting->fixture);
	calls_finish(waiting->fixture->stream);
	assert_int_equal(waits_lost_count(waiting->waits), 77);
	waits_table(waiting->waits, true, &text);
	contains(&text, "\"thread\":11,\"name\":\"hog\",\"running_ns\":20000000,\"waiting_ns\":10000000,\"blocked_ns\":0");
	buffer_free(&text);
}

/* With RUBY_MN_THREADS=1: neither a name nor a call belongs to one of them. */
static void threads_that_share_a_native_one_are_not_mixed_up(void **state)
{
	struct waiting *waiting = *state;
	struct thread_state states[] = {
		at(1000, HOG, STATE_RUNS),   at(1010, HOG, STATE_SLEEPS), at(1010, WEB, STATE_RUNS),
		at(1020, WEB, STATE_SLEEPS), at(1030, HOG, STATE_RUNS),   at(1040, HOG, STATE_SLEEPS),
	};
	struct buffer text = {0};

	states[2].native_id = states[3].native_id = HOG;
	method(waiting->fixture, 1, "Web", "request");
	fiber(waiting->fixture, 1, HOG, "hog");
	whole(waiting->fixture, ENDING_RETURNED, 1, 1, 1000 * MS, 40 * MS, NULL, NULL);
	send_states(waiting, states, sizeof(states) / sizeof(*states), 0);
	fixture_output(waiting->fixture);
	calls_finish(waiting->fixture->stream);
	waits_end(waiting->waits, waiting->fixture->stream->pid);
	waits_table(waiting->waits, false, &text);
	contains(&text, "one of native thread 11\n");
	assert_null(memmem(text.bytes, text.size, "hog", 3));
	text.size = 0;
	waits_explain(waiting->waits,
	              &(struct waits_place){
			      .native_id = HOG, .start_ns = 1000 * MS * MICROSECOND, .duration_ns = 40 * MS * MICROSECOND},
	              &text);
	contains(&text, "what it waited for is not known");
	buffer_free(&text);
}

/* Of threads that were only looked at, nobody knows what they did before the first look, or in a gap. */
static void what_was_sampled_begins_with_its_first_sample(void **state)
{
	struct waiting *waiting = *state;
	const struct thread_state before[] = {at(1000, HOG, STATE_RUNS), at(1000, WEB, STATE_SLEEPS), at(1010, WEB, STATE_WAITS),
	                                      at(1020, WEB, STATE_WAITS), at(1030, WEB, STATE_RUNS)};
	const struct thread_state after[] = {at(1500, HOG, STATE_IN_IO), at(1500, WEB, STATE_RUNS), at(1510, WEB, STATE_RUNS)};
	struct buffer text = {0};

	waiting->fixture->stream->states_rate_hz = 100;
	fiber(waiting->fixture, 1, HOG, "hog");
	fiber(waiting->fixture, 2, WEB, "web");
	send_states(waiting, before, sizeof(before) / sizeof(*before), 0);
	send_states(waiting, after, sizeof(after) / sizeof(*after), 46);
	fixture_output(waiting->fixture);
	calls_finish(waiting->fixture->stream);
	assert_int_equal(waits_lost_count(waiting->waits), 46);
	waits_table(waiting->waits, true, &text);
	contains(&text, "\"name\":\"hog\",\"running_ns\":30000000,\"waiting_ns\":0,\"blocked_ns\":0,\"io_ns\":10000000,");
	contains(&text, "\"name\":\"web\",\"running_ns\":10000000,\"waiting_ns\":20000000,\"blocked_ns\":0,\"io_ns\":0,"
	                "\"sleeping_ns\":10000000,");
	contains(&text, "\"waits\":1,\"longest_wait_ns\":20000000,\"sampled_hz\":100}");
	text.size = 0;
	waits_table(waiting->waits, false, &text);
	contains(&text, "\nsampled at 100 Hz: what is shorter than 10 ms may be missing\n");
	text.size = 0;
	waits_explain(waiting->waits,
	              &(struct waits_place){
			      .native_id = WEB, .start_ns = 1000 * MS * MICROSECOND, .duration_ns = 30 * MS * MICROSECOND},
	              &text);
	contains(&text, "waited 0.020000 s of 0.030000 for the GVL, held by hog for 0.020000 s; ");
	contains(&text, " (sampled at 100 Hz)");
	buffer_free(&text);
}

/* A collection is told at once, and a sample when its turn comes. */
static void a_sample_that_is_older_than_a_collection_changes_nothing(void **state)
{
	struct waiting *waiting = *state;
	const struct thread_state states[] = {
		at(1000, HOG, STATE_RUNS),      at(1010, HOG, STATE_GC_BEGINS), at(1005, HOG, STATE_RUNS),
		at(1030, HOG, STATE_GC_ENDS),   at(1008, HOG, STATE_SLEEPS),    at(1040, HOG, STATE_SLEEPS),
		at(1041, HOG, STATE_GC_BEGINS), at(1042, HOG, STATE_GC_ENDS),   at(1050, HOG, STATE_RUNS)};
	struct buffer text = {0};

	waiting->fixture->stream->states_rate_hz = 100;
	fiber(waiting->fixture, 1, HOG, "hog");
	send_states(waiting, states, sizeof(states) / sizeof(*states), 0);
	fixture_output(waiting->fixture);
	calls_finish(waiting->fixture->stream);
	waits_table(waiting->waits, true, &text);
	contains(&text, "\"name\":\"hog\",\"running_ns\":28000000,\"waiting_ns\":0,\"blocked_ns\":0,\"io_ns\":0,"
	                "\"sleeping_ns\":1000000,\"thread_ns\":0,\"process_ns\":0,\"gc_ns\":21000000");
	buffer_free(&text);
}

/* More than anybody has, each with a native id of its own, and all of them end in another order. */
static void many_threads_come_and_go(void **state)
{
	struct waiting *waiting = *state;
	struct thread_state states[STATES_MAX];
	struct buffer text = {0};

	for (uint32_t round = 0; round < 60; round++) {
		bool ends = round % 2;

		for (uint32_t i = 0; i < STATES_MAX; i++)
			states[i] = at(1000 + (uint64_t)round * 10, 100 + (ends ? STATES_MAX - 1 - i : i),
			               ends ? STATE_ENDED : STATE_RUNS);
		send_states(waiting, states, STATES_MAX, 0);
		fixture_output(waiting->fixture);
	}
	calls_finish(waiting->fixture->stream);
	waits_table(waiting->waits, true, &text);
	assert_int_equal(count_of(&text, "\"running_ns\":10000000,"), 30 * STATES_MAX);
	buffer_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_call_waited_while_another_thread_was_in_its_own, setup, teardown),
		cmocka_unit_test_setup_teardown(a_gap_belongs_to_nobody, setup, teardown),
		cmocka_unit_test_setup_teardown(threads_that_share_a_native_one_are_not_mixed_up, setup, teardown),
		cmocka_unit_test_setup_teardown(what_was_sampled_begins_with_its_first_sample, setup, teardown),
		cmocka_unit_test_setup_teardown(a_sample_that_is_older_than_a_collection_changes_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(many_threads_come_and_go, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
