#ifndef RBPROBE_FRAME_BLOCK_PARAMETER_H
#define RBPROBE_FRAME_BLOCK_PARAMETER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Which local variable of some code is its block parameter (`&block`). The VM makes no Proc of a method's block before the
 * variable is used: until then the block is the frame's, and the variable's place holds nil, or an argument where the caller
 * pushed more of them than there are variables before it.
 */

/* Finds it out, once in a process, after frame_locals_find(). Job context; raises nothing. */
void frame_block_parameter_find(void);

/* The number of the variable among those of the code's body; -1: it has none. Known rows only. Job context. */
int frame_block_parameter(uintptr_t code);

#endif
