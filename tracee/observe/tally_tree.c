/* Calls counted by the calls around them. See tally_tree.h. Context: event, but for what makes and frees: job. */

#include "tracee/observe/tally_tree.h"

#include "tracee/observe/probe.h"
#include "tracee/vm/fiber.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 16384u

struct tally_tree {
	uint32_t count;
	uint64_t folded;
	uint32_t buckets[BUCKETS]; /* the last of the nodes with such a parent and probe, + 1 */
	struct tally_node nodes[TREE_NODES_MAX];
};

struct tally_tree *tally_tree_new(void)
{
	struct tally_tree *tree = aligned_alloc(_Alignof(struct tally_tree), sizeof(*tree));

	/* What is not used stays as it came: nodes are set up when they are taken. */
	if (tree)
		memset(tree, 0, offsetof(struct tally_tree, nodes));
	return tree;
}

void tally_tree_begin_anew(struct tally_tree *tree)
{
	if (tree)
		memset(tree, 0, offsetof(struct tally_tree, nodes));
}

size_t tally_tree_size(void)
{
	return sizeof(struct tally_tree);
}

void tally_tree_free(struct tally_tree *tree)
{
	free(tree);
}

static uint32_t *bucket_of(struct tally_tree *tree, uint32_t parent, const struct probe *probe)
{
	uint64_t hash = ((uintptr_t)probe / _Alignof(struct probe) ^ (uint64_t)parent << 40) * UINT64_C(0x9e3779b97f4a7c15);

	return &tree->buckets[hash >> 40 & (BUCKETS - 1)];
}

/* The node below this one, which is made if it is new; NULL: there is no room. */
static struct tally_node *child_of(struct tally_tree *tree, uint32_t parent, const struct probe *probe)
{
	uint32_t *bucket = bucket_of(tree, parent, probe), level = parent ? tree->nodes[parent - 1].level + 1 : 0;
	struct tally_node *node;

	for (uint32_t number = *bucket; number; number = node->next) {
		node = &tree->nodes[number - 1];
		if (node->probe == probe && node->parent == parent)
			return node;
	}
	if (tree->count == TREE_NODES_MAX || level == TREE_LEVELS_MAX)
		return NULL;
	node = &tree->nodes[tree->count++];
	*node = (struct tally_node){
		.tally = {.least = UINT64_MAX}, .probe = probe, .parent = parent, .next = *bucket, .level = level};
	*bucket = tree->count;
	return node;
}

static struct tally_node *node_of(const struct tally *tally)
{
	return (struct tally_node *)((char *)tally - offsetof(struct tally_node, tally));
}

/* The innermost open call that is counted; NULL: none. Others are there for --within and --outside. */
static const struct open_call *innermost(const struct call_stack *stack)
{
	for (uint32_t depth = stack->depth; depth; depth--)
		if (stack->calls[depth - 1].tally || stack->calls[depth - 1].roles & CALL_FOLDED)
			return &stack->calls[depth - 1];
	return NULL;
}

void tally_tree_place(struct tally_tree *tree, const struct call_stack *stack, struct open_call *call)
{
	const struct open_call *outer = innermost(stack);
	uint32_t parent = outer && outer->tally ? (uint32_t)(node_of(outer->tally) - tree->nodes) + 1 : 0;
	struct tally_node *node = NULL;

	/* Whatever is inside of a folded call: its path would lack that. */
	if (!outer || !(outer->roles & CALL_FOLDED))
		node = child_of(tree, parent, call->probe);
	if (!node)
		call->roles |= CALL_FOLDED;
	call->tally = node ? &node->tally : outer ? outer->tally : NULL;
}

void tally_tree_fold(struct tally_tree *tree, const struct open_call *call)
{
	if (call->tally)
		node_of(call->tally)->folded++;
	else
		tree->folded++;
}

const struct tally_node *tally_tree_at(const struct tally_tree *tree, uint32_t number)
{
	return number < tree->count ? &tree->nodes[number] : NULL;
}

uint64_t tally_tree_folded(const struct tally_tree *tree)
{
	return tree->folded;
}
