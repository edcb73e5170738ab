#ifndef RBPROBE_HEAP_SUMMARY_H
#define RBPROBE_HEAP_SUMMARY_H

#include "heap_line.h"
#include "heap_table.h"

struct heap_tally {
	uint64_t objects;
	uint64_t bytes; /* memsize */
};

/* What lines of a dump have in common, counted. A zeroed struct is empty. Memory grows with the number of types, not of objects. */
struct heap_summary {
	struct heap_tally total; /* of objects */
	struct heap_tally shapes;
	uint64_t roots;
	uint64_t free_slots; /* of dumps with `full: true` */
	struct heap_names types;
	struct heap_tally *by_type;
	uint32_t type_capacity;
};

void heap_summary_add(struct heap_summary *summary, const struct heap_line *line);
void heap_summary_free(struct heap_summary *summary);

#endif
