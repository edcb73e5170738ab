#ifndef RBPROBE_METHOD_DEFINITION_H
#define RBPROBE_METHOD_DEFINITION_H

#include "tracee/vm/method_layout.h"

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/*
 * What a method is made of. Job context, GVL held, under rb_protect. method is an UnboundMethod throughout.
 */

/*
 * The identity of its definition, which copies under other names or in other classes share: valid while method is alive, 0 where
 * it could not be found out. Ruby's API does not tell.
 */
uintptr_t method_definition_of(VALUE method);

/* The function that a C method leads to. False where the method is none, or the way to it could not be found out. */
bool method_definition_function(VALUE method, struct method_target *target);

/* The same for a method entry, whose definition must be that one. 0: it has no C function, or is none. */
uintptr_t method_definition_function_of_entry(uintptr_t entry, uintptr_t definition);

/* Whether that way holds for these methods, whose functions are known. */
bool method_definition_fits(const struct method_sample *samples, size_t count);

/*
 * Around enabling a targeted TracePoint on a method. On 4.0 that counts one more reference to the definition of a define_method
 * method, and so marks it as aliased; of such, no redefinition is warned of. method_definition_flags_keep() takes a mark back
 * that has come since method_definition_flags() was called; nothing else uses it.
 */
uint32_t method_definition_flags(VALUE method);
void method_definition_flags_keep(VALUE method, uint32_t flags);

/*
 * The method's definition has been given an object by the VM, which did not tell the garbage collector. Up to 3.3 that is so of
 * the TracePoint that is enabled for a block method, and GC.verify_internal_consistency aborts (2.7 to 3.3, without rbprobe too).
 */
void method_definition_written(VALUE method, VALUE object);

/* The method's RubyVM::InstructionSequence, nil where it has none: C methods, attr_*. */
VALUE method_definition_instructions(VALUE method);

/* Whether the one InstructionSequence is written within the other, at any depth. */
bool method_definition_encloses(VALUE code, VALUE inner);

/*
 * Whether the method, written in Ruby and one of Ruby's own, has other instructions for calls without optional arguments. The VM
 * leads nobody to these.
 */
bool method_definition_has_short_form(VALUE method);

/*
 * Whether the method, one of Ruby's own and written in Ruby, does nothing but call a C function without arguments, and the VM
 * calls that directly from a place that has called the method once: no event tells of it but the global hook's, while that is on.
 */
bool method_definition_is_bypassed(VALUE method);

/* Whether the method was made by define_method with a block. */
bool method_definition_is_block_method(VALUE method);

#endif
