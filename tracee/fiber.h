#ifndef RBPROBE_FIBER_H
#define RBPROBE_FIBER_H

#include "proto/limits.h"

#include <ruby.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * What is kept per fiber (every thread has at least one): the calls that have begun and not ended, for each session. It is
 * created with a fiber's first event and hangs on the Fiber object as a hidden instance variable, so it goes when the fiber goes.
 */

/* A call that has begun. */
struct open_call {
	uintptr_t frame; /* frame_of_call(); 0 where frames are not known */
	struct probe *probe;
	uint32_t retries : 31; /* it was begun anew, in its frame */
	uint32_t told : 1;     /* by its frame: frame_direct_is_gone() says whether it still is there */
	uint64_t start;        /* where in the ring; RING_NOWHERE: the call is lost and its end must not be sent */
};

struct call_stack {
	struct open_call *calls;
	uint32_t depth;
	uint32_t size;
	bool defined; /* the session's client knows this fiber */
};

struct fiber_state {
	_Alignas(64) uint32_t ref;              /* unique among the living */
	unsigned own;                           /* what runs now is ours, or an expression of the user's: no call is observed */
	const uintptr_t *frame_place;           /* where the VM keeps the fiber's innermost frame; patch_frame() fills it in */
	struct call_stack stacks[SESSIONS_MAX]; /* by the session's slot */
	struct fiber_state *next, **previous_next;
};

/*
 * on_death is told of a fiber that is collected, during GC: it may not allocate. It returns whether all clients that know the fiber's
 * number learn of it: then the number may be given to another fiber.
 */
void fiber_init(bool (*on_death)(struct fiber_state *state));

/*
 * The running fiber's state. NULL where the caller is not in the main Ractor, or the fiber cannot carry one (frozen, no memory).
 * Event context; allocates the first time it meets a fiber.
 */
struct fiber_state *fiber_current_state(void);

/*
 * Around work of ours that calls Ruby methods outside of an event: that is no call of the application's. Job context. end takes what begin
 * gave, also where an exception ended the work.
 */
struct fiber_state *fiber_own_begin(void);
void fiber_own_end(struct fiber_state *state);

/*
 * The same where it is known which execution context the event is of (frame_direct.h). The fibers that were met last are found by it at once. Other
 * Ractors may look, too: they never find theirs, since only those of the main one are noted, under its GVL.
 */
struct fiber_note {
	_Atomic uintptr_t context; /* 0: none */
	_Atomic uint32_t generation;
	struct fiber_state *state;
};

#define FIBER_NOTES 64u /* a power of two */

extern struct fiber_note fiber_notes[FIBER_NOTES];
extern _Atomic uint32_t fiber_generation; /* of notes: goes up when a fiber may have died or moved */

struct fiber_state *fiber_note_context(uintptr_t context);

static inline struct fiber_note *fiber_note_of(uintptr_t context)
{
	return &fiber_notes[(context >> 6 ^ context >> 12) & (FIBER_NOTES - 1)];
}

static inline struct fiber_state *fiber_state_of_context(uintptr_t context)
{
	const struct fiber_note *note = fiber_note_of(context);

	if (__builtin_expect(atomic_load_explicit(&note->context, memory_order_relaxed) == context &&
	                             atomic_load_explicit(&note->generation, memory_order_relaxed) ==
	                                     atomic_load_explicit(&fiber_generation, memory_order_relaxed),
	                     1))
		return note->state;
	return fiber_note_context(context);
}

/* False without memory. Event context. */
bool call_stack_push(struct call_stack *stack, const struct open_call *call);

/* Forgets and frees what all fibers keep for a session's slot. Job context. */
void fiber_forget_session(unsigned slot);

/* What the client is told of the running fiber; name is a Ruby String or nil. Event context, slow path, under rb_protect. */
struct fiber_description {
	uint64_t thread_id;
	uint32_t native_id;
	VALUE thread_name;
	bool root;        /* its thread's own */
	VALUE created_at; /* "file:line" of another, or nil: its block is written in C */
};
void fiber_describe(struct fiber_description *description);

#endif
