#ifndef RBPROBE_PROFILE_STACKS_H
#define RBPROBE_PROFILE_STACKS_H

#include "tracee/base/msgpack_builder.h"

#include <ruby.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The stacks of a profile, as a tree: a node is a function at a line, below the node of its caller. Both are numbered, from 1 on.
 * The client is told of each once, by profile_stacks_tell(). What they refer to is marked, so that no other object gets its
 * address. Job context, GVL held; only telling allocates Ruby's objects.
 */

struct profile_stacks;

#define PROFILE_FRAMES_MAX 600        /* of a stack: the innermost; the others are cut off */
#define PROFILE_STACK_NONE UINT32_MAX /* there is no room for it */

/* NULL: no memory. */
struct profile_stacks *profile_stacks_new(void);
void profile_stacks_free(struct profile_stacks *stacks);
/* In GC. */
void profile_stacks_mark(const struct profile_stacks *stacks);

/* The number of the thread's stack as it is now; 0: it has no frames. *cut: there are more than are kept. */
uint32_t profile_stack_of(struct profile_stacks *stacks, VALUE thread, bool *cut);

/* Whether its innermost function is one of the application's in Ruby: not one of C, nor Ruby's own. False: not known. */
bool profile_stack_is_in_ruby(const struct profile_stacks *stacks, uint32_t stack);

/*
 * The same for this thread, in an event in which nothing may be allocated: as long as there is room that profile_stacks_reserve()
 * has made. False: no memory.
 */
uint32_t profile_stack_here(struct profile_stacks *stacks, bool *cut);
bool profile_stacks_reserve(struct profile_stacks *stacks);

/* A stack that ends in an object of that class being made. */
uint32_t profile_stack_made(struct profile_stacks *stacks, uint32_t stack, VALUE class);

/* The stack of a thread that collects garbage. */
uint32_t profile_stack_of_gc(struct profile_stacks *stacks);

/* Adds "functions" and "stacks" that are new to the map that is open, so many at most. False: there are more. May raise. */
bool profile_stacks_tell(struct profile_stacks *stacks, struct msgpack_builder *answer);
/* They have been sent. Where they could not be, the next call begins with the same ones: numbers follow from their order. */
void profile_stacks_told(struct profile_stacks *stacks);

#endif
