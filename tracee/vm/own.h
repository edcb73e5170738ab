#ifndef RBPROBE_OWN_H
#define RBPROBE_OWN_H

#include <ruby.h>

#include <stdbool.h>
#include <stddef.h>

/*
 * Which of the process's objects are rbprobe's. Only what is known for certain counts: what rbprobe keeps in variables of its
 * own, data of its own types, and what nothing but these refers to. What it has thrown away is garbage like any other. Context:
 * job, or a copy; nothing here allocates Ruby's objects.
 */

/* rb_gc_register_address(), which may collect, for an object that rbprobe makes for itself. For good. */
void own_register(VALUE *address);

/*
 * Modules and classes of rbprobe's own, which no selector finds. They say so themselves, in an instance variable that Ruby code
 * cannot name: one that is thrown away is in the heap until the GC comes. Both functions may raise.
 */
VALUE own_module_new(void);
VALUE own_class_new(VALUE superclass);
/* Also of their singleton classes. */
bool own_is_module(VALUE module);

/*
 * A Thread of rbprobe's own, which is quiet (quiet.h) and says whose it is before others can see it; it has no name yet. May
 * raise.
 */
VALUE own_thread_new(VALUE (*run)(void *argument), void *argument);
bool own_is_thread(VALUE thread);

struct own_set;

/* What is registered. NULL: no memory. */
struct own_set *own_new(void);
void own_free(struct own_set *set);
/* One more that rbprobe has made. */
void own_add(struct own_set *set, VALUE object);
/* One that is not rbprobe's, although nothing else may refer to it: a copy of the process has other threads no more. */
void own_except(struct own_set *set, VALUE object);
/* Adds data of its types, and what only these and the others refer to. Looks at the references of all objects. */
void own_complete(struct own_set *set);

/* Whether it is in the set, or of one of rbprobe's types. For walks over the heap. */
bool own_has(const struct own_set *set, VALUE object);
/* each() with every one of them. */
void own_each(const struct own_set *set, void (*each)(VALUE object, void *data), void *data);

#endif
