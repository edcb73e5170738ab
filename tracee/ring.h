#ifndef RBPROBE_RING_H
#define RBPROBE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The way from the traced threads to the writer thread: a ring of bytes with one producer at a time (whoever holds the
 * GVL; handing the GVL over orders their writes) and one consumer. Knows nothing of Ruby. No lock, no syscall, no allocation
 * between open and close.
 *
 * A start is taken only where its end will fit, too: the end's space is set aside with it. So a call is either in the ring
 * with both of its records or lost as a whole, and counted; the gap is a record of its own in front of the next one taken.
 *
 * The bytes are mapped twice, one mapping behind the other, so that a record never has to be split at the ring's end.
 * Neither mapping is inherited by a forked child.
 */

enum ring_kind {
	RING_START = 1,
	RING_END = 2,
	RING_LOST = 3, /* payload: struct ring_gap */
	RING_FIBER_GONE = 4,
};

struct ring_record {
	uint16_t payload_size; /* bytes behind this header; the next record starts at the next multiple of 8 */
	uint8_t kind;
	uint8_t ending; /* enum ending, of an end */
	uint32_t method;
	uint32_t fiber;
	uint32_t unused;
	uint64_t time_ns; /* CLOCK_MONOTONIC */
};

struct ring_gap {
	uint64_t calls;
	uint64_t from_ns;
	uint64_t to_ns;
};

#define RING_PAYLOAD_MAX UINT16_MAX

struct ring {
	uint8_t *bytes; /* 2 * size mapped; set once */
	uint64_t size;  /* a power of two; set once */

	/* The producer's. */
	uint64_t cached_tail;
	uint64_t set_aside; /* bytes for the ends of calls that have begun */
	struct ring_gap gap;
	uint64_t lost; /* calls, in all */

	_Alignas(64) _Atomic uint64_t head; /* counts bytes; written by the producer */
	_Alignas(64) _Atomic uint64_t tail; /* written by the consumer */
};

/* size: a power of two and a multiple of the page size. 0 or -errno. */
int ring_open(struct ring *ring, size_t size);
void ring_close(struct ring *ring);

/*
 * Producer. record's kind, ending, method, fiber and time_ns are the caller's; payload_size bytes are copied behind it.
 * A start that does not fit is counted as lost and false comes back: its end must then not be pushed. An end always fits; where
 * its payload does not, it goes without, and false comes back.
 */
bool ring_push_start(struct ring *ring, const struct ring_record *record, const void *payload, size_t payload_size);
bool ring_push_end(struct ring *ring, const struct ring_record *record, const void *payload, size_t payload_size);
/* A record beside the calls, without payload. False where there is no room for it; that is not counted. */
bool ring_push_aside(struct ring *ring, const struct ring_record *record);
/* True where a start with that payload would be taken now. */
bool ring_has_room(struct ring *ring, size_t payload_size);
/* Tells the consumer of losses that no later record has announced; at the end of a session. */
void ring_flush_gap(struct ring *ring);

/* Producer: the position behind what it has pushed. */
static inline uint64_t ring_head(const struct ring *ring)
{
	return atomic_load_explicit(&ring->head, memory_order_relaxed);
}

/* Consumer. The position up to which records may be read now. */
uint64_t ring_readable(const struct ring *ring);
/* Whether the consumer's position is before that one. */
static inline bool ring_is_behind(const struct ring *ring, uint64_t position)
{
	return atomic_load_explicit(&ring->tail, memory_order_relaxed) < position;
}
/* The record at the consumer's position, or NULL when it has reached `end`. Valid until ring_advance(). */
const struct ring_record *ring_peek(const struct ring *ring, uint64_t end);
static inline const void *ring_payload(const struct ring_record *record)
{
	return record + 1;
}
void ring_advance(struct ring *ring, const struct ring_record *record);

#endif
