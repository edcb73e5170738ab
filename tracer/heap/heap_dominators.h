#ifndef RBPROBE_HEAP_DOMINATORS_H
#define RBPROBE_HEAP_DOMINATORS_H

#include "tracer/heap/heap_graph.h"

/*
 * The dominator tree of what node 0 reaches: a node's immediate dominator is the last one, but itself, that is on every path
 * from node 0 to it. If it went, the node would be garbage. Takes some 50 bytes a node and 4 an edge while it computes.
 */
struct heap_dominators {
	uint32_t *above;    /* by node: its immediate dominator; HEAP_NODE_NONE: not reached, and node 0 */
	uint32_t *order;    /* the nodes that are reached; a dominator comes before what it dominates */
	uint64_t *retained; /* by node: bytes of itself and of all that it dominates */
	uint32_t count;
};

void heap_dominators_find(struct heap_dominators *dominators, const struct heap_graph *graph);
void heap_dominators_free(struct heap_dominators *dominators);

#endif
