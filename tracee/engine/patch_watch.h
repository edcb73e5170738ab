#ifndef RBPROBE_PATCH_WATCH_H
#define RBPROBE_PATCH_WATCH_H

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/*
 * Seeing a C function end, however it ends. Event context.
 *
 * rb_ensure it is, which leaves the VM's frames as they are. rb_protect would tell more, but takes back frames that the function
 * itself has taken back already, as Kernel#raise does (a crash seen on 3.1.2), and on 2.7 no fiber may be switched across one.
 * What rb_ensure does not tell its second function, which jump it is that goes through, it holds in a register or on its stack;
 * where, is found out with the other facts (patch_facts.c).
 */

struct patch_watch {
	/* First, as the assembly looks at it. Set by the body before it returns: its end has been seen to without over(). */
	bool settled;
	bool returned; /* set by the body when it returns */
	/*
	 * unwinder: what unwinds the function (an exception, a number where the thread is being killed, an internal object for
	 * any other jump, nil where it was not found out), or Qundef where it returned. May raise.
	 */
	void (*over)(struct patch_watch *watch, VALUE unwinder);
	const uintptr_t *frame_place; /* patch_frame_place(); NULL: not known */
};

VALUE patch_over_entry(VALUE watch);

/*
 * Runs the body, which is given the watch, calls patch_watch_begin() before anything else, and sets `returned` in the end.
 * Returns what it returns, and leaves as it leaves. Not inlined into what is called without a watch.
 */
static inline VALUE patch_watch(VALUE (*body)(VALUE watch), struct patch_watch *watch)
{
	return rb_ensure(body, (VALUE)watch, patch_over_entry, (VALUE)watch);
}

/*
 * Up to 3.3 rb_ensure hangs what it will call into a list, from its stack, of the execution context. Only callcc reads that. A
 * Fiber that is made meanwhile starts with a copy, which is stale when it runs: callcc in there crashed. So what is ours is taken
 * out again; the end of rb_ensure does not mind.
 */
struct patch_ensured {
	struct patch_ensured *next;
	VALUE marker;
	VALUE (*function)(VALUE);
	VALUE data;
};

/* Which word, counted from the place of the innermost frame; 0: not known, or there is no list. */
extern size_t patch_ensured_word;
extern bool patch_watch_learns;
void patch_watch_find_list(const struct patch_watch *watch);

/* rb_ensure's frame is between that of the function that it calls and the watch. */
__attribute__((no_sanitize("address"))) static inline bool patch_watch_is_ours(uintptr_t word, const struct patch_watch *watch)
{
	const struct patch_ensured *ensured = (const struct patch_ensured *)word;

	return word % sizeof(word) == 0 && word > (uintptr_t)__builtin_frame_address(0) && word < (uintptr_t)watch &&
	       ensured->function == patch_over_entry && ensured->data == (VALUE)watch;
}

__attribute__((no_sanitize("address"))) static inline void patch_watch_begin(const struct patch_watch *watch)
{
	uintptr_t *place = (uintptr_t *)watch->frame_place;

	if (__builtin_expect(patch_watch_learns, 0))
		patch_watch_find_list(watch);
	if (!patch_ensured_word || !place)
		return;
	place += patch_ensured_word;
	if (patch_watch_is_ours(*place, watch))
		*place = (uintptr_t)((const struct patch_ensured *)*place)->next;
}

/*
 * For the trial. While a test is given, every jump that a watch sees is one of which the test tells the object; NULL: enough.
 * Returns whether the place is known now.
 */
bool patch_watch_learn(bool (*is_unwinder)(uintptr_t word));

#endif
