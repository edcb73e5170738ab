#ifndef RBPROBE_NAMING_H
#define RBPROBE_NAMING_H

#include "text.h"

#include <ruby.h>

/* Names of classes and methods without running application code. Job context or an event's slow path, GVL held, under rb_protect. */

/* "Order", "Billing::Invoice", "#<Class:0x000...>", "#<refinement:String@Shout>". */
void naming_class(struct text *text, VALUE module);

/*
 * How a method of `owner` is written: for a singleton class the object it belongs to and '.', else the module and '#'.
 * Returns the separator.
 */
char naming_owner(struct text *text, VALUE owner);

/* A method: "Order#save". name: a Symbol. */
void naming_method(struct text *text, VALUE owner, VALUE name);

bool naming_is_singleton_class(VALUE module);

#endif
