#ifndef RBPROBE_REFINEMENTS_H
#define RBPROBE_REFINEMENTS_H

#include <ruby.h>
#include <stdbool.h>

/* What refinements there are. Job context, where nothing else is said, GVL held, under rb_protect where it says so. */

/* Before the first GC that could move objects. */
void refinements_init(void);

/*
 * Whether a refinement has a method of that name for this class or module: then the class's own entry is one that sends callers
 * on, and Module#public and its like change what they cannot change back (4.0: they look at that entry, which is always public,
 * and set the method behind it). The refinements are looked for once, by a walk over the heap. May raise.
 */
bool refinements_have(VALUE owner, VALUE name);

/* The class or module that this one refines; nil: it is no refinement. Asks nobody. Also an event's slow path. */
VALUE refinements_refined(VALUE module);

/* Where `refine` was called; of a refinement. */
VALUE refinements_place(VALUE refinement);

/* They are looked for anew the next time: before many methods are asked about. */
void refinements_forget(void);

/* A method was added: the same, where that is a refinement's. Any Ruby thread of the main Ractor; raises nothing. */
void refinements_method_added(VALUE module);

#endif
