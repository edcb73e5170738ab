#ifndef RBPROBE_BUILTIN_FIND_H
#define RBPROBE_BUILTIN_FIND_H

#include <ruby.h>
#include <stdbool.h>

/*
 * Finding Ruby's own implementation of a method. The C API calls methods as the application would, so those that help in finding
 * are found in the same way first. Job context, GVL held; runs no Ruby code but that of Ruby itself. May raise.
 */

/* As an UnboundMethod; Qnil: there is none. *overriding: then a method of the application's that stands in its place, or Qnil. */
VALUE builtin_find(VALUE class, VALUE name, VALUE *overriding);

/* A method of an object, as a Method that rb_method_call_with_block() takes; Qnil: there is none. */
VALUE builtin_find_bound(VALUE receiver, const char *name);

/* Whether this exception says that the thread had no stack or memory left: of what was done then nothing is known. */
bool builtin_find_is_lack(VALUE error);
/* Whether that was so in anything that was looked for since the last call of this. */
bool builtin_find_lacked(void);

/* What a Method or an UnboundMethod answers to a question without arguments, such as "source_location". */
VALUE builtin_find_ask(VALUE method, const char *question);

#endif
