/* The ring between traced threads and writer. See ring.h. Contexts: event (push), writer thread (peek, advance), job (open, close). */

#define _GNU_SOURCE
#include "ring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGN8(size) (((uint64_t)(size) + 7) & ~UINT64_C(7))
#define RECORD_BYTES(payload_size) ALIGN8(sizeof(struct ring_record) + (payload_size))

/* What an end without payload takes, and what is kept free at all times so that the gap of the losses can be told. */
#define END_BYTES RECORD_BYTES(0)
#define GAP_BYTES RECORD_BYTES(sizeof(struct ring_gap))

int ring_open(struct ring *ring, size_t size)
{
	uint8_t *bytes;
	int status = 0;
	int fd;

	memset(ring, 0, sizeof(*ring));
	fd = memfd_create("rbprobe-ring", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) != 0) {
		status = -errno;
		goto close_file;
	}
	bytes = mmap(NULL, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bytes == MAP_FAILED) {
		status = -errno;
		goto close_file;
	}
	if (mmap(bytes, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED ||
	    mmap(bytes + size, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED ||
	    madvise(bytes, 2 * size, MADV_DONTFORK) != 0) {
		status = -errno;
		munmap(bytes, 2 * size);
		goto close_file;
	}
	ring->bytes = bytes;
	ring->size = size;
close_file:
	close(fd);
	return status;
}

void ring_close(struct ring *ring)
{
	if (ring->bytes)
		munmap(ring->bytes, 2 * ring->size);
	ring->bytes = NULL;
}

/* Whether `need` bytes are free besides those set aside. The consumer's position is asked for only when the known one is too old. */
static bool fits(struct ring *ring, uint64_t need)
{
	uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	uint64_t wanted = head + need + ring->set_aside + GAP_BYTES;

	if (wanted - ring->cached_tail <= ring->size)
		return true;
	ring->cached_tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
	return wanted - ring->cached_tail <= ring->size;
}

static void append(struct ring *ring, const struct ring_record *record, const void *payload, size_t payload_size)
{
	uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	struct ring_record *to = (struct ring_record *)(ring->bytes + (head & (ring->size - 1)));

	*to = *record;
	to->payload_size = (uint16_t)payload_size;
	if (payload_size)
		memcpy(to + 1, payload, payload_size);
	atomic_store_explicit(&ring->head, head + RECORD_BYTES(payload_size), memory_order_release);
}

void ring_flush_gap(struct ring *ring)
{
	struct ring_record record = {.kind = RING_LOST, .time_ns = ring->gap.from_ns};

	if (ring->gap.calls == 0)
		return;
	append(ring, &record, &ring->gap, sizeof(ring->gap));
	memset(&ring->gap, 0, sizeof(ring->gap));
}

bool ring_has_room(struct ring *ring, size_t payload_size)
{
	uint64_t gap = ring->gap.calls ? GAP_BYTES : 0;

	return fits(ring, gap + RECORD_BYTES(payload_size) + END_BYTES);
}

bool ring_push_start(struct ring *ring, const struct ring_record *record, const void *payload, size_t payload_size)
{
	if (!ring_has_room(ring, payload_size)) {
		if (ring->gap.calls++ == 0)
			ring->gap.from_ns = record->time_ns;
		ring->gap.to_ns = record->time_ns;
		ring->lost++;
		return false;
	}
	if (ring->gap.calls)
		ring_flush_gap(ring);
	append(ring, record, payload, payload_size);
	ring->set_aside += END_BYTES;
	return true;
}

bool ring_push_end(struct ring *ring, const struct ring_record *record, const void *payload, size_t payload_size)
{
	bool whole;

	ring->set_aside -= END_BYTES;
	whole = payload_size == 0 || fits(ring, RECORD_BYTES(payload_size));
	append(ring, record, payload, whole ? payload_size : 0);
	return whole;
}

bool ring_push_aside(struct ring *ring, const struct ring_record *record)
{
	if (!fits(ring, RECORD_BYTES(0)))
		return false;
	append(ring, record, NULL, 0);
	return true;
}

uint64_t ring_readable(const struct ring *ring)
{
	return atomic_load_explicit(&ring->head, memory_order_acquire);
}

const struct ring_record *ring_peek(const struct ring *ring, uint64_t end)
{
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

	if (tail == end)
		return NULL;
	return (const struct ring_record *)(ring->bytes + (tail & (ring->size - 1)));
}

void ring_advance(struct ring *ring, const struct ring_record *record)
{
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

	atomic_store_explicit(&ring->tail, tail + RECORD_BYTES(record->payload_size), memory_order_release);
}
