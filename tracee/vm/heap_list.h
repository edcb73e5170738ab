#ifndef RBPROBE_HEAP_LIST_H
#define RBPROBE_HEAP_LIST_H

#include <ruby.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Every object of a class, in pieces of 2 ms: a walk over the heap, between whose pages the application may run. All that were
 * there when it began are found; those that are made meanwhile may be or not. Job context, GVL held, under
 * rb_protect (allocates, raises). Whoever keeps a list marks it.
 */

struct heap_list {
	VALUE objects; /* Array: those found so far */

	/* Private. */
	VALUE class;
	VALUE pages; /* String: the addresses of those that were looked at, a table by hash; nil: the list is complete */
	size_t page_count;
	size_t compactions; /* when the walk began */
	unsigned attempts;
};

/* class: of the VM's own, whose objects are classes and modules (rb_cModule), or have their data in C (rb_cProc). */
void heap_list_begin(struct heap_list *list, VALUE class);
/* The next piece; false: the list is complete. */
bool heap_list_next(struct heap_list *list);
/* All of them at once: for one moment's picture, and what there are few of. Any class. Returns an Array. */
VALUE heap_list_all(VALUE class);
/*
 * All fibers, at once: an Array; nil where they cannot be told, as there are other Ractors, whose fibers run, or as the one that
 * runs is not among those that were found. Once there has been a Ractor, ObjectSpace.each_object() shows no fibers (os_obj_of_i()
 * in gc.c, 3.2 to 4.1).
 */
VALUE heap_list_fibers(void);
/* In GC; also of a list that is all zero. */
void heap_list_mark(const struct heap_list *list);

#endif
