#ifndef RBPROBE_BUILTIN_FIND_H
#define RBPROBE_BUILTIN_FIND_H

#include <ruby.h>

/*
 * Finding Ruby's own implementation of a method. The C API calls methods as the application would, so those that help in finding
 * are found in the same way first. Job context, GVL held; runs no Ruby code but that of Ruby itself. May raise.
 */

/* As an UnboundMethod; Qnil: there is none. *overriding: then a method of the application's that stands in its place, or Qnil. */
VALUE builtin_find(VALUE class, VALUE name, VALUE *overriding);

/* A method of an object, as a Method that rb_method_call_with_block() takes; Qnil: there is none. */
VALUE builtin_find_bound(VALUE receiver, const char *name);

/* What a Method or an UnboundMethod answers to a question without arguments, such as "source_location". */
VALUE builtin_find_ask(VALUE method, const char *question);

#endif
