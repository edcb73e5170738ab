/* The ring: order, exact losses, room for every end, and a producer and a consumer that run at once. */

#include "proto/wire.h"
#include "tracee/ring.h"
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

static bool push_start(struct ring *ring, uint32_t number, const void *payload, size_t size)
{
	return ring_push_start(ring, &(struct ring_record){.kind = RING_START, .method = number, .time_ns = number}, payload,
	                       size);
}

static bool push_end(struct ring *ring, uint32_t number, const void *payload, size_t size)
{
	return ring_push_end(ring, &(struct ring_record){.kind = RING_END, .method = number, .time_ns = number}, payload, size);
}

/* Takes the next record, which must be this. */
static const struct ring_record *expect(struct ring *ring, enum ring_kind kind, uint32_t number)
{
	const struct ring_record *record = ring_peek(ring, ring_readable(ring));

	assert_non_null(record);
	assert_int_equal(record->kind, kind);
	if (kind != RING_LOST)
		assert_int_equal(record->method, number);
	return record;
}

static void take(struct ring *ring, enum ring_kind kind, uint32_t number)
{
	ring_advance(ring, expect(ring, kind, number));
}

static void take_gap(struct ring *ring, uint64_t calls, uint64_t from_ns, uint64_t to_ns)
{
	const struct ring_record *record = expect(ring, RING_LOST, 0);
	struct ring_gap gap;

	memcpy(&gap, ring_payload(record), sizeof(gap));
	assert_int_equal(gap.calls, calls);
	assert_int_equal(gap.from_ns, from_ns);
	assert_int_equal(gap.to_ns, to_ns);
	ring_advance(ring, record);
}

static void an_empty_ring_has_nothing_to_read(void **state)
{
	assert_null(ring_peek(*state, ring_readable(*state)));
}

static void records_come_out_in_order_with_their_payload(void **state)
{
	struct ring *ring = *state;
	const struct ring_record *record;

	assert_true(push_start(ring, 1, "one", 3));
	assert_true(push_start(ring, 2, NULL, 0));
	assert_true(push_end(ring, 2, "result", 6));
	assert_true(push_end(ring, 1, NULL, 0));
	record = expect(ring, RING_START, 1);
	assert_int_equal(record->payload_size, 3);
	assert_memory_equal(ring_payload(record), "one", 3);
	ring_advance(ring, record);
	take(ring, RING_START, 2);
	record = expect(ring, RING_END, 2);
	assert_memory_equal(ring_payload(record), "result", 6);
	ring_advance(ring, record);
	take(ring, RING_END, 1);
	assert_null(ring_peek(ring, ring_readable(ring)));
}

static void a_record_may_lie_across_the_rings_end(void **state)
{
	struct ring *ring = *state;
	char payload[1000];

	memset(payload, 'p', sizeof(payload));
	for (uint32_t i = 1; i < 1000; i++) {
		const struct ring_record *record;

		payload[0] = payload[sizeof(payload) - 1] = (char)i;
		assert_true(push_start(ring, i, payload, sizeof(payload)));
		assert_true(push_end(ring, i, NULL, 0));
		record = expect(ring, RING_START, i);
		assert_memory_equal(ring_payload(record), payload, sizeof(payload));
		ring_advance(ring, record);
		take(ring, RING_END, i);
	}
}

static void every_start_that_was_taken_has_room_for_its_end(void **state)
{
	struct ring *ring = *state;
	uint32_t taken = 0;

	while (push_start(ring, taken + 1, "0123456789", 10))
		taken++;
	assert_true(taken > 100);
	for (uint32_t i = taken; i > 0; i--)
		push_end(ring, i, NULL, 0);
	for (uint32_t i = 1; i <= taken; i++)
		take(ring, RING_START, i);
	for (uint32_t i = taken; i > 0; i--)
		take(ring, RING_END, i);
}

static void an_end_goes_without_its_payload_rather_than_not_at_all(void **state)
{
	struct ring *ring = *state;
	static char payload[RING_PAYLOAD_MAX];
	uint32_t taken = 0;

	while (push_start(ring, taken + 1, NULL, 0))
		taken++;
	assert_false(push_end(ring, taken, payload, 1000));
	for (uint32_t i = 1; i <= taken; i++)
		take(ring, RING_START, i);
	assert_int_equal(expect(ring, RING_END, taken)->payload_size, 0);
}

static void losses_are_counted_where_they_happened(void **state)
{
	struct ring *ring = *state;
	uint32_t taken = 0;

	while (push_start(ring, taken + 1, NULL, 0))
		taken++;
	/* taken + 1 was lost already. */
	assert_false(push_start(ring, taken + 2, NULL, 0));
	assert_false(push_start(ring, taken + 3, NULL, 0));
	assert_int_equal(ring->lost, 3);
	for (uint32_t i = 1; i <= taken; i++)
		take(ring, RING_START, i);
	assert_null(ring_peek(ring, ring_readable(ring)));

	assert_true(push_start(ring, 7, NULL, 0));
	take_gap(ring, 3, taken + 1, taken + 3);
	take(ring, RING_START, 7);
}

static void the_last_losses_are_told_at_the_end(void **state)
{
	struct ring *ring = *state;
	uint32_t taken = 0;

	while (push_start(ring, taken + 1, NULL, 0))
		taken++;
	while (taken > 0)
		push_end(ring, taken--, NULL, 0);
	ring_flush_gap(ring);
	ring_flush_gap(ring); /* once is enough */
	while (expect(ring, ring_peek(ring, ring_readable(ring))->kind, ring_peek(ring, ring_readable(ring))->method)->kind !=
	       RING_LOST)
		ring_advance(ring, ring_peek(ring, ring_readable(ring)));
	ring_advance(ring, ring_peek(ring, ring_readable(ring)));
	assert_null(ring_peek(ring, ring_readable(ring)));
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
	uint64_t starts, ends, lost;
	int disorder;
};

static void *consume(void *argument)
{
	struct consumed *consumed = argument;
	uint32_t last = 0;

	for (;;) {
		int finished = consumed->finished;
		uint64_t end = ring_readable(consumed->ring);
		const struct ring_record *record;

		while ((record = ring_peek(consumed->ring, end))) {
			if (record->kind == RING_LOST) {
				struct ring_gap gap;

				memcpy(&gap, ring_payload(record), sizeof(gap));
				consumed->lost += gap.calls;
			} else if (record->kind == RING_START) {
				uint32_t echo;

				memcpy(&echo, ring_payload(record), sizeof(echo));
				consumed->disorder |= echo != record->method || record->method <= last;
				last = record->method;
				consumed->starts++;
			} else {
				consumed->disorder |= record->method != last;
				consumed->ends++;
			}
			ring_advance(consumed->ring, record);
		}
		if (finished)
			return NULL;
	}
}

static void two_threads_lose_nothing_uncounted(void **state)
{
	struct consumed consumed = {.ring = *state};
	pthread_t thread;
	uint64_t taken = 0;

	assert_int_equal(pthread_create(&thread, NULL, consume, &consumed), 0);
	for (uint32_t i = 1; i <= CALLS; i++) {
		if (!push_start(consumed.ring, i, &i, sizeof(i)))
			continue;
		taken++;
		push_end(consumed.ring, i, NULL, 0);
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
		TEST(records_come_out_in_order_with_their_payload),
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
