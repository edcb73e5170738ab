#ifndef RBPROBE_FRAME_H
#define RBPROBE_FRAME_H

/*
 * Which frame a method event belongs to, and how that frame ended: the two things about a call that Ruby's
 * public API does not tell.
 *
 * A hook sees RETURN with the value nil for a method that returned nil, for one that an exception or a throw
 * unwound, and for one whose thread is being killed. What tells them apart is which place in the VM fired the
 * event, and a local variable there. Both are on the machine stack above the hook, at distances that are fixed
 * for a given libruby. frame_calibrate() finds them by running scratch methods whose endings it knows, and
 * keeps only what held in every one of its samples; what it could not find is reported as not known.
 *
 * The callback must be a TracePoint's C function (rb_tracepoint_new), and must pass FRAME_ANCHOR() taken in
 * that very function: distances are counted from there. Hooks of rb_add_event_hook are called one level
 * closer to the VM, and are not recognised.
 */

#include <stdbool.h>
#include <stdint.h>

#include <ruby.h>
#include <ruby/debug.h>

struct error;

/* How the VM comes to the callback. Each has places of its own in the VM, and is calibrated by itself. */
enum frame_scope {
	FRAME_TARGETED, /* TracePoint#enable(target: ...) */
	FRAME_GLOBAL,   /* rb_tracepoint_enable */
	FRAME_SCOPES,
};

enum frame_ending {
	FRAME_ENDED,    /* not known how */
	FRAME_RETURNED, /* the call gave a value to its caller: its own, or that of a `break` out of its block */
	FRAME_RAISED,   /* an exception unwound it */
	FRAME_THROWN,   /* Kernel#throw, or a `return` or `break` of a frame further up, passed through it */
	FRAME_KILLED,   /* its thread or fiber is being terminated */
};

struct frame_end {
	uintptr_t frame; /* the identity that frame_of_call gave, or 0 */
	enum frame_ending ending;
	VALUE exception; /* with FRAME_RAISED the object; otherwise Qundef */
	bool unwound;    /* by a jump: what a RETURN event says of the value is not what the caller gets */
	unsigned own;    /* whether what the VM says of the fiber's frames has this one: 1, or 0. record_return()'s */
	VALUE value;     /* unwound, and FRAME_RETURNED: what the caller gets; Qundef where that is not known */
};

/* The value of the stack pointer before the callback was called. Only to be used in the callback itself. */
#define FRAME_ANCHOR() ((const void *)__builtin_dwarf_cfa())

/*
 * Calibrates one scope unless that has been done. Job context, GVL held. Returns 0, or a negative code when
 * not everything could be found out; then everything below still works, and answers "not known" where it must.
 * -EAGAIN: hooks are suppressed at this moment (the job interrupted a hook of the application), or the trial
 * was cut short: worth another try at the next session. Any other failure is final for this process and
 * returned again without another try.
 *
 * FRAME_GLOBAL enables a global hook with CALL, RETURN, C_CALL and C_RETURN for the time of the calibration,
 * which slows the process down for good: only call it before a session that is going to do so anyway.
 *
 * Raises nothing, prints nothing, creates no thread and no constant, fires no RAISE event.
 */
int frame_calibrate(enum frame_scope scope, struct error *err);

/* The same for a look that somebody asked for: a trial run that was cut short is not counted among those that may be. */
int frame_calibrate_on_demand(enum frame_scope scope);
/* Whether frame_calibrate() would try nothing more. */
bool frame_calibration_is_over(enum frame_scope scope);

/* Whether frames have identities, and whether endings are told rather than inferred. Any context. */
bool frame_identity_known(enum frame_scope scope);
bool frame_endings_known(enum frame_scope scope);

/*
 * The identity of the frame being called. Event context: RUBY_EVENT_CALL or RUBY_EVENT_C_CALL. Comparable
 * within one fiber: a lower one is deeper, and a frame that is gone may be followed by another with the same
 * identity. 0 when not known.
 */
uintptr_t frame_of_call(rb_trace_arg_t *trace_arg, rb_event_flag_t event, const void *anchor);

/*
 * The identity of the frame that ends, and how it ends. Event context: RUBY_EVENT_RETURN or
 * RUBY_EVENT_C_RETURN. Where endings are not known, a value other than nil counts as FRAME_RETURNED.
 *
 * The VM's own irregularities, seen on every Ruby from 2.7 to 4.1, which this cannot mend:
 * - A frame can end without an event (SystemStackError, an abandoned fiber): events of frames above it follow.
 * - A frame can end twice. The instruction that leaves a method fires the event first, and then looks for
 *   interrupts: a Thread#raise, Timeout or Thread#kill that arrives in computing code is nearly always taken
 *   there, and unwinds the frame with a second event. The second one is what really happened.
 * - A frame can end without having begun: optional arguments are evaluated before the CALL event.
 * - Kernel#raise as a C method, and the little that the VM fires by hand (Exception#backtrace), come from
 *   places that are not calibrated: FRAME_ENDED.
 */
void frame_of_return(rb_trace_arg_t *trace_arg, rb_event_flag_t event, const void *anchor, struct frame_end *out);

/*
 * How the frame of a C method ends that `unwinder` is just unwinding: what rb_errinfo() says behind an rb_protect around the
 * method's function. out->frame is the caller's to fill in first, with an identity as above.
 */
void frame_of_unwinder(VALUE unwinder, struct frame_end *out);

#endif
