#ifndef RBPROBE_FRAME_LAYOUT_H
#define RBPROBE_FRAME_LAYOUT_H

/*
 * What frame_calibrate.c found out about this process's libruby, for frame.c to use: the places in the VM that fire events. What
 * it found of the VM's structures is in tracee/vm/layout.h. Private to the two.
 * Written in the job context under the GVL; a site counts only once site_count includes it.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracee/frame/frame.h"

/* So many return addresses of a call chain tell one place in the VM from another. */
#define SITE_LEVELS 4
#define SITES_MAX 48

enum site_kind {
	SITE_CALL,     /* fires CALL or C_CALL */
	SITE_RETURNED, /* fires when a value goes back to the caller, and only then */
	SITE_UNWIND,   /* fires while the frame is being unwound; what unwinds it is in a word of the stack */
	SITE_KINDS,
};

/*
 * A place in the VM that fires events, recognised by return addresses above the callback. They are those of
 * calls in progress, not leftovers in unused stack: the chain from the VM's event dispatcher to the callback
 * is the same for all places, so the first address that differs between places is always at the same
 * distance, and always live. Where one is not enough, those above it follow.
 */
struct frame_site {
	_Alignas(64) enum site_kind kind;
	int levels;
	int bias;                     /* the frame's position relative to the event's cfp: 0, or -1 for one deeper */
	ptrdiff_t trace_arg_distance; /* of the trace argument; 0 when not known */
	struct {
		ptrdiff_t distance; /* bytes from the anchor */
		uintptr_t address;
	} at[SITE_LEVELS];
	ptrdiff_t unwinder_distance; /* SITE_UNWIND: of what unwinds the frame; -1 when not found */
};

struct frame_layout {
	bool identity_known[FRAME_SCOPES];
	bool endings_known[FRAME_SCOPES];

	_Atomic int site_count;
	_Atomic uint8_t hints[SITE_KINDS]; /* the site of each kind that matched last: nearly always the next one's, too */
	struct frame_site sites[SITES_MAX];
};

/*
 * Where in the VM the events of one method's code came from last, by kind; NULL: not known. Methods of `def` and of define_method
 * have their places each. Only such of which one address and no bias is all there is to know.
 */
struct frame_places {
	_Atomic(const struct frame_site *) of[SITE_UNWIND];
};

/* The VM's tag types, as found in a throw's state and as rb_protect reports them. Seen in 2.7 to 4.1. */
enum { TAG_STATE_RETURN = 1, TAG_STATE_BREAK = 2, TAG_STATE_RAISE = 6, TAG_STATE_THROW = 7 };

extern struct frame_layout frame_layout;

/* Event context. The stack above the callback belongs to frames that the sanitizers know nothing about. */
#define FRAME_READS_STACK __attribute__((no_sanitize("address")))

/*
 * What of a return address on the stack is the address: aarch64 may keep a signature in the upper bits, which is another one at
 * each depth of the stack.
 */
#ifdef __aarch64__
#define FRAME_ADDRESS_BITS (UINT64_MAX >> 16)
#else
#define FRAME_ADDRESS_BITS UINT64_MAX
#endif

FRAME_READS_STACK static inline uintptr_t frame_address_at(const void *place)
{
	return *(const uintptr_t *)place & FRAME_ADDRESS_BITS;
}

FRAME_READS_STACK static inline bool frame_site_matches(const struct frame_site *site, const char *anchor)
{
	for (int level = 0; level < site->levels; level++) {
		if (frame_address_at(anchor + site->at[level].distance) != site->at[level].address)
			return false;
	}
	return true;
}

/* The place of an event, of all that are known; NULL: of none. */
const struct frame_site *frame_site_of(const void *anchor);

/* Only the sites that matched last; NULL: look at the others, too. */
FRAME_READS_STACK static inline const struct frame_site *frame_hinted_site(const void *anchor)
{
	for (int kind = 0; kind < SITE_UNWIND; kind++) {
		const struct frame_site *site =
			&frame_layout.sites[atomic_load_explicit(&frame_layout.hints[kind], memory_order_relaxed)];

		if (site->levels && frame_site_matches(site, anchor))
			return site;
	}
	return NULL;
}

#endif
