#ifndef RBPROBE_DEFINITION_H
#define RBPROBE_DEFINITION_H

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/*
 * Which methods are one and the same definition under several names or in several classes. Ruby's API does not tell. Needed only where
 * compat_block_method_shares_hooks() is false. Job context, GVL held, under rb_protect.
 */

/* The identity of an UnboundMethod's definition, valid while that is alive; 0 where it could not be found out. */
uintptr_t definition_of(VALUE method);

/* Whether the method was made by define_method with a block. */
bool definition_is_block_method(VALUE method);

#endif
