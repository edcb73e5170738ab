#ifndef RBPROBE_DEFINITION_H
#define RBPROBE_DEFINITION_H

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/*
 * What a method is made of. Job context, GVL held, under rb_protect. method is an UnboundMethod throughout.
 */

/*
 * The identity of its definition, which copies under other names or in other classes share: valid while method is alive, 0 where it could
 * not be found out. Ruby's API does not tell.
 */
uintptr_t definition_of(VALUE method);

/* The method's RubyVM::InstructionSequence, nil where it has none: C methods, attr_*. */
VALUE definition_instructions(VALUE method);

/* Whether the method was made by define_method with a block. */
bool definition_is_block_method(VALUE method);

#endif
