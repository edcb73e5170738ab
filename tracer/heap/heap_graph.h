#ifndef RBPROBE_HEAP_GRAPH_H
#define RBPROBE_HEAP_GRAPH_H

#include "tracer/heap/heap_line.h"
#include "tracer/heap/heap_references.h"
#include "tracer/heap/heap_summary.h"

/*
 * The objects of a dump and what they refer to: 32 bytes a node, 4 an edge, and while the dump is read 12 for each address
 * (more while tables grow). Node 0 stands above all roots. A zeroed struct is empty.
 */

#define HEAP_NODE_NONE UINT32_MAX
#define HEAP_NODES_MAX (1u << 30)
#define HEAP_EDGES_MAX (UINT32_MAX - 1)

enum heap_node_flag {
	HEAP_NODE_DEFINED = 1 << 0, /* the dump has a line for it */
	HEAP_NODE_ROOT = 1 << 1,    /* kind is a number in root_names */
	HEAP_NODE_CLASS = 1 << 2,   /* a class or module */
	HEAP_NODE_STACK = 1 << 3,   /* a thread, a fiber, or a root that is a stack */
	HEAP_NODE_CODE = 1 << 4,    /* compiled code and its caches */
	HEAP_NODE_OWN = 1 << 5,     /* rbprobe's */
	HEAP_NODE_NEAR = 1 << 6,    /* reached without compiled code and rbprobe's own; heap_reach.h */
	/* Of a question (heap_paths.h). */
	HEAP_NODE_PICKED = 1 << 7, /* it is about these */
	HEAP_NODE_NEEDED = 1 << 8, /* on a path to one */
	HEAP_NODE_INSIDE = 1 << 9, /* one of them dominates it */
};

struct heap_node {
	uint64_t address;
	uint64_t memsize : 54;
	uint64_t flags : 10;
	uint32_t first; /* of its edges */
	uint32_t degree;
	struct heap_pair counted; /* numbers in the dump's summary */
};

struct heap_graph {
	struct heap_index by_address; /* numbers are nodes; empty once the graph is finished */
	struct heap_node *nodes;
	uint32_t count;
	uint32_t capacity;
	uint32_t *edges;
	size_t edge_count, edge_capacity;
	uint32_t *roots;
	uint32_t root_count, root_capacity;
	struct heap_names root_names;
	uint64_t duplicates; /* lines with the address of an earlier one: left out */
	uint64_t dangling;   /* references to what is not in the dump; known when it is finished */
	bool too_large;      /* more nodes or edges than can be numbered; the graph is useless */
};

/* A line that is no shape. counted: as heap_summary_add() returned it. Returns its node, or HEAP_NODE_NONE. */
uint32_t heap_graph_add(struct heap_graph *graph, const struct heap_line *line, const struct heap_references *references,
                        struct heap_pair counted, bool own);
/* Nothing more is added: node 0 gets its edges, and edges to what is not in the dump go. */
void heap_graph_finish(struct heap_graph *graph);
void heap_graph_free(struct heap_graph *graph);

#endif
