#ifndef RBPROBE_HEAP_REACH_H
#define RBPROBE_HEAP_REACH_H

#include "tracer/heap/heap_graph.h"

/*
 * What the roots reach, and by which shortest path. Paths are looked for in three turns, so that the path that is shown is
 * the one that lasts: first without what stacks hold, then with that, and last also through compiled code, whose caches hold
 * whatever a constant or a method led to, and through rbprobe's own objects. Within a turn a path is the shortest. What no turn
 * reaches is garbage.
 */
struct heap_reach {
	uint32_t *parents; /* the node before it on its path; HEAP_NODE_NONE: garbage, and node 0 */
	uint32_t *order;   /* the nodes that were reached; a parent comes before its children */
	uint32_t count;
};

/*
 * Takes edges from compiled code and rbprobe's own objects out of the graph that lead to what is reached without these, so that
 * they do not count as those who hold it.
 */
void heap_reach_find(struct heap_reach *reach, struct heap_graph *graph);
void heap_reach_free(struct heap_reach *reach);

static inline bool heap_reach_has(const struct heap_reach *reach, uint32_t node)
{
	return node == 0 || reach->parents[node] != HEAP_NODE_NONE;
}

#endif
