#ifndef RBPROBE_RING_H
#define RBPROBE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The way from the traced threads to the writer thread: a ring of bytes with one producer at a time (whoever holds the GVL;
 * handing the GVL over orders their writes) and one consumer. Knows nothing of Ruby. No lock, no syscall, no atomic
 * read-modify-write, no allocation between open and close.
 *
 * A start is taken only where its end will fit, too: the end's space is set aside with it. So a call is either in the ring as a
 * whole or lost as a whole, and counted; the gap is a record of its own in front of the next one taken.
 *
 * Most calls have no traced call inside: their end comes right behind their start. So the newest record, if it is a start, is
 * held back from the consumer: its end makes it a record of the whole call, in its place. Anything else that is pushed releases
 * it as it is. A call that takes long is seen nevertheless: the consumer may look at the start that is held back, at what is not
 * written again when it becomes a call.
 *
 * The bytes are mapped twice, one mapping behind the other, so that a record never has to be split at the ring's end. Neither
 * mapping is inherited by a forked child.
 */

enum ring_kind {
	RING_START = 1,
	RING_END = 2,
	RING_LOST = 3, /* payload: struct ring_gap */
	RING_FIBER_GONE = 4,
	RING_CALL = 5,         /* a start and its end */
	RING_CALL_OUTCOME = 6, /* the same; behind the start's payload follows that of the end: ring_outcome() */
	RING_MARK = 7,         /* neither, and nothing that ends */
};

struct ring_record {
	uint16_t payload_size; /* bytes behind this header; what follows begins at the next multiple of 8 */
	uint8_t kind;
	uint8_t ending; /* enum ending, of an end or call */
	uint32_t method;
	uint32_t fiber;
	uint32_t duration; /* of a call: from its start's time to its end's; of an end: how often it was retried */
	uint64_t time;     /* in the producer's unit; ticks.h */
};

struct ring_gap {
	uint64_t calls;
	uint64_t from; /* times */
	uint64_t to;
};

/* The end's payload in a RING_CALL_OUTCOME. */
struct ring_outcome {
	uint64_t size;
	uint8_t bytes[];
};

#define RING_PAYLOAD_MAX UINT16_MAX
#define RING_ALIGN(size) (((uint64_t)(size) + 7) & ~UINT64_C(7))
#define RING_RECORD_BYTES(payload_size) RING_ALIGN(sizeof(struct ring_record) + (payload_size))
/* What an end without payload takes, and what is kept free at all times so that the gap of the losses can be told. */
#define RING_END_BYTES RING_RECORD_BYTES(0)
#define RING_GAP_BYTES RING_RECORD_BYTES(sizeof(struct ring_gap))

/* In place of a position: the start was not taken. */
#define RING_NOWHERE UINT64_MAX
/* The same, of a start that may be pushed when its call ends. */
#define RING_LATER (UINT64_MAX - 1)

/* Positions count bytes since the ring was opened. */
struct ring {
	uint8_t *bytes; /* 2 * size mapped; set once */
	uint64_t size;  /* a power of two; set once */

	/* The producer's. */
	uint64_t cached_tail;
	uint64_t set_aside; /* bytes for the ends of calls that have begun */
	struct ring_gap gap;
	uint64_t lost; /* calls, in all */

	/* Written by the producer: what is before `head` is the consumer's; a start in [head, written) is held back. */
	_Alignas(64) _Atomic uint64_t head;
	_Atomic uint64_t written;
	_Alignas(64) _Atomic uint64_t tail; /* written by the consumer */
};

/* size: a power of two and a multiple of the page size. 0 or -errno. */
int ring_open(struct ring *ring, size_t size);
void ring_close(struct ring *ring);

/* --- Producer */

/* The position behind what it has pushed. */
static inline uint64_t ring_written(const struct ring *ring)
{
	return atomic_load_explicit(&ring->written, memory_order_relaxed);
}

static inline struct ring_record *ring_record_at(const struct ring *ring, uint64_t position)
{
	return (struct ring_record *)(ring->bytes + (position & (ring->size - 1)));
}

/*
 * Whether `need` bytes are free besides those set aside. The consumer's position is asked for only when the known one is too old.
 */
static inline bool ring_fits(struct ring *ring, uint64_t need)
{
	uint64_t wanted = ring_written(ring) + need + ring->set_aside + RING_GAP_BYTES;

	if (__builtin_expect(wanted - ring->cached_tail <= ring->size, 1))
		return true;
	ring->cached_tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
	return wanted - ring->cached_tail <= ring->size;
}

/* True where a start with that payload would be taken now. */
static inline bool ring_has_room(struct ring *ring, size_t payload_size)
{
	return ring_fits(ring, (ring->gap.calls ? RING_GAP_BYTES : 0) + RING_RECORD_BYTES(payload_size) + RING_END_BYTES);
}

/* Releases the start that is held back, if one is. */
static inline void ring_release(struct ring *ring)
{
	atomic_store_explicit(&ring->head, ring_written(ring), memory_order_release);
}

/* Writes a record behind the others, and does not say so yet; returns the position behind it. */
static inline uint64_t ring_put(struct ring *ring, const struct ring_record *record, const void *payload, size_t payload_size)
{
	uint64_t at = ring_written(ring);
	struct ring_record *to = ring_record_at(ring, at);

	/* One by one: a compiler that copies a record which was just written in parts makes the processor wait. */
	to->payload_size = (uint16_t)payload_size;
	to->kind = record->kind;
	to->ending = record->ending;
	to->method = record->method;
	to->fiber = record->fiber;
	to->duration = record->duration;
	to->time = record->time;
	if (payload_size)
		__builtin_memcpy(to + 1, payload, payload_size);
	return at + RING_RECORD_BYTES(payload_size);
}

/*
 * Makes everything before that position the consumer's. In this order: what the consumer sees between head and written is a
 * start.
 */
static inline void ring_publish(struct ring *ring, uint64_t position)
{
	atomic_store_explicit(&ring->head, position, memory_order_release);
	atomic_store_explicit(&ring->written, position, memory_order_release);
}

/* Tells the consumer of losses that no later record has announced; at the end of a session. */
void ring_flush_gap(struct ring *ring);
void ring_count_lost(struct ring *ring, uint64_t time);
/* So many calls, of about that time. */
void ring_count_many_lost(struct ring *ring, uint64_t time, uint64_t calls);

/*
 * record's method, fiber and time are the caller's; payload_size bytes are copied behind it. Returns its position, for
 * ring_push_end(). A start that does not fit is counted as lost, and RING_NOWHERE comes back: its end must then not be pushed.
 */
static inline uint64_t ring_push_start(struct ring *ring, const struct ring_record *record, const void *payload,
                                       size_t payload_size)
{
	uint64_t at;

	if (__builtin_expect(!ring_has_room(ring, payload_size), 0)) {
		ring_count_lost(ring, record->time);
		return RING_NOWHERE;
	}
	if (__builtin_expect(ring->gap.calls != 0, 0))
		ring_flush_gap(ring);
	at = ring_written(ring);
	atomic_store_explicit(&ring->head, at, memory_order_release);
	atomic_store_explicit(&ring->written, ring_put(ring, record, payload, payload_size), memory_order_release);
	ring->set_aside += RING_END_BYTES;
	return at;
}

/* An end that cannot be put into its start's record, or has a payload. */
bool ring_push_separate_end(struct ring *ring, uint64_t start, const struct ring_record *record, const void *payload,
                            size_t payload_size);

/*
 * start: what ring_push_start() returned for it. record's ending, method, fiber and time are the caller's. An end always fits;
 * where its payload does not, it goes without, and false comes back.
 */
static inline bool ring_push_end(struct ring *ring, uint64_t start, const struct ring_record *record, const void *payload,
                                 size_t payload_size)
{
	struct ring_record *call = ring_record_at(ring, start);
	uint64_t written = ring_written(ring);

	if (__builtin_expect(payload_size || start != atomic_load_explicit(&ring->head, memory_order_relaxed) ||
	                             start == written || record->time - call->time > UINT32_MAX,
	                     0))
		return ring_push_separate_end(ring, start, record, payload, payload_size);
	ring->set_aside -= RING_END_BYTES;
	call->duration = (uint32_t)(record->time - call->time);
	call->ending = record->ending;
	call->kind = RING_CALL;
	atomic_store_explicit(&ring->head, written, memory_order_release);
	return true;
}

/* A record beside the calls, without payload. False where there is no room for it; that is not counted. */
bool ring_push_aside(struct ring *ring, const struct ring_record *record);
/* The same with a payload. */
bool ring_push_mark(struct ring *ring, const struct ring_record *record, const void *payload, size_t payload_size);

/* --- Consumer */

/* The position up to which records may be read now. */
static inline uint64_t ring_readable(const struct ring *ring)
{
	return atomic_load_explicit(&ring->head, memory_order_acquire);
}

/* The consumer's own position. */
static inline uint64_t ring_position(const struct ring *ring)
{
	return atomic_load_explicit(&ring->tail, memory_order_relaxed);
}

/* Gives the space of the records before that position back. */
static inline void ring_advance(struct ring *ring, uint64_t position)
{
	atomic_store_explicit(&ring->tail, position, memory_order_release);
}

static inline const void *ring_payload(const struct ring_record *record)
{
	return record + 1;
}

/* Of a RING_CALL_OUTCOME. */
static inline const struct ring_outcome *ring_outcome(const struct ring_record *record)
{
	return (const struct ring_outcome *)((const uint8_t *)record + RING_RECORD_BYTES(record->payload_size));
}

/* From one record's position to the next one's. */
static inline uint64_t ring_record_bytes(const struct ring_record *record)
{
	uint64_t bytes = RING_RECORD_BYTES(record->payload_size);

	if (__builtin_expect(record->kind == RING_CALL_OUTCOME, 0))
		bytes += RING_ALIGN(sizeof(struct ring_outcome) + ring_outcome(record)->size);
	return bytes;
}

/*
 * The start that is held back when everything before it has been read, or NULL. Its kind, ending and duration must not be looked
 * at: the producer may be writing them. Otherwise it is valid until the position is advanced.
 */
const struct ring_record *ring_held_back(const struct ring *ring);

#endif
