#ifndef RBPROBE_FRAME_LOCALS_H
#define RBPROBE_FRAME_LOCALS_H

/*
 * The parameters and other local variables of a method written in Ruby, read from its frame instead of asked for: a Binding costs
 * several times what all the rest of a traced call costs. Only where frame_locals_find() has found the places, and has seen on
 * scratch methods with every kind of parameter that a Binding says the same.
 *
 * Facts that this relies on, each verified that way, seen on 2.7, 3.1, 3.3, 3.4, 4.0 and 4.1:
 * - A frame leads to its instructions (T_IMEMO), these to their body, this to the names of the local variables and their number.
 * - Variable i of n is n - i + 2 words before what the frame's environment points to, also where the environment has escaped to
 *   the heap: the frame points there then.
 * - A block parameter is not made before it is used. So it is not read here.
 */

#include "tracee/frame/frame_direct.h"

/* Finds the places, once in a process, after frame_calibrate(). Job context; runs scratch methods, raises nothing. */
void frame_locals_find(void);

static inline bool frame_locals_are_known(void)
{
	return layout_is_known(LAYOUT_ENVIRONMENT_LOCALS);
}

/* --- Event context, at CALL of a method written in Ruby. */

/* What identifies a frame's instructions. */
FRAME_READS_STACK static inline uintptr_t frame_locals_code(uintptr_t frame)
{
	return ((const uintptr_t *)frame)[layout_value(LAYOUT_FRAME_CODE)];
}

/* How many words before the environment the variable of that name is; 0: there is none. The same for all calls of the code. */
unsigned frame_locals_place(uintptr_t frame, ID name);
/* The same for the variable with that index, from 0, if it has no name: `*` and `**` before Ruby 3.2. */
unsigned frame_locals_nameless_place(uintptr_t frame, unsigned index);

FRAME_READS_STACK static inline VALUE frame_locals_read(uintptr_t frame, unsigned place)
{
	return *((const VALUE *)((const uintptr_t *)frame)[layout_value(LAYOUT_FRAME_ENVIRONMENT)] - place);
}

#endif
