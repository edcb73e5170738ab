#ifndef RBPROBE_GVL_LAYOUT_H
#define RBPROBE_GVL_LAYOUT_H

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/*
 * What the VM's structures say of a thread and the GVL, on Rubies that tell it by no event: 2.7 to 3.1 (thread_pthread.c,
 * thread.c and vm_core.h of v2_7_0 and v3_1_0). Where these words are is found by letting go of the GVL and taking it again.
 *
 * - The GVL has its owner. 2.7: it is in the VM's structure; 3.0 and 3.1: in that of the Ractor. Both stay where they are.
 * - A thread that does without has a function that would wake it, and clears it before it waits for the GVL again.
 * - Some C code (rb_thread_call_without_gvl() with NULL) has no such function: its thread's status is "stopped", and it waits if
 *   it is in the GVL's queue.
 */

enum gvl_look {
	GVL_LOOK_HOLDS,
	GVL_LOOK_WAITS,
	GVL_LOOK_OUTSIDE, /* it does without */
	GVL_LOOK_DEAD,
};

/*
 * Finds the rows of layout.h about the GVL. It lets go of the GVL for a moment: other threads run. False: they are not known; the
 * next call tries again, some times. Job context; raises nothing.
 */
bool gvl_layout_find(void);

/* It has been found. Any thread. */
bool gvl_layout_is_known(void);

/* The structure of a thread, which is the same while it lives. */
uintptr_t gvl_layout_thread(VALUE thread);

/* The thread that has the main Ractor's GVL; 0: none. Any thread, with or without the GVL. */
uintptr_t gvl_layout_owner(void);

/* What a thread of the main Ractor does, where the GVL has this owner. Likewise; the thread object lives. */
enum gvl_look gvl_layout_look(uintptr_t thread, uintptr_t owner);

/* Its native thread's number, in a way that every Ruby allows; 0: not known. Likewise. */
uint32_t gvl_layout_native_id(uintptr_t thread);

#endif
