/*
 * The event side of frame.h: two look-ups against the layout that frame_calibrate.c found. Event context: reads
 * and compares only.
 *
 * Facts that this relies on, each of them verified by the calibration, seen on 2.7, 3.1, 3.3, 3.4, 4.0 and 4.1:
 * - A trace argument holds the control frame pointer (cfp) of the moment. Control frames have one size and grow
 *   towards lower addresses. At CALL, and when a frame is unwound, cfp is the frame itself; at C_CALL and at a
 *   normal C_RETURN it is the caller's (a "bias" of -1).
 * - A frame that is unwound fires its event from the VM's exception handler, which holds in a variable what is
 *   unwinding the frame: the exception, a small integer when the thread is being killed, or an internal object
 *   (T_IMEMO) for any other jump. The latter has a state and the frame where the jump ends.
 * - A `return` that reaches its own method has been turned into a `break` to that method's caller by then.
 */

#include "tracee/frame/frame.h"

#include "tracee/frame/frame_layout.h"
#include "tracee/vm/layout.h"

#define READS_STACK FRAME_READS_STACK

struct frame_layout frame_layout;

const struct frame_site *frame_site_of(const void *anchor)
{
	const struct frame_site *site = frame_hinted_site(anchor);

	for (int i = 0; i < frame_layout.site_count && !site; i++) {
		if (!frame_site_matches(&frame_layout.sites[i], anchor))
			continue;
		site = &frame_layout.sites[i];
		if (site->kind < SITE_UNWIND)
			atomic_store_explicit(&frame_layout.hints[site->kind], (uint8_t)i, memory_order_relaxed);
	}
	return site;
}

static uintptr_t frame_at(const rb_trace_arg_t *trace_arg, int bias)
{
	if (layout_value(LAYOUT_FRAME_SIZE) == 0)
		return 0;
	return ((const uintptr_t *)trace_arg)[layout_value(LAYOUT_EVENT_FRAME)] +
	       (uintptr_t)((intptr_t)layout_value(LAYOUT_FRAME_SIZE) * bias);
}

uintptr_t frame_of_call(rb_trace_arg_t *trace_arg, rb_event_flag_t event, const void *anchor)
{
	const struct frame_site *site;

	if (event != RUBY_EVENT_C_CALL)
		return frame_at(trace_arg, 0);

	site = frame_site_of(anchor);
	return frame_at(trace_arg, site ? site->bias : -1);
}

/* A jump that ends in the caller gives the call a value, if it is a `break`; anything else goes further up. */
static enum frame_ending ending_of_throw(const uintptr_t *jump, uintptr_t frame)
{
	if (layout_value(LAYOUT_JUMP_STATE) == 0)
		return FRAME_ENDED;
	if ((int)jump[layout_value(LAYOUT_JUMP_STATE)] == TAG_STATE_BREAK &&
	    jump[layout_value(LAYOUT_JUMP_CATCH)] == frame + layout_value(LAYOUT_FRAME_SIZE))
		return FRAME_RETURNED;
	return FRAME_THROWN;
}

void frame_of_unwinder(VALUE unwinder, struct frame_end *out)
{
	const uintptr_t *jump = (const uintptr_t *)unwinder;

	out->ending = FRAME_ENDED;
	out->exception = Qundef;
	out->value = Qundef;
	out->unwound = true;

	if (RB_FIXNUM_P(unwinder)) {
		out->ending = FRAME_KILLED;
	} else if (RB_SPECIAL_CONST_P(unwinder)) {
		out->ending = FRAME_ENDED;
	} else if (RB_BUILTIN_TYPE(unwinder) == RUBY_T_IMEMO) {
		out->ending = ending_of_throw(jump, out->frame);
		if (out->ending == FRAME_RETURNED && layout_value(LAYOUT_JUMP_VALUE))
			out->value = jump[layout_value(LAYOUT_JUMP_VALUE)];
	} else {
		out->ending = FRAME_RAISED;
		out->exception = unwinder;
	}
}

READS_STACK static void ending_of_unwind(const struct frame_site *site, const char *anchor, struct frame_end *out)
{
	if (site->unwinder_distance >= 0)
		frame_of_unwinder(*(const VALUE *)(anchor + site->unwinder_distance), out);
}

void frame_of_return(rb_trace_arg_t *trace_arg, rb_event_flag_t event, const void *anchor, struct frame_end *out)
{
	const struct frame_site *site = frame_site_of(anchor);

	out->ending = FRAME_ENDED;
	out->exception = Qundef;
	out->value = Qundef;
	out->unwound = false;

	if (site) {
		out->frame = frame_at(trace_arg, site->bias);
		if (site->kind == SITE_RETURNED) {
			out->ending = FRAME_RETURNED;
			return;
		}
		if (site->kind == SITE_UNWIND)
			ending_of_unwind(site, anchor, out);
	} else {
		out->frame = frame_at(trace_arg, event == RUBY_EVENT_C_RETURN ? -1 : 0);
	}

	if (out->ending == FRAME_ENDED && !NIL_P(rb_tracearg_return_value(trace_arg)))
		out->ending = FRAME_RETURNED;
}

bool frame_identity_known(enum frame_scope scope)
{
	return frame_layout.identity_known[scope];
}

bool frame_endings_known(enum frame_scope scope)
{
	return frame_layout.endings_known[scope];
}
