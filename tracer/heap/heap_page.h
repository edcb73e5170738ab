#ifndef RBPROBE_HEAP_PAGE_H
#define RBPROBE_HEAP_PAGE_H

/* The page of `heap report --format html`, in pieces up to a NULL: what is before the report's JSON, and what follows it. */

extern const char *const heap_page_before[];
extern const char *const heap_page_after[];

#endif
