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
	VALUE (*body)(void *data);
	/*
	 * unwinder: what unwinds the function (an exception, a number where the thread is being killed, an internal object for
	 * any other jump, nil where it was not found out), or Qundef where it returned. May raise.
	 */
	void (*over)(void *data, VALUE unwinder);
	void *data;
	const uintptr_t *frame_place; /* patch_frame_place(); NULL: not known */
	bool returned;                /* patch_watch()'s */
};

/* Runs the body. Returns what it returns, and leaves as it leaves. */
VALUE patch_watch(struct patch_watch *watch);

/*
 * For the trial. While a test is given, every jump that a watch sees is one of which the test tells the object; NULL: enough.
 * Returns whether the place is known now.
 */
bool patch_watch_learn(bool (*is_unwinder)(uintptr_t word));

#endif
