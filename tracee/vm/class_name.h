#ifndef RBPROBE_CLASS_NAME_H
#define RBPROBE_CLASS_NAME_H

#include "tracee/base/text.h"

#include <ruby.h>

/*
 * Names of classes and methods without running application code. Job context or an event's slow path, GVL held, under rb_protect.
 */

/* "Order", "Billing::Invoice", "#<Class:0x000...>", "#<refinement:String@Shout>". */
void class_name_add(struct text *text, VALUE module);

/*
 * How a method of `owner` is written: for a singleton class the object it belongs to and '.', else the module and '#'.
 * Returns the separator.
 */
char class_name_add_owner(struct text *text, VALUE owner);

/* A method: "Order#save". name: a Symbol. */
void class_name_add_method(struct text *text, VALUE owner, VALUE name);

bool class_name_is_singleton(VALUE module);

#endif
