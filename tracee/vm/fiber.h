#ifndef RBPROBE_FIBER_H
#define RBPROBE_FIBER_H

#include "proto/limits.h"
#include "tracee/vm/evaluation.h"

#include <pthread.h>
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
	uint32_t roles;        /* of its probe, when it began */
	uint32_t values_size;  /* of its start, in the stack's arena; only with RING_LATER: */
	uint32_t kept : 31;    /* where it is kept, if it is; observe/kept.h */
	uint32_t met : 1;      /* the same: it has ended, and meets the conditions */
	uint64_t start;        /* where in the ring; RING_NOWHERE: it is lost or hidden, and its end must not be sent */
	uint64_t began;        /* ticks; only with RING_LATER, and where ends may be shown */
	struct tally *tally;   /* where it is counted, if it is */
	uint64_t inner;        /* ticks that counted calls inside of it took */
	uint64_t cpu_ns;       /* of its thread, when it began; only where that is a condition, or measured */
	uint64_t objects;      /* measured when it began, where the trace asks for it, */
	uint64_t gc_ns;
	const void *measured_in; /* and in which native thread */
	VALUE binding;           /* of its frame; only with CALL_HAS_BINDING */
};

/* Of a call's roles. */
#define CALL_HAS_BINDING (1u << 9)

struct call_stack {
	struct open_call *calls;
	uint32_t depth;
	uint32_t size;
	bool defined;  /* the session's client knows this fiber */
	bool bindings; /* some of the calls have had one */
	uint32_t held; /* how often what this fiber does holds the session: session_hold_for() */
	char *values;  /* that it is making, of malloc() or the session's own; NULL: none */
	bool starting; /* what is made is for the start of a call, which is not shown yet; */
	bool ending;   /* or decides about one that has ended */

	/* How many of the open calls are shown, and how many are such that others are shown only inside or outside of them. */
	uint32_t shown, within, outside;
	uint16_t thread_key;     /* its thread's key, + 1, where calls are counted by thread; 0: not known */
	struct tally *tally;     /* where the call that begins is to be counted, where that depends on a key */
	bool thread_meant;       /* the fiber's thread, as far as is known; */
	uint64_t thread_look_ns; /* when somebody looked; 0: never */
	/* Values of the starts of open calls that may be shown later, the innermost last. */
	char *arena;
	size_t arena_used, arena_size;
	/* Calls that wait as a whole; observe/kept.h. */
	char *kept;
	size_t kept_used, kept_size;
	size_t kept_after_walk; /* kept_used, when what can be given up was */
	uint32_t kept_open;
	uint32_t kept_ending; /* whose end is being made: its place + 1; 0: none */
};

struct fiber_state {
	_Alignas(64) uint32_t ref;              /* unique among the living */
	unsigned suppress_depth;                /* what runs now is ours, or an expression of the user's: no call is observed */
	const uintptr_t *frame_place;           /* where the VM keeps the fiber's innermost frame; patch_frame_place() */
	struct call_stack stacks[SESSIONS_MAX]; /* by the session's slot */
	struct evaluation evaluation;           /* of an expression of the user's */
	pthread_t native_thread;
	uintptr_t context; /* its execution context; 0: not known */
	struct fiber_state *next, **previous_next;
};

/*
 * on_death is told of a fiber that is collected, during GC: it may not allocate. It returns whether all clients that know the
 * fiber's number learn of it: then the number may be given to another fiber.
 */
void fiber_init(bool (*on_death)(struct fiber_state *state));

/*
 * The fibers that were met last. Other Ractors may look, too: they never find theirs, since only those of the main one are noted,
 * under its GVL.
 */
struct fiber_note {
	_Alignas(16) _Atomic uintptr_t key; /* 0: none */
	struct fiber_state *state;
};

#define FIBER_NOTES 64u /* a power of two */

extern struct fiber_note fiber_notes[FIBER_NOTES]; /* by their execution contexts */
extern struct fiber_note fiber_notes_of_objects[FIBER_NOTES];

static inline struct fiber_note *fiber_note_of(struct fiber_note *notes, uintptr_t key)
{
	return &notes[key >> 6 & (FIBER_NOTES - 1)];
}

/* NULL: it is not noted. */
static inline struct fiber_state *fiber_noted(struct fiber_note *notes, uintptr_t key)
{
	const struct fiber_note *note = fiber_note_of(notes, key);

	return __builtin_expect(atomic_load_explicit(&note->key, memory_order_relaxed) == key, 1) ? note->state : NULL;
}

struct fiber_state *fiber_note_object(VALUE fiber);
struct fiber_state *fiber_note_context(uintptr_t context);

/* The running fiber's state, where its execution context is known (frame_direct.h). NULL as below. */
static inline struct fiber_state *fiber_state_of_context(uintptr_t context)
{
	struct fiber_state *state = fiber_noted(fiber_notes, context);

	return __builtin_expect(state != NULL, 1) ? state : fiber_note_context(context);
}

#ifdef HAVE_RUBY_CURRENT_EC
extern __thread void *ruby_current_ec;
#endif

/*
 * The running fiber's state. NULL where the caller is not in the main Ractor, or the fiber cannot carry one (frozen, no memory).
 * Event context; allocates the first time it meets a fiber.
 */
static inline struct fiber_state *fiber_current_state(void)
{
#ifdef HAVE_RUBY_CURRENT_EC
	return fiber_state_of_context((uintptr_t)ruby_current_ec);
#else
	VALUE fiber = rb_fiber_current();
	struct fiber_state *state = fiber_noted(fiber_notes_of_objects, fiber);

	return __builtin_expect(state != NULL, 1) ? state : fiber_note_object(fiber);
#endif
}

/*
 * The running fiber's without allocating, also in GC: only of a fiber that has a state already. NULL may also mean that it cannot
 * be told. GVL held.
 */
struct fiber_state *fiber_met_state(void);
/* The same. *told: whether NULL means that the fiber has no state. */
struct fiber_state *fiber_met_state_or_not(bool *told);

/*
 * Around work of ours that calls Ruby methods outside of an event: that is no call of the application's. Job context. end takes
 * what begin gave, also where an exception ended the work.
 */
struct fiber_state *fiber_suppress_begin(void);
void fiber_suppress_end(struct fiber_state *state);

/* False without memory. Event context. */
bool call_stack_push(struct call_stack *stack, const struct open_call *call);
/*
 * Keeps the values of a call that is about to be pushed. False without memory. Event context; allocates where there are values.
 */
bool call_stack_keep(struct call_stack *stack, struct open_call *call, const void *values, size_t size);

/* Takes off the innermost call. Its values lie in the arena, from arena_used on, until something is kept again. */
static inline struct open_call call_stack_pop(struct call_stack *stack)
{
	struct open_call call = stack->calls[--stack->depth];

	stack->shown -= call.roles & 1;
	if (__builtin_expect(call.roles > 1, 0)) {
		stack->within -= call.roles >> 1 & 1;
		stack->outside -= call.roles >> 2 & 1;
	}
	stack->arena_used -= call.values_size;
	return call;
}

/* How often what this native thread's fibers do holds the session of a slot. Async-signal-safe. */
unsigned fiber_holds(unsigned slot);

/* All that there are, by their `next`. Under the GVL. */
struct fiber_state *fiber_first(void);
/* How many calls are open in a session's slot whose start is this, in one fiber and in all. Job; of one, also in a collection. */
uint64_t fiber_calls_open(const struct fiber_state *state, unsigned slot, uint64_t start);
uint64_t fiber_calls_left(unsigned slot, uint64_t start);
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
