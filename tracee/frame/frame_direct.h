#ifndef RBPROBE_FRAME_DIRECT_H
#define RBPROBE_FRAME_DIRECT_H

/*
 * What an event of a Ruby method is about, read from where the VM keeps it instead of asked for: asking costs a third of all that
 * a traced call costs. Only where frame_calibrate() has found each of these places and seen that they hold, in every one of its
 * samples, what the VM answers when it is asked; otherwise nothing here answers, and the caller asks.
 *
 * Facts that this relies on, all of them verified by the calibration, seen on 2.7, 3.1, 3.3, 3.4, 4.0 and 4.1:
 * - The trace argument is in the stack frame of the function that fires the event, at a fixed distance for each place that fires
 *   (frame_layout.h).
 * - It holds the event, the control frame and the execution context. The context is the one whose current control frame that is:
 *   there is one for each fiber, in memory that is freed with the Fiber object.
 * - The environment of a method's frame holds the method entry (an internal object, T_IMEMO), and this the name by which it was
 *   called and its owner.
 */

#include "tracee/frame/frame_layout.h"
#include "tracee/vm/layout.h"

/* An object's type and, of an internal object, its kind: Ruby's type and the four flags behind the general ones. */
#define FRAME_ENTRY_MASK ((VALUE)RUBY_T_MASK | (VALUE)0xf << RUBY_FL_USHIFT)

/* Whether the places are known: all of them, or none. */
static inline bool frame_direct_is_known(void)
{
	return layout_is_known(LAYOUT_ENTRY_CALLED);
}

/* --- Event context, FRAME_TARGETED only. */

/* The event's trace argument; NULL where it has to be asked for. */
static inline rb_trace_arg_t *frame_direct_trace_arg(const struct frame_site *site, const void *anchor)
{
	return site && site->trace_arg_distance && frame_direct_is_known()
	               ? (rb_trace_arg_t *)((const char *)anchor + site->trace_arg_distance)
	               : NULL;
}

/*
 * The shortest way to it: of an event whose frame is that of the call. Its site is of this kind, or it is not found: NULL.
 */
FRAME_READS_STACK static inline const rb_trace_arg_t *frame_plain_trace_arg(const struct frame_places *places,
                                                                            enum site_kind kind, const void *anchor)
{
	const struct frame_site *site = atomic_load_explicit(&places->of[kind], memory_order_relaxed);

	return site && frame_address_at((const char *)anchor + site->at[0].distance) == site->at[0].address
	               ? (const rb_trace_arg_t *)((const char *)anchor + site->trace_arg_distance)
	               : NULL;
}

/* The site of an event, for which it was tried in vain; main Ractor, under the GVL. */
static inline void frame_note_plain(struct frame_places *places, const struct frame_site *site)
{
	if (site->levels == 1 && site->bias == 0 && site->kind < SITE_UNWIND && frame_direct_trace_arg(site, site))
		atomic_store_explicit(&places->of[site->kind], site, memory_order_relaxed);
}

/* The site of an event of code that has these places. */
static inline const struct frame_site *frame_site_by(const struct frame_places *places, const void *anchor)
{
	for (int kind = 0; kind < SITE_UNWIND; kind++) {
		const struct frame_site *site = atomic_load_explicit(&places->of[kind], memory_order_relaxed);

		if (site && frame_site_matches(site, anchor))
			return site;
	}
	return frame_site_of(anchor);
}

FRAME_READS_STACK static inline uintptr_t frame_direct_frame(const rb_trace_arg_t *trace_arg)
{
	return ((const uintptr_t *)trace_arg)[layout_value(LAYOUT_EVENT_FRAME)];
}

FRAME_READS_STACK static inline rb_event_flag_t frame_direct_event(const rb_trace_arg_t *trace_arg)
{
	/* Not the whole word: it has just been written as it is read here, and for another size the processor has to wait. */
	return *(const rb_event_flag_t *)&((const uintptr_t *)trace_arg)[layout_value(LAYOUT_EVENT_FLAG)];
}

/* Which fiber: the same for all of its events, and different from those of all others that are alive. */
FRAME_READS_STACK static inline uintptr_t frame_direct_context(const rb_trace_arg_t *trace_arg)
{
	return ((const uintptr_t *)trace_arg)[layout_value(LAYOUT_EVENT_CONTEXT)];
}

/* What a frame has in place of its method entry; a special constant: it is not a method's own frame. */
FRAME_READS_STACK static inline const VALUE *frame_direct_entry(uintptr_t frame)
{
	const uintptr_t *environment = (const uintptr_t *)((const uintptr_t *)frame)[layout_value(LAYOUT_FRAME_ENVIRONMENT)];

	return (const VALUE *)*(environment - layout_value(LAYOUT_ENVIRONMENT_ENTRY));
}

/* Whether the frame is a call by that name of that owner's method. False may also mean that this is not known. For CALL. */
static inline bool frame_direct_is_call_of(uintptr_t frame, ID called, VALUE owner)
{
	const VALUE *entry = frame_direct_entry(frame);

	if (RB_SPECIAL_CONST_P((VALUE)entry))
		return false;
	return (entry[0] & FRAME_ENTRY_MASK) == layout_value(LAYOUT_ENTRY_FLAGS) &&
	       entry[layout_value(LAYOUT_ENTRY_CALLED)] == called && entry[layout_value(LAYOUT_ENTRY_OWNER)] == owner;
}

/*
 * Whether the place of a frame that was such a call has another one by now: it was left without an event (SystemStackError), or
 * replaced (tail call). The place has to be a frame in use, further out than the event's. While a method runs, its entry's place
 * may come to hold another internal object.
 */
static inline bool frame_direct_is_gone(uintptr_t frame, ID called, VALUE owner)
{
	const VALUE *entry = frame_direct_entry(frame);

	if (RB_SPECIAL_CONST_P((VALUE)entry))
		return true;
	return (entry[0] & FRAME_ENTRY_MASK) == layout_value(LAYOUT_ENTRY_FLAGS) &&
	       (entry[layout_value(LAYOUT_ENTRY_CALLED)] != called || entry[layout_value(LAYOUT_ENTRY_OWNER)] != owner);
}

/* --- Calibration. Private to frame_calibrate.c and frame_analyse.c. */

struct sample;

/* Notes what belongs to this in a sample. Event context, in a trial run. */
void frame_direct_sample(struct sample *sample, rb_trace_arg_t *trace_arg);
/* Finds the places, or not. frame_layout is complete. Job context. */
void frame_direct_analyse(const struct sample *samples, int count);

#endif
