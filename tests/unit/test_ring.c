/* The ring: order, exact losses, room for every end, and a producer and a consumer that run at once. */

#include "tracee/base/ring.h"
#include "unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int setup(void **state)
{
	struct ring *ring = aligned_alloc(64, sizeof(*ring));

	*state = ring;
	return ring ? ring_open(ring, 1 << 16) : -1;
}

static int teardown(void **state)
{
	ring_close(*state);
	free(*state);
	return 0;
}

/* Times and methods are numbers of the test's own. */
static uint64_t push_start(struct ring *ring, uint32_t number, const void *payload, size_t size)
{
	return ring_push_start(ring, &(struct ring_record){.kind = RING_START, .method = number, .time = number}, payload, size);
}

static bool push_end_at(struct ring *ring, uint64_t start, uint32_t number, uint64_t time, const void *payload, size_t size)
{
	return ring_push_end(ring, start, &(struct ring_record){.kind = RING_END, .method = number, .time = time}, payload, size);
}

static bool push_end(struct ring *ring, uint64_t start, uint32_t number)
{
	return push_end_at(ring, start, number, number, NULL, 0);
}

static const struct ring_record *peek(struct ring *ring)
{
	return ring_position(ring) == ring_readable(ring) ? NULL : ring_record_at(ring, ring_position(ring));
}

static void advance(struct ring *ring)
{
	ring_advance(ring, ring_position(ring) + ring_record_bytes(peek(ring)));
}

/* The next record, which must be this. */
static const struct ring_record *expect(struct ring *ring, enum ring_kind kind, uint32_t number)
{
	const struct ring_record *record = peek(ring);

	assert_non_null(record);
	assert_int_equal(record->kind, kind);
	if (kind != RING_LOST)
		assert_int_equal(record->method, number);
	return record;
}

static void take(struct ring *ring, enum ring_kind kind, uint32_t number)
{
	expect(ring, kind, number);
	advance(ring);
}

static void take_gap(struct ring *ring, uint64_t calls, uint64_t from, uint64_t to)
{
	struct ring_gap gap;

	memcpy(&gap, ring_payload(expect(ring, RING_LOST, 0)), sizeof(gap));
	assert_int_equal(gap.calls, calls);
	assert_int_equal(gap.from, from);
	assert_int_equal(gap.to, to);
	advance(ring);
}

/* Starts until none fits; how many were taken, and the last one's position. */
static uint32_t fill(struct ring *ring, const void *payload, size_t size, uint64_t *positions)
{
	uint32_t taken = 0;

	while ((positions[taken] = push_start(ring, taken + 1, payload, size)) != RING_NOWHERE)
		taken++;
	return taken;
}

static uint64_t positions[1 << 16];

static void an_empty_ring_has_nothing_to_read(void **state)
{
	assert_null(peek(*state));
	assert_null(ring_held_back(*state));
}

static void nested_calls_come_out_in_order_with_their_payload(void **state)
{
	struct ring *ring = *state;
	const struct ring_record *record;
	uint64_t outer, inner;

	outer = push_start(ring, 1, "one", 3);
	assert_null(peek(ring));
	inner = push_start(ring, 2, NULL, 0);
	record = expect(ring, RING_START, 1);
	assert_int_equal(record->payload_size, 3);
	assert_memory_equal(ring_payload(record), "one", 3);
	advance(ring);
	assert_null(peek(ring));
	assert_true(push_end_at(ring, inner, 2, 9, NULL, 0));
	record = expect(ring, RING_CALL, 2);
	assert_int_equal(record->time, 2);
	assert_int_equal(record->duration, 7);
	advance(ring);
	assert_true(push_end_at(ring, outer, 1, 10, "result", 6));
	record = expect(ring, RING_END, 1);
	assert_int_equal(record->time, 10);
	assert_memory_equal(ring_payload(record), "result", 6);
	advance(ring);
	assert_null(peek(ring));
}

static void an_end_that_follows_its_start_makes_one_record(void **state)
{
	struct ring *ring = *state;
	const struct ring_record *record;
	uint64_t start = push_start(ring, 5, "arguments", 9);

	assert_true(push_end_at(ring, start, 5, 8, "result", 6));
	record = expect(ring, RING_CALL_OUTCOME, 5);
	assert_int_equal(record->duration, 3);
	assert_int_equal(record->payload_size, 9);
	assert_memory_equal(ring_payload(record), "arguments", 9);
	assert_int_equal(ring_outcome(record)->size, 6);
	assert_memory_equal(ring_outcome(record)->bytes, "result", 6);
	advance(ring);
	assert_null(peek(ring));
	assert_null(ring_held_back(ring));
}

static void what_lasts_too_long_for_one_record_has_two(void **state)
{
	struct ring *ring = *state;
	uint64_t start = push_start(ring, 1, NULL, 0);

	assert_true(push_end_at(ring, start, 1, UINT64_C(1) + UINT32_MAX, NULL, 0));
	assert_int_equal(expect(ring, RING_CALL, 1)->duration, UINT32_MAX);
	advance(ring);
	start = push_start(ring, 2, NULL, 0);
	assert_true(push_end_at(ring, start, 2, UINT64_C(3) + UINT32_MAX, NULL, 0));
	take(ring, RING_START, 2);
	assert_int_equal(expect(ring, RING_END, 2)->time, UINT64_C(3) + UINT32_MAX);
	advance(ring);
	assert_null(peek(ring));
}

static void a_start_that_is_held_back_can_be_looked_at(void **state)
{
	struct ring *ring = *state;
	uint64_t start = push_start(ring, 3, "one", 3);
	const struct ring_record *record = ring_held_back(ring);

	assert_null(peek(ring));
	assert_non_null(record);
	assert_int_equal(record->method, 3);
	assert_memory_equal(ring_payload(record), "one", 3);
	push_end(ring, start, 3);
	assert_null(ring_held_back(ring));
	take(ring, RING_CALL, 3);
	push_start(ring, 4, NULL, 0);
	assert_true(ring_push_aside(ring, &(struct ring_record){.kind = RING_FIBER_GONE}));
	assert_null(ring_held_back(ring));
	take(ring, RING_START, 4);
	take(ring, RING_FIBER_GONE, 0);
	push_start(ring, 5, NULL, 0);
	ring_release(ring);
	assert_null(ring_held_back(ring));
	take(ring, RING_START, 5);
}

static void a_record_may_lie_across_the_rings_end(void **state)
{
	struct ring *ring = *state;
	char payload[1000];

	memset(payload, 'p', sizeof(payload));
	for (uint32_t i = 1; i < 1000; i++) {
		const struct ring_record *record;
		uint64_t start;

		payload[0] = payload[sizeof(payload) - 1] = (char)i;
		start = push_start(ring, i, payload, sizeof(payload));
		assert_true(push_end_at(ring, start, i, i, payload, i % 100));
		record = expect(ring, i % 100 ? RING_CALL_OUTCOME : RING_CALL, i);
		assert_memory_equal(ring_payload(record), payload, sizeof(payload));
		if (i % 100)
			assert_memory_equal(ring_outcome(record)->bytes, payload, i % 100);
		advance(ring);
	}
}

static void every_start_that_was_taken_has_room_for_its_end(void **state)
{
	struct ring *ring = *state;
	uint32_t taken = fill(ring, "0123456789", 10, positions);

	assert_true(taken > 100);
	for (uint32_t i = taken; i > 0; i--)
		push_end(ring, positions[i - 1], i);
	for (uint32_t i = 1; i < taken; i++)
		take(ring, RING_START, i);
	take(ring, RING_CALL, taken);
	for (uint32_t i = taken - 1; i > 0; i--)
		take(ring, RING_END, i);
	assert_null(peek(ring));
}

static void an_end_goes_without_its_payload_rather_than_not_at_all(void **state)
{
	struct ring *ring = *state;
	static char payload[RING_PAYLOAD_MAX];
	uint32_t taken = fill(ring, NULL, 0, positions);

	assert_false(push_end_at(ring, positions[taken - 1], taken, taken, payload, 1000));
	assert_false(push_end_at(ring, positions[taken - 2], taken - 1, taken, payload, 1000));
	for (uint32_t i = 1; i <= taken; i++)
		take(ring, RING_START, i);
	assert_int_equal(expect(ring, RING_END, taken)->payload_size, 0);
	advance(ring);
	assert_int_equal(expect(ring, RING_END, taken - 1)->payload_size, 0);
}

static void losses_are_counted_where_they_happened(void **state)
{
	struct ring *ring = *state;
	uint32_t taken = fill(ring, NULL, 0, positions);

	/* taken + 1 was lost already. */
	assert_true(push_start(ring, taken + 2, NULL, 0) == RING_NOWHERE);
	assert_true(push_start(ring, taken + 3, NULL, 0) == RING_NOWHERE);
	ring_count_many_lost(ring, taken + 4, 5);
	ring_count_many_lost(ring, taken + 5, 0);
	assert_int_equal(ring->lost, 8);
	ring_release(ring);
	for (uint32_t i = 1; i <= taken; i++)
		take(ring, RING_START, i);
	assert_null(peek(ring));

	push_end(ring, push_start(ring, 7, NULL, 0), 7);
	take_gap(ring, 8, taken + 1, taken + 4);
	take(ring, RING_CALL, 7);
}

static void the_last_losses_are_told_at_the_end(void **state)
{
	struct ring *ring = *state;
	uint32_t taken = fill(ring, NULL, 0, positions);

	for (; taken > 0; taken--)
		push_end(ring, positions[taken - 1], taken);
	ring_flush_gap(ring);
	ring_flush_gap(ring); /* once is enough */
	while (peek(ring)->kind != RING_LOST)
		advance(ring);
	advance(ring);
	assert_null(peek(ring));
}

static void a_forked_child_does_not_inherit_the_memory(void **state)
{
	struct ring *ring = *state;
	char path[64];
	FILE *maps;
	char line[512];
	int found = 0;
	int in_child[2];
	pid_t child;

	snprintf(path, sizeof(path), "%lx-", (unsigned long)ring->bytes);
	assert_int_equal(pipe(in_child), 0);
	child = fork();
	if (child == 0) {
		maps = fopen("/proc/self/maps", "r");
		while (maps && fgets(line, sizeof(line), maps))
			found |= strncmp(line, path, strlen(path)) == 0;
		_exit(write(in_child[1], found ? "y" : "n", 1) == 1 ? 0 : 1);
	}
	assert_true(child > 0);
	assert_int_equal(read(in_child[0], line, 1), 1);
	assert_int_equal(line[0], 'n');
	close(in_child[0]);
	close(in_child[1]);
}

#define CALLS 300000u

struct consumed {
	struct ring *ring;
	_Atomic int finished;
	uint64_t starts, ends, lost, looked_at;
	int disorder;
};

static void check_start(struct consumed *consumed, const struct ring_record *record, uint32_t *last)
{
	uint32_t echo;

	memcpy(&echo, ring_payload(record), sizeof(echo));
	consumed->disorder |= echo != record->method || record->method <= *last || record->time != record->method;
	*last = record->method;
}

static void consume_one(struct consumed *consumed, const struct ring_record *record, uint32_t *last)
{
	struct ring_gap gap;

	switch (record->kind) {
	case RING_LOST:
		memcpy(&gap, ring_payload(record), sizeof(gap));
		consumed->lost += gap.calls;
		break;
	case RING_CALL:
	case RING_CALL_OUTCOME:
		check_start(consumed, record, last);
		consumed->disorder |= record->duration != 2;
		consumed->starts++;
		consumed->ends++;
		break;
	case RING_START:
		check_start(consumed, record, last);
		consumed->starts++;
		break;
	default:
		consumed->disorder |= record->time != record->method + 2u;
		consumed->ends++;
	}
}

static void *consume(void *argument)
{
	struct consumed *consumed = argument;
	const struct ring_record *record;
	uint32_t last = 0;

	for (;;) {
		int finished = consumed->finished;

		while ((record = peek(consumed->ring))) {
			consume_one(consumed, record, &last);
			advance(consumed->ring);
		}
		if ((record = ring_held_back(consumed->ring))) {
			uint32_t before = last;

			check_start(consumed, record, &before);
			consumed->looked_at++;
		}
		if (finished && !peek(consumed->ring))
			return NULL;
	}
}

/* Alone, with a call inside, and with a result, in turn. */
static void two_threads_lose_nothing_uncounted(void **state)
{
	struct consumed consumed = {.ring = *state};
	pthread_t thread;
	uint64_t taken = 0;

	assert_int_equal(pthread_create(&thread, NULL, consume, &consumed), 0);
	for (uint32_t i = 1; i <= CALLS; i += 2) {
		uint32_t inner = i + 1;
		uint64_t start = push_start(consumed.ring, i, &i, sizeof(i)), inside = RING_NOWHERE;

		if (i % 3 == 0)
			inside = push_start(consumed.ring, inner, &inner, sizeof(inner));
		if (inside != RING_NOWHERE)
			push_end_at(consumed.ring, inside, inner, inner + 2, NULL, 0);
		if (start != RING_NOWHERE)
			push_end_at(consumed.ring, start, i, i + 2, &i, i % 5 ? 0 : sizeof(i));
		if (i % 3)
			inside = push_start(consumed.ring, inner, &inner, sizeof(inner));
		if (i % 3 && inside != RING_NOWHERE)
			push_end_at(consumed.ring, inside, inner, inner + 2, NULL, 0);
		taken += (start != RING_NOWHERE) + (inside != RING_NOWHERE);
	}
	ring_flush_gap(consumed.ring);
	consumed.finished = 1;
	pthread_join(thread, NULL);
	assert_false(consumed.disorder);
	assert_int_equal(consumed.starts, taken);
	assert_int_equal(consumed.ends, taken);
	assert_int_equal(consumed.starts + consumed.lost, CALLS);
	assert_int_equal(consumed.ring->lost, consumed.lost);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(an_empty_ring_has_nothing_to_read),
		TEST(nested_calls_come_out_in_order_with_their_payload),
		TEST(an_end_that_follows_its_start_makes_one_record),
		TEST(what_lasts_too_long_for_one_record_has_two),
		TEST(a_start_that_is_held_back_can_be_looked_at),
		TEST(a_record_may_lie_across_the_rings_end),
		TEST(every_start_that_was_taken_has_room_for_its_end),
		TEST(an_end_goes_without_its_payload_rather_than_not_at_all),
		TEST(losses_are_counted_where_they_happened),
		TEST(the_last_losses_are_told_at_the_end),
		TEST(a_forked_child_does_not_inherit_the_memory),
		TEST(two_threads_lose_nothing_uncounted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
