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

/*
 * Around enabling a targeted TracePoint on a method. On 4.0 that counts one more reference to the definition of a define_method method, and so marks it as aliased;
 * of such, no redefinition is warned of. definition_flags_keep() takes a mark back that has come since definition_flags() was called; nothing else uses it.
 */
uint32_t definition_flags(VALUE method);
void definition_flags_keep(VALUE method, uint32_t flags);

/* The method's RubyVM::InstructionSequence, nil where it has none: C methods, attr_*. */
VALUE definition_instructions(VALUE method);

/* Whether the one InstructionSequence is written within the other, at any depth. */
bool definition_encloses(VALUE code, VALUE inner);

/*
 * Whether the method, written in Ruby and one of Ruby's own, has other instructions for calls without optional arguments. The VM
 * leads nobody to these.
 */
bool definition_has_short_form(VALUE method);

/* Whether the method was made by define_method with a block. */
bool definition_is_block_method(VALUE method);

#endif
