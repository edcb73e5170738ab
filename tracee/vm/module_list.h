#ifndef RBPROBE_MODULE_LIST_H
#define RBPROBE_MODULE_LIST_H

#include <ruby.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Every class and module of the process, in pieces of 2 ms: a walk over the heap, between whose pages the application may
 * run. All that were there when it began are found; those that are made meanwhile may be or not. Job context, GVL held, under
 * rb_protect (allocates, raises). Whoever keeps a list marks it.
 */

struct module_list {
	VALUE modules; /* Array: those found so far */

	/* Private. */
	VALUE pages; /* String: the addresses of those that were looked at, a table by hash; nil: the list is complete */
	size_t page_count;
	size_t compactions; /* when the walk began */
	unsigned attempts;
};

void module_list_begin(struct module_list *list);
/* The next piece; false: the list is complete. */
bool module_list_next(struct module_list *list);
/* In GC; also of a list that is all zero. */
void module_list_mark(const struct module_list *list);

#endif
