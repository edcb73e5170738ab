/*
 * The ring between traced threads and writer. See ring.h. Contexts: event (push), writer thread (peek, advance), job (open,
 * close).
 */

#define _GNU_SOURCE
#include "tracee/base/ring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/*
 * The same memory twice, one behind the other, so that no record is cut in two. Without a file: programs may be forbidden to have
 * one in memory.
 */
int ring_open(struct ring *ring, size_t size)
{
	uint8_t *bytes;

	memset(ring, 0, sizeof(*ring));
	bytes = mmap(NULL, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bytes == MAP_FAILED)
		return -errno;
	/* Moving nothing of a shared mapping shows it in a second place. */
	if (mmap(bytes, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED ||
	    mremap(bytes, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, bytes + size) == MAP_FAILED ||
	    madvise(bytes, 2 * size, MADV_DONTFORK) != 0) {
		int status = -errno;

		munmap(bytes, 2 * size);
		return status;
	}
	ring->bytes = bytes;
	ring->size = size;
	return 0;
}

void ring_close(struct ring *ring)
{
	if (ring->bytes)
		munmap(ring->bytes, 2 * ring->size);
	ring->bytes = NULL;
}

void ring_flush_gap(struct ring *ring)
{
	struct ring_record record = {.kind = RING_LOST, .time = ring->gap.from};

	ring_release(ring);
	if (ring->gap.calls == 0)
		return;
	ring_publish(ring, ring_put(ring, &record, &ring->gap, sizeof(ring->gap)));
	memset(&ring->gap, 0, sizeof(ring->gap));
}

void ring_count_lost(struct ring *ring, uint64_t time)
{
	if (ring->gap.calls++ == 0)
		ring->gap.from = time;
	ring->gap.to = time;
	ring->lost++;
}

void ring_count_many_lost(struct ring *ring, uint64_t time, uint64_t calls)
{
	if (calls == 0)
		return;
	ring_count_lost(ring, time);
	ring->gap.calls += calls - 1;
	ring->lost += calls - 1;
}

/* Makes the start that is held back a call, with its end's payload behind it. False where there is no room for that. */
static bool put_outcome(struct ring *ring, uint64_t start, const struct ring_record *record, const void *payload,
                        size_t payload_size)
{
	struct ring_record *call = ring_record_at(ring, start);
	uint64_t written = ring_written(ring);
	uint64_t bytes = RING_ALIGN(sizeof(struct ring_outcome) + payload_size);
	struct ring_outcome *outcome = (struct ring_outcome *)ring_record_at(ring, written);

	if (!ring_fits(ring, bytes))
		return false;
	outcome->size = payload_size;
	memcpy(outcome->bytes, payload, payload_size);
	call->duration = (uint32_t)(record->time - call->time);
	call->ending = record->ending;
	call->kind = RING_CALL_OUTCOME;
	ring_publish(ring, written + bytes);
	return true;
}

bool ring_push_separate_end(struct ring *ring, uint64_t start, const struct ring_record *record, const void *payload,
                            size_t payload_size)
{
	bool held_back = start == atomic_load_explicit(&ring->head, memory_order_relaxed) && start != ring_written(ring);
	bool whole;

	ring->set_aside -= RING_END_BYTES;
	if (held_back && payload_size && record->time - ring_record_at(ring, start)->time <= UINT32_MAX &&
	    put_outcome(ring, start, record, payload, payload_size))
		return true;
	whole = payload_size == 0 || ring_fits(ring, RING_RECORD_BYTES(payload_size));
	ring_publish(ring, ring_put(ring, record, payload, whole ? payload_size : 0));
	return whole;
}

bool ring_push_aside(struct ring *ring, const struct ring_record *record)
{
	if (!ring_fits(ring, RING_RECORD_BYTES(0)))
		return false;
	ring_publish(ring, ring_put(ring, record, NULL, 0));
	return true;
}

bool ring_push_mark(struct ring *ring, const struct ring_record *record, const void *payload, size_t payload_size)
{
	if (!ring_fits(ring, (ring->gap.calls ? RING_GAP_BYTES : 0) + RING_RECORD_BYTES(payload_size)))
		return false;
	if (ring->gap.calls)
		ring_flush_gap(ring);
	ring_publish(ring, ring_put(ring, record, payload, payload_size));
	return true;
}

const struct ring_record *ring_held_back(const struct ring *ring)
{
	uint64_t tail = ring_position(ring);
	uint64_t written = atomic_load_explicit(&ring->written, memory_order_acquire);

	/*
	 * In this order: if head has not passed the consumer yet, what had been written before can only be that start. Between
	 * the two stores of ring_publish() the consumer may have passed what counts as written.
	 */
	if (written <= tail || atomic_load_explicit(&ring->head, memory_order_acquire) != tail)
		return NULL;
	return ring_record_at(ring, tail);
}
