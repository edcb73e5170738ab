#ifndef RBPROBE_DECIDE_H
#define RBPROBE_DECIDE_H

#include "proto/command.h"
#include "proto/error.h"
#include "tracee/observe/call.h"

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/*
 * Which calls a session shows: the conditions of its trace command (proto/conditions.h). What can be known when a call begins is
 * decided there; the rest when it ends, and until then nothing of the call is in the ring.
 */

struct call_stack;
struct fiber_state;
struct frame_end;
struct measured;
struct expression_list;
struct open_call;
struct probe;
struct session;

/* How many were taken in the second that runs. */
struct rate_window {
	uint64_t began; /* ticks */
	uint32_t taken;
};

/* A session's conditions. Owned by its selection. */
struct decider {
	struct conditions conditions; /* their texts are its own */
	bool within, outside;         /* there are such selectors, */
	bool outermost;               /* or those with SELECTOR_OUTERMOST */
	size_t kept_bytes;            /* of all fibers; kept.h */
	uint64_t failed;              /* so often it could not be evaluated */
	uint64_t second_ticks;
	struct rate_window calls;
	uint64_t chance; /* 0: `every` is every so many'th; else what the next random number is made of */
};

/*
 * Makes the session's decider, and says in the session how its calls are observed. 0, or -ENOMEM and err. Job context. Takes up
 * to 2 ms where times matter.
 */
int decider_open(struct session *session, const struct command *command, struct error *err);
void decider_close(struct session *session);

/* A method's condition, for its probe. Raises SyntaxError, as expression_condition_new(). Job context. */
struct expression_list *decider_condition(const struct session *session, VALUE method, VALUE owner, bool in_hand);
/* The same for a line that sees these variables, an Array of Symbols. */
struct expression_list *decider_condition_for_line(const struct session *session, VALUE names, VALUE owner);

/* A call's end, and the call as it was seen then: seen's outcome is not filled in. seen: NULL where expressions cannot run. */
struct ended_call {
	const struct frame_end *end;
	const struct seen_call *seen;
	const struct measured *measured; /* NULL: nothing was measured */
};

enum verdict {
	VERDICT_UNSEEN, /* as if the method were not traced */
	VERDICT_SCOPE,  /* it is not shown, but other calls are or are not because of it */
	VERDICT_SHOWN,  /* as far as can be known when it begins */
};

/*
 * What becomes of a call that begins. Event context, long way: may ask Ruby for the thread's name. *jump is set to a state for
 * rb_jump_tag(), or stays.
 */
enum verdict decide_start(struct probe *probe, struct fiber_state *fiber, const struct seen_call *seen, int *jump);

/* How a call ended that returned or raised, as expressions see it. Its values are on the caller's stack alone. Event context. */
struct call_outcome decide_outcome(const struct open_call *call, uint64_t time, const struct frame_end *end);

/*
 * Whether a call that ends meets everything that was left for its end. time: now, in ticks. ended: NULL where nobody saw it
 * end. Event context, or GC where that is NULL: allocates nothing then. Runs the user's expression. *jump as above.
 */
bool decide_end(struct fiber_state *fiber, const struct open_call *call, uint64_t time, const struct ended_call *ended,
                int *jump);

/*
 * Whether an object is of a class, or has a module, that a pattern names: as `rescue` would. Allocates, calls no method of the
 * application's; may raise. Event context, under rb_protect.
 */
bool decide_is_of_class(VALUE object, const char *pattern);

/* --every and --rate: whether one more that meets everything else is shown. met: how many of its kind have been before. */
bool decide_is_counted_in(struct decider *decider, uint64_t *met, struct rate_window *window, uint64_t time);

/*
 * --thread: whether the running thread is meant. Event context. *jump as above. jump NULL: what other threads send is not let in,
 * and it may raise: under rb_protect, with no event of the fiber's heard.
 */
bool decide_is_thread_meant(const struct session *session, struct call_stack *stack, int *jump);
/* The same of a thread with this name, a String or nil. GVL held; allocates nothing of Ruby's. */
bool decide_is_thread_named(const struct session *session, VALUE name, bool is_main);

#endif
