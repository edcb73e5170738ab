/* A recording may be anybody's: what is in it that no recorder writes harms nobody who replays it. */

#define _GNU_SOURCE
#include "proto/marks.h"
#include "stderr_fixture.h"
#include "tracer/commands/replay_session.h"
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct options options;
static struct output output;
static struct replay_sessions sessions;
static msgpack_sbuffer records;

static int setup(void **state)
{
	struct error err;

	(void)state;
	options = (struct options){.format = &sink_json, .quiet = true};
	msgpack_sbuffer_init(&records);
	if (output_open(&output, "/dev/null", false, &err) != 0)
		return -1;
	replay_open(&sessions, "-", &options, &output);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	replay_close(&sessions);
	msgpack_sbuffer_destroy(&records);
	return output_close(&output);
}

static int open_session(uint32_t number, struct error *err)
{
	return replay_session(&sessions, &(struct recording_session){.number = number, .pid = number + 1}, err);
}

/* One after the other until one is refused. */
static int open_sessions(uint32_t *count, struct error *err)
{
	int status = 0;

	for (*count = 0; *count < 1000 && status == 0; *count += status == 0)
		status = open_session(*count, err);
	return status;
}

static void kinds_of_events_that_nobody_knows_are_left_out(void **state)
{
	struct error err;

	(void)state;
	replay_head(&sessions, &(struct recording_head){.marks = UINT32_MAX});
	assert_int_equal(open_session(0, &err), 0);
	for (uint32_t kind = 0; kind < 32; kind++)
		if (options.trace.marks.kinds & 1u << kind)
			assert_non_null(mark_form(kind));
	assert_true(options.trace.marks.kinds & 1u << MARK_RAISE);
	replay_end(&sessions, &(struct recording_end){.reason = SLICE("over")});
}

static void open_sessions_take_bounded_memory(void **state)
{
	struct error err;
	uint32_t count;

	(void)state;
	replay_head(&sessions, &(struct recording_head){0});
	sessions.memory_max = 1u << 20;
	assert_int_equal(open_sessions(&count, &err), -ENOMEM);
	assert_error(&err, -ENOMEM, "to show its sessions takes more than 1 MiB");
	assert_in_range(count, 2, 100);
}

static void sessions_that_have_ended_take_none(void **state)
{
	struct error err;

	(void)state;
	replay_head(&sessions, &(struct recording_head){0});
	sessions.memory_max = 1u << 20;
	for (uint32_t number = 0; number < 200; number++) {
		assert_int_equal(open_session(number, &err), 0);
		replay_end(&sessions, &(struct recording_end){.session = number});
		assert_int_equal(sessions.memory, 0);
	}
}

/* A server that forks for each request makes a million in a day. */
static void sessions_may_be_many(void **state)
{
	struct error err;

	(void)state;
	replay_head(&sessions, &(struct recording_head){0});
	sessions.count = 1u << 20;
	sessions.items = memory_zeroed(sessions.count * sizeof(*sessions.items));
	assert_int_equal(open_session(1u << 20, &err), 0);
	replay_end(&sessions, &(struct recording_end){.session = 1u << 20});
	sessions.memory_max = sessions.count * sizeof(*sessions.items);
	assert_int_equal(open_session(sessions.count, &err), -ENOMEM);
}

/* Each takes a page of the table of methods. */
static void numbers_that_are_far_apart_are_counted(void **state)
{
	struct record record = {.kind = RECORD_METHOD, .method = {.class_name = SLICE("A"), .method_name = SLICE("b")}};
	struct buffer bytes = {0};
	struct error err;

	(void)state;
	replay_head(&sessions, &(struct recording_head){0});
	assert_int_equal(open_session(0, &err), 0);
	for (uint32_t i = 0; i < 100; i++) {
		record.method.ref = i * REFS_PER_PAGE;
		record.method.separator = '#';
		record.method.engine = ENGINE_TARGET;
		record_encode(&records, &record);
	}
	buffer_add(&bytes, records.data, records.size);
	sessions.memory_max = 1u << 20;
	assert_int_equal(replay_records(&sessions, &(struct recording_block){0}, &bytes, &err), -ENOMEM);
	assert_in_range(sessions.memory, 100 * REFS_PER_PAGE * sizeof(void *), 4u << 20);
	buffer_free(&bytes);
}

/* From ten to midnight until ten past, in a recording of the evening, and in one of the morning. */
static void times_that_have_nothing_in_between_are_said(void **state)
{
	static const uint64_t hour_ns = UINT64_C(3600000000000);
	const uint64_t day_ns = 20000 * 24 * hour_ns;
	const char *said;

	(void)state;
	setenv("TZ", "UTC", 1);
	tzset();
	options.quiet = false;
	assert_int_equal(replay_when_parse("--from", "23:50", &sessions.from), 0);
	assert_int_equal(replay_when_parse("--to", "00:10", &sessions.to), 0);
	assert_int_equal(stderr_begin(), 0);
	replay_head(&sessions, &(struct recording_head){.began_ns = day_ns + 22 * hour_ns});
	said = stderr_take();
	assert_string_equal("", said);
	replay_head(&sessions, &(struct recording_head){.began_ns = day_ns + 9 * hour_ns});
	said = stderr_take();
	stderr_end();
	assert_non_null(strstr(said, "the second time is before the first one"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(kinds_of_events_that_nobody_knows_are_left_out),
		TEST(open_sessions_take_bounded_memory),
		TEST(sessions_that_have_ended_take_none),
		TEST(sessions_may_be_many),
		TEST(numbers_that_are_far_apart_are_counted),
		TEST(times_that_have_nothing_in_between_are_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
