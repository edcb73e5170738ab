/* What threads do: order, losses that are counted, and several writers beside a reader. */

#include "tracee/base/state_ring.h"
#include "unit.h"

#include <pthread.h>
#include <stdlib.h>

#define WRITERS 4u
#define EACH 200000u

static int setup(void **state)
{
	*state = state_ring_new();
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

static void entries_come_as_they_were_written(void **state)
{
	struct state_ring *ring = *state;
	struct state_entry entry;
	uint64_t next = state_ring_next(ring), lost = 0;

	assert_false(state_ring_take(ring, &next, &entry, &lost));
	for (uint32_t i = 1; i <= 3; i++)
		state_ring_push(ring,
		                &(struct state_entry){.ticks = i, .thread = 7, .native_id = UINT32_MAX - i, .event = (uint8_t)i});
	for (uint32_t i = 1; i <= 3; i++) {
		assert_true(state_ring_take(ring, &next, &entry, &lost));
		assert_int_equal(entry.ticks, i);
		assert_int_equal(entry.thread, 7);
		assert_int_equal(entry.native_id, UINT32_MAX - i);
		assert_int_equal(entry.event, i);
	}
	assert_false(state_ring_take(ring, &next, &entry, &lost));
	assert_int_equal(lost, 0);
}

static void who_is_too_slow_knows_what_was_missed(void **state)
{
	struct state_ring *ring = *state;
	struct state_entry entry;
	uint64_t next = 0, lost = 0;

	for (uint32_t i = 0; i < STATE_RING_ENTRIES + 10; i++)
		state_ring_push(ring, &(struct state_entry){.ticks = i});
	assert_true(state_ring_take(ring, &next, &entry, &lost));
	assert_int_equal(lost, 10);
	assert_int_equal(entry.ticks, 10);
}

static void *write_many(void *argument)
{
	void **parts = argument;

	for (uint32_t i = 0; i < EACH; i++)
		state_ring_push(parts[0],
		                &(struct state_entry){.ticks = i, .thread = (uintptr_t)parts[1], .native_id = i, .event = 1});
	return NULL;
}

/* None is torn, none comes twice, those of one writer come in order, and all others are counted. */
static void several_write_while_one_reads(void **state)
{
	struct state_ring *ring = *state;
	pthread_t writers[WRITERS];
	void *parts[WRITERS][2];
	uint64_t next = 0, lost = 0, got = 0, expected[WRITERS] = {0};
	struct state_entry entry;

	for (uint32_t i = 0; i < WRITERS; i++) {
		parts[i][0] = ring;
		parts[i][1] = (void *)(uintptr_t)(i + 1);
		assert_int_equal(pthread_create(&writers[i], NULL, write_many, parts[i]), 0);
	}
	while (got + lost < WRITERS * EACH) {
		if (!state_ring_take(ring, &next, &entry, &lost))
			continue;
		got++;
		assert_in_range(entry.thread, 1, WRITERS);
		assert_int_equal(entry.ticks, entry.native_id);
		assert_true(entry.ticks >= expected[entry.thread - 1]);
		expected[entry.thread - 1] = entry.ticks + 1;
	}
	for (uint32_t i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
	assert_int_equal(got + lost, WRITERS * EACH);
	assert_int_equal(state_ring_next(ring), WRITERS * EACH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(entries_come_as_they_were_written, setup, teardown),
		cmocka_unit_test_setup_teardown(who_is_too_slow_knows_what_was_missed, setup, teardown),
		cmocka_unit_test_setup_teardown(several_write_while_one_reads, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
