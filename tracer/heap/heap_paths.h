#ifndef RBPROBE_HEAP_PATHS_H
#define RBPROBE_HEAP_PATHS_H

#include "tracer/heap/heap_holders.h"

/*
 * The shortest paths from the roots to some objects, folded: paths that go through objects of the same classes become one,
 * and a chain of objects of one class becomes one step.
 */

/* A place on folded paths. */
struct heap_step {
	uint32_t above; /* the step before it; HEAP_NODE_NONE: it is a root */
	uint32_t label;
	uint32_t objects; /* that are on the paths here */
	uint32_t example; /* the node of one of them: the one that retains most */
	bool is_chain;    /* some of them refer to others of them */
	/* Of the objects that were asked for, those whose path ends here. */
	struct heap_tally ends;
	uint64_t retained; /* by those that no other one asked for dominates */
};

struct heap_paths {
	struct heap_step *steps;
	uint32_t step_count;
	uint32_t *ends; /* the steps at which paths end, with most objects first */
	uint32_t end_count;
	struct heap_tally live, garbage; /* of what was asked for */
	uint64_t retained;
	uint32_t step_capacity;
};

/* Asks for all objects that are called so; returns how many there are, garbage included. */
uint64_t heap_paths_pick_label(struct heap_holders *holders, struct slice text);
uint64_t heap_paths_pick_address(struct heap_holders *holders, uint64_t address);
/* Asks for one more. */
void heap_paths_pick(struct heap_holders *holders, uint32_t node);
/* Finds the paths to what was asked for, and forgets what that was. */
void heap_paths_find(struct heap_paths *paths, struct heap_holders *holders);
void heap_paths_free(struct heap_paths *paths);

#endif
