#ifndef RBPROBE_HEAP_HOLDERS_H
#define RBPROBE_HEAP_HOLDERS_H

#include "tracer/heap/heap_dominators.h"
#include "tracer/heap/heap_graph.h"
#include "tracer/heap/heap_labels.h"
#include "tracer/heap/heap_reach.h"

/* Who holds what: the graph of a dump, the paths from its roots, its dominator tree and what its classes retain. */

/* What objects that have the same label have together. */
struct heap_holding {
	uint32_t label;
	struct heap_tally live;
	uint64_t retained; /* by those of them that no other of them dominates */
};

struct heap_holders {
	struct heap_graph graph;
	struct heap_reach reach;
	struct heap_dominators dominators;
	struct heap_labels labels;
	/* The dominator tree downwards: children of a node are from first_child[node] to first_child[node + 1]. */
	uint32_t *first_child, *children;
	struct heap_tally live, garbage;
	/* By label, those that retain most first; without roots. */
	struct heap_holding *classes;
	uint32_t class_count;
};

/* The graph has been filled from the dump that the summary is of. */
void heap_holders_find(struct heap_holders *holders, const struct heap_summary *summary);
/* Sorts the node's children in the dominator tree, what retains most first, and returns them. */
const uint32_t *heap_holders_children(struct heap_holders *holders, uint32_t node, uint32_t *count);
/* Whether a node is shown as an object: not a root. */
bool heap_holders_is_object(const struct heap_holders *holders, uint32_t node);
void heap_holders_free(struct heap_holders *holders);

#endif
