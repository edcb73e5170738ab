/* From a graph to who holds what. See heap_holders.h. */

#define _GNU_SOURCE
#include "tracer/heap/heap_holders.h"

#include "tracer/base/buffer.h"

#include <stdlib.h>

bool heap_holders_is_object(const struct heap_holders *holders, uint32_t node)
{
	return node && !(holders->graph.nodes[node].flags & HEAP_NODE_ROOT);
}

static void find_children(struct heap_holders *holders)
{
	const struct heap_dominators *dominators = &holders->dominators;
	uint32_t *first = memory_zeroed(((size_t)holders->graph.count + 1) * sizeof(*first));

	for (uint32_t i = 1; i < dominators->count; i++)
		first[dominators->above[dominators->order[i]]]++;
	for (uint32_t i = 0, sum = 0; i <= holders->graph.count; i++) {
		sum += first[i];
		first[i] = sum;
	}
	holders->children = memory_resize(NULL, (size_t)dominators->count * sizeof(*holders->children));
	for (uint32_t i = dominators->count; i-- > 1;)
		holders->children[--first[dominators->above[dominators->order[i]]]] = dominators->order[i];
	holders->first_child = first;
}

static void count_live(struct heap_holders *holders)
{
	for (uint32_t i = 1; i < holders->graph.count; i++) {
		const struct heap_node *node = &holders->graph.nodes[i];
		struct heap_tally *tally = heap_reach_has(&holders->reach, i) ? &holders->live : &holders->garbage;

		if (!(node->flags & HEAP_NODE_DEFINED) || node->flags & (HEAP_NODE_ROOT | HEAP_NODE_OWN))
			continue;
		tally->objects++;
		tally->bytes += node->memsize;
	}
}

/* --- What classes retain */

/* A walk through the dominator tree, which knows of how many instances of each class it is below. */
struct walk {
	struct heap_holders *holders;
	uint32_t *next;   /* by node: the child to go to next */
	uint32_t *labels; /* by node, of those that the walk is below */
	uint32_t *below;  /* by label */
	uint32_t class_capacity, below_capacity;
};

static void arrive(struct walk *walk, uint32_t number)
{
	struct heap_holders *holders = walk->holders;
	const struct heap_node *node = &holders->graph.nodes[number];
	uint32_t label = heap_label_of(&holders->labels, number);
	struct heap_holding *holding;

	walk->labels[number] = label;
	holders->classes = heap_entries(holders->classes, &walk->class_capacity, label, sizeof(*holders->classes));
	walk->below = heap_entries(walk->below, &walk->below_capacity, label, sizeof(*walk->below));
	walk->next[number] = holders->first_child[number];
	holding = &holders->classes[label];
	holding->label = label;
	if (heap_holders_is_object(holders, number) && !(node->flags & HEAP_NODE_OWN)) {
		holding->live.objects++;
		holding->live.bytes += node->memsize;
	}
	if (walk->below[label]++ == 0 && heap_holders_is_object(holders, number))
		holding->retained += holders->dominators.retained[number];
}

static int compare_holdings(const void *a, const void *b)
{
	const struct heap_holding *one = a, *other = b;

	if (one->retained != other->retained)
		return one->retained > other->retained ? -1 : 1;
	return one->label < other->label ? -1 : one->label > other->label;
}

static void find_classes(struct heap_holders *holders)
{
	struct walk walk = {.holders = holders};
	uint32_t at = 0, kept = 0;

	walk.next = memory_resize(NULL, holders->graph.count * sizeof(*walk.next));
	walk.labels = memory_resize(NULL, holders->graph.count * sizeof(*walk.labels));
	arrive(&walk, 0);
	while (at != HEAP_NODE_NONE) {
		if (walk.next[at] == holders->first_child[at + 1]) {
			walk.below[walk.labels[at]]--;
			at = holders->dominators.above[at];
		} else {
			at = holders->children[walk.next[at]++];
			arrive(&walk, at);
		}
	}
	for (uint32_t i = 0; i < holders->labels.texts.by_hash.count && i < walk.class_capacity; i++)
		if (holders->classes[i].live.objects)
			holders->classes[kept++] = holders->classes[i];
	holders->class_count = kept;
	if (kept)
		qsort(holders->classes, kept, sizeof(*holders->classes), compare_holdings);
	free(walk.next);
	free(walk.labels);
	free(walk.below);
}

void heap_holders_find(struct heap_holders *holders, const struct heap_summary *summary)
{
	heap_graph_finish(&holders->graph);
	heap_labels_open(&holders->labels, &holders->graph, summary);
	heap_reach_find(&holders->reach, &holders->graph);
	heap_dominators_find(&holders->dominators, &holders->graph);
	free(holders->graph.edges); /* nobody asks for them any more */
	holders->graph.edges = NULL;
	find_children(holders);
	count_live(holders);
	find_classes(holders);
}

static int compare_retained(const void *a, const void *b, void *retained_of)
{
	uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
	const uint64_t *retained = retained_of;

	if (retained[one] != retained[other])
		return retained[one] > retained[other] ? -1 : 1;
	return one < other ? -1 : one > other;
}

const uint32_t *heap_holders_children(struct heap_holders *holders, uint32_t node, uint32_t *count)
{
	uint32_t *children = &holders->children[holders->first_child[node]];

	*count = holders->first_child[node + 1] - holders->first_child[node];
	if (*count > 1)
		qsort_r(children, *count, sizeof(*children), compare_retained, holders->dominators.retained);
	return children;
}

void heap_holders_free(struct heap_holders *holders)
{
	heap_graph_free(&holders->graph);
	heap_reach_free(&holders->reach);
	heap_dominators_free(&holders->dominators);
	heap_labels_free(&holders->labels);
	free(holders->first_child);
	free(holders->children);
	free(holders->classes);
	*holders = (struct heap_holders){0};
}
