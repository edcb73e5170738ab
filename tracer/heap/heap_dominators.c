/*
 * The algorithm of Lengauer and Tarjan (1979) with path compression, O(m log n). See heap_dominators.h.
 *
 * Inside, nodes are called by their numbers in a depth-first search. Nothing recurses: lists in heaps are millions long.
 */

#include "tracer/heap/heap_dominators.h"

#include "tracer/base/buffer.h"

#include <stdlib.h>

#define NONE UINT32_MAX

struct work {
	const struct heap_graph *graph;
	uint32_t count;   /* reached */
	uint32_t *number; /* by node: in the search; NONE: not reached */
	uint32_t *vertex; /* by number: the node */
	/* All by number. */
	uint32_t *parent;
	uint32_t *semi;
	uint32_t *best;     /* on the way up to where it is compressed to, the one with the least semi */
	uint32_t *ancestor; /* NONE: not linked yet */
	uint32_t *dominator;
	uint32_t *bucket, *next; /* those whose semidominator it is; NONE ends */
	uint32_t *first_before;  /* count + 1: where its predecessors begin */
	uint32_t *before;
	uint32_t *stack;
	size_t stack_capacity;
};

static uint32_t *numbers(size_t count, int filling)
{
	uint32_t *made = memory_resize(NULL, count * sizeof(*made));

	memset(made, filling, count * sizeof(*made));
	return made;
}

static void enter(struct work *work, uint32_t node, uint32_t parent)
{
	work->number[node] = work->count;
	work->vertex[work->count] = node;
	work->parent[work->count++] = parent;
}

/* Numbers what node 0 reaches. bucket serves for which edge comes next. */
static void search(struct work *work)
{
	const struct heap_graph *graph = work->graph;
	uint32_t *next_edge = work->bucket, at = 0;

	enter(work, 0, NONE);
	while (at != NONE) {
		const struct heap_node *node = &graph->nodes[work->vertex[at]];
		uint32_t to;

		if (next_edge[at] == node->degree) {
			at = work->parent[at];
			continue;
		}
		to = graph->edges[node->first + next_edge[at]++];
		if (work->number[to] != NONE)
			continue;
		enter(work, to, at);
		at = work->number[to];
	}
}

static void find_predecessors(struct work *work)
{
	const struct heap_graph *graph = work->graph;
	uint32_t *first = work->first_before;

	for (uint32_t i = 0; i < work->count; i++) {
		const struct heap_node *node = &graph->nodes[work->vertex[i]];

		for (uint32_t j = 0; j < node->degree; j++)
			first[work->number[graph->edges[node->first + j]]]++;
	}
	for (uint32_t i = 0, sum = 0; i <= work->count; i++) {
		sum += first[i];
		first[i] = sum;
	}
	work->before = memory_resize(NULL, ((size_t)first[work->count] + 1) * sizeof(*work->before));
	for (uint32_t i = work->count; i-- > 0;) {
		const struct heap_node *node = &graph->nodes[work->vertex[i]];

		for (uint32_t j = 0; j < node->degree; j++)
			work->before[--first[work->number[graph->edges[node->first + j]]]] = i;
	}
}

static void push(struct work *work, size_t place, uint32_t number)
{
	if (place == work->stack_capacity) {
		work->stack_capacity = work->stack_capacity ? 2 * work->stack_capacity : 1024;
		work->stack = memory_resize(work->stack, work->stack_capacity * sizeof(*work->stack));
	}
	work->stack[place] = number;
}

/* Of those between this one and the top of its linked tree, the top not included, the one with the least semi. */
static uint32_t evaluate(struct work *work, uint32_t number)
{
	size_t depth = 0;

	if (work->ancestor[number] == NONE)
		return number;
	for (uint32_t at = number; work->ancestor[work->ancestor[at]] != NONE; at = work->ancestor[at])
		push(work, depth++, at);
	while (depth-- > 0) {
		uint32_t at = work->stack[depth], above = work->ancestor[at];

		if (work->semi[work->best[above]] < work->semi[work->best[at]])
			work->best[at] = work->best[above];
		work->ancestor[at] = work->ancestor[above];
	}
	return work->best[number];
}

static void find_semidominator(struct work *work, uint32_t number)
{
	for (uint32_t i = work->first_before[number]; i < work->first_before[number + 1]; i++) {
		uint32_t semi = work->semi[evaluate(work, work->before[i])];

		if (semi < work->semi[number])
			work->semi[number] = semi;
	}
}

static void compute(struct work *work)
{
	for (uint32_t i = 0; i < work->count; i++)
		work->semi[i] = work->best[i] = i;
	for (uint32_t i = work->count; i-- > 1;) {
		uint32_t parent = work->parent[i];

		find_semidominator(work, i);
		work->next[i] = work->bucket[work->semi[i]];
		work->bucket[work->semi[i]] = i;
		work->ancestor[i] = parent;
		for (uint32_t each = work->bucket[parent]; each != NONE; each = work->next[each]) {
			uint32_t best = evaluate(work, each);

			work->dominator[each] = work->semi[best] < work->semi[each] ? best : parent;
		}
		work->bucket[parent] = NONE;
	}
	for (uint32_t i = 1; i < work->count; i++)
		if (work->dominator[i] != work->semi[i])
			work->dominator[i] = work->dominator[work->dominator[i]];
}

static void add_up(struct heap_dominators *dominators, const struct work *work)
{
	const struct heap_graph *graph = work->graph;

	for (uint32_t i = 1; i < work->count; i++)
		dominators->above[work->vertex[i]] = work->vertex[work->dominator[i]];
	for (uint32_t i = work->count; i-- > 0;) {
		uint32_t node = work->vertex[i];

		dominators->retained[node] += graph->nodes[node].memsize;
		if (i)
			dominators->retained[dominators->above[node]] += dominators->retained[node];
	}
}

static void work_open(struct work *work)
{
	size_t count = work->graph->count;

	work->number = numbers(count, 0xff);
	work->vertex = numbers(count, 0);
	work->parent = numbers(count, 0);
	work->bucket = numbers(count, 0);
}

static void work_widen(struct work *work)
{
	work->first_before = numbers((size_t)work->count + 1, 0);
	memset(work->bucket, 0xff, work->count * sizeof(*work->bucket));
	work->next = numbers(work->count, 0xff);
	work->semi = numbers(work->count, 0);
	work->best = numbers(work->count, 0);
	work->ancestor = numbers(work->count, 0xff);
	work->dominator = numbers(work->count, 0);
}

/* All but vertex, which is kept. */
static void work_close(struct work *work)
{
	uint32_t *const all[] = {work->number,   work->parent,    work->bucket,       work->next,   work->semi, work->best,
	                         work->ancestor, work->dominator, work->first_before, work->before, work->stack};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		free(all[i]);
}

void heap_dominators_find(struct heap_dominators *dominators, const struct heap_graph *graph)
{
	struct work work = {.graph = graph};

	work_open(&work);
	search(&work);
	work_widen(&work);
	find_predecessors(&work);
	compute(&work);
	dominators->above = numbers(graph->count, 0xff);
	dominators->retained = memory_zeroed(graph->count * sizeof(*dominators->retained));
	dominators->order = work.vertex;
	dominators->count = work.count;
	add_up(dominators, &work);
	work_close(&work);
}

void heap_dominators_free(struct heap_dominators *dominators)
{
	free(dominators->above);
	free(dominators->order);
	free(dominators->retained);
	*dominators = (struct heap_dominators){0};
}
