#ifndef RBPROBE_METHOD_ADDED_H
#define RBPROBE_METHOD_ADDED_H

#include <ruby.h>
#include <stdbool.h>

/*
 * Learning of methods that are defined while somebody is attached, so that selectors may name what is loaded later, and follow
 * code that is reloaded. Job context, GVL held, under rb_protect. Once installed it stays, and does nothing while nobody is
 * attached. Qfalse where the application has taken the place. (VALUE to VALUE, as rb_protect wants it.)
 */
VALUE method_added_install(VALUE unused);
/* Whether it is. */
bool method_added_is_told(void);

#endif
