/* What a flight recorder keeps: at least the time it should, at most the size, and what is written can be read by itself. */
#define _GNU_SOURCE

#include "tracer/recording/recent.h"
#include "unit.h"

#include <stdlib.h>

static struct recent *recent;
static struct output output;
static struct recording_writer *writer;

static int setup(void **state)
{
	(void)state;
	output = (struct output){.fd = -1};
	writer = recording_write_open(&output);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	recent_free(recent);
	recording_write_free(writer);
	buffer_free(&output.buffer);
	return 0;
}

/* A second is 1 here. */
static void block(uint32_t session, uint64_t at, size_t size)
{
	char *frame = memory_zeroed(size);

	recent_block(recent,
	             &(struct recording_block){
			     .session = session, .packed = (uint32_t)size, .events = 1, .from_ns = 100 + at, .to_ns = 100 + at},
	             frame, at, at);
}

/* As the recorder does: a stretch, where it is time for one, with its session. */
static void step(uint32_t session, uint64_t at, size_t known)
{
	if (!recent_is_due(recent, at))
		return;
	recent_begin(recent, at);
	recent_session(recent, &(struct recording_session){.number = session, .continued = true});
	if (known)
		recent_block(recent, &(struct recording_block){.session = session, .packed = (uint32_t)known},
		             memory_zeroed(known), 0, at);
	recent_known(recent);
}

static void is_from_to(uint64_t from, uint64_t to)
{
	uint64_t from_ns, to_ns;

	assert_true(recent_span(recent, &from_ns, &to_ns));
	assert_int_equal(from_ns, 100 + from);
	assert_int_equal(to_ns, 100 + to);
}

static void so_long_is_kept_and_an_eighth_more_at_most(void **state)
{
	(void)state;
	recent = recent_new(&(struct recent_limits){.ns = 80, .size = 1 << 30});
	recent_session(recent, &(struct recording_session){.number = 5});
	for (uint64_t at = 1; at <= 1000; at++) {
		uint64_t from_ns, to_ns;

		block(5, at, 10);
		step(5, at, 0);
		assert_true(recent_span(recent, &from_ns, &to_ns));
		assert_int_equal(to_ns, 100 + at);
		assert_true(at < 80 ? from_ns == 101 : to_ns - from_ns >= 79);
		assert_true(to_ns - from_ns <= 80 + 80 / 8 + 1);
		assert_false(recent_is_cut(recent));
	}
}

static void what_is_too_old_goes_although_nothing_comes(void **state)
{
	uint64_t from_ns, to_ns;

	(void)state;
	recent = recent_new(&(struct recent_limits){.ns = 80, .size = 1 << 30});
	recent_session(recent, &(struct recording_session){.number = 5});
	block(5, 1, 10);
	assert_int_equal(recent_due_ns(recent), 11);
	step(5, 11, 0);
	assert_int_equal(recent_due_ns(recent), UINT64_MAX);
	recent_expire(recent, 90);
	is_from_to(1, 1);
	recent_expire(recent, 91);
	assert_false(recent_span(recent, &from_ns, &to_ns));
}

static void no_more_than_the_size_is_kept_however_much_comes(void **state)
{
	(void)state;
	recent = recent_new(&(struct recent_limits){.ns = 1000, .size = 100000});
	recent_session(recent, &(struct recording_session){.number = 5});
	for (uint64_t at = 1; at <= 500; at++) {
		block(5, at, 1000);
		step(5, at, 100);
		assert_true(recent_size(recent) <= 100000 + 3000);
	}
	assert_true(recent_is_cut(recent));
	assert_true(recent_size(recent) >= 75000);
}

/* One that announces much more than it calls. */
static void what_must_be_known_is_not_kept_over_and_over(void **state)
{
	(void)state;
	recent = recent_new(&(struct recent_limits){.ns = 80, .size = 100000});
	recent_session(recent, &(struct recording_session){.number = 5});
	for (uint64_t at = 1; at <= 3000; at++) {
		block(5, at, 1000);
		step(5, at, 1000000);
		assert_true(recent_size(recent) <= 3300000);
	}
}

static uint64_t parts_in(const char *name)
{
	uint64_t count = 0;
	const char *at = output.buffer.bytes, *end = at + output.buffer.size;

	while ((at = memmem(at, (size_t)(end - at), name, strlen(name)))) {
		count++;
		at++;
	}
	return count;
}

static void what_is_written_has_each_session_once_with_its_end(void **state)
{
	(void)state;
	recent = recent_new(&(struct recent_limits){.size = 80000});
	recent_session(recent, &(struct recording_session){.number = 5, .command = SLICE("first of all")});
	recent_session(recent, &(struct recording_session){.number = 6});
	block(6, 1, 1000);
	recent_end(recent, &(struct recording_end){.session = 6, .reason = SLICE("gone for good")});
	for (uint64_t at = 2; at <= 30; at++) {
		block(5, at, 1000);
		step(5, at, 0);
	}
	recent_write(recent, writer, "for a reason");
	assert_int_equal(parts_in("\xa7rbprobe\xa7session"), 2);
	assert_int_equal(parts_in("\xa7rbprobe\xa5"
	                          "block"),
	                 30);
	assert_int_equal(parts_in("first of all"), 1);
	assert_int_equal(parts_in("gone for good"), 1);
	assert_int_equal(parts_in("for a reason"), 1);
	assert_false(recent_has_news(recent));
	/* The one that has ended is gone as soon as its stretch is. */
	output.buffer.size = 0;
	for (uint64_t at = 31; at <= 200; at++) {
		block(5, at, 1000);
		step(5, at, 0);
	}
	assert_true(recent_has_news(recent));
	recent_write(recent, writer, NULL);
	assert_int_equal(parts_in("\xa7rbprobe\xa7session"), 1);
	assert_int_equal(parts_in("\xa7rbprobe\xa3"
	                          "end"),
	                 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(so_long_is_kept_and_an_eighth_more_at_most, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_too_old_goes_although_nothing_comes, setup, teardown),
		cmocka_unit_test_setup_teardown(no_more_than_the_size_is_kept_however_much_comes, setup, teardown),
		cmocka_unit_test_setup_teardown(what_must_be_known_is_not_kept_over_and_over, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_written_has_each_session_once_with_its_end, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
