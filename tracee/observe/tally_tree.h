#ifndef RBPROBE_TALLY_TREE_H
#define RBPROBE_TALLY_TREE_H

#include "tracee/observe/tally.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Calls counted apart by the counted calls around them, in their fiber: a node is a path of methods, outermost first. All fibers
 * share the nodes. There are at most so many, and so many levels; a call beyond that is *folded*: it has no node, its time is in
 * that of the innermost call around it which has one, and it is counted there. GVL held.
 */

struct call_stack;
struct open_call;
struct probe;

#define TREE_NODES_MAX 8192u /* of 320 bytes */
#define TREE_LEVELS_MAX 64u

#define CALL_FOLDED (1u << 8) /* of an open call's roles */

struct tally_node {
	struct tally tally;
	const struct probe *probe;
	uint32_t parent; /* these are numbers + 1; 0: none */
	uint32_t next;   /* in its bucket */
	uint32_t level;
	uint64_t folded; /* calls inside of it that ended */
};

struct tally_tree;

/* NULL without memory. Job context. */
struct tally_tree *tally_tree_new(void);
/* Bytes of one. */
size_t tally_tree_size(void);
void tally_tree_free(struct tally_tree *tree);
/* Without nodes. NULL: nothing. Async-signal-safe. */
void tally_tree_begin_anew(struct tally_tree *tree);

/* Gives a call that is about to be pushed its node, or marks it as folded. Event context; allocates nothing. */
void tally_tree_place(struct tally_tree *tree, const struct call_stack *stack, struct open_call *call);
/* A folded call has ended. Event context. */
void tally_tree_fold(struct tally_tree *tree, const struct open_call *call);

/* The nodes, by number, a parent before its children; NULL: no more. */
const struct tally_node *tally_tree_at(const struct tally_tree *tree, uint32_t number);
/* Folded calls that were in no node. */
uint64_t tally_tree_folded(const struct tally_tree *tree);

#endif
