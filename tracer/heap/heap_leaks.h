#ifndef RBPROBE_HEAP_LEAKS_H
#define RBPROBE_HEAP_LEAKS_H

#include "tracer/heap/heap_paths.h"

/*
 * Of the objects that are new in a dump, or stayed: those that are no garbage, by class and allocation site, and who holds
 * them.
 */

/* Objects of a class that were allocated at the same place. */
struct heap_leak {
	uint32_t label; /* a number in labels: the class and the site, with HEAP_LABEL_SEPARATOR between */
	struct heap_tally live;
	struct heap_paths paths;
};

struct heap_leaks {
	/* While the dump is read: each object, and its pair in the summary of what is compared. */
	struct noted {
		uint32_t node;
		uint32_t pair_kind, pair_site;
	} * noted;
	size_t noted_count, noted_capacity;
	/* What was found. */
	struct heap_names labels;
	struct heap_leak *items; /* what retains most first; only so many have paths as are shown */
	uint32_t count, shown;
	uint32_t capacity;
	struct heap_tally live, garbage;
	uint64_t retained; /* by all that live together */
};

void heap_leaks_note(struct heap_leaks *leaks, uint32_t node, struct heap_pair pair);
void heap_leaks_find(struct heap_leaks *leaks, struct heap_holders *holders, const struct heap_summary *compared, uint32_t shown);
void heap_leaks_free(struct heap_leaks *leaks);

#endif
