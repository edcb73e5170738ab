/* Breadth-first search from the roots. See heap_reach.h. */

#include "tracer/heap/heap_reach.h"

#include "tracer/base/buffer.h"

#include <stdlib.h>

#define TURNS 3
/* They hold what others hold, and count where nothing else does. */
#define BYSTANDERS (HEAP_NODE_CODE | HEAP_NODE_OWN)

/* Nodes of which the next turns will go on. */
struct waiting {
	uint32_t *nodes;
	size_t count, capacity;
};

struct search {
	struct heap_reach *reach;
	struct heap_graph *graph;
	struct waiting waiting[TURNS];
	unsigned turn;
};

static unsigned turn_of(const struct heap_node *node)
{
	return node->flags & BYSTANDERS ? 2 : node->flags & HEAP_NODE_STACK ? 1 : 0;
}

static void wait(struct waiting *waiting, uint32_t node)
{
	if (waiting->count == waiting->capacity) {
		waiting->capacity = waiting->capacity ? 2 * waiting->capacity : 1024;
		waiting->nodes = memory_resize(waiting->nodes, waiting->capacity * sizeof(*waiting->nodes));
	}
	waiting->nodes[waiting->count++] = node;
}

static void expand(struct search *search, uint32_t number)
{
	const struct heap_node *node = &search->graph->nodes[number];
	struct heap_reach *reach = search->reach;

	for (uint32_t i = 0; i < node->degree; i++) {
		uint32_t to = search->graph->edges[node->first + i];

		if (to == 0 || reach->parents[to] != HEAP_NODE_NONE)
			continue;
		reach->parents[to] = number;
		if (search->turn < 2)
			search->graph->nodes[to].flags |= HEAP_NODE_NEAR;
		reach->order[reach->count++] = to;
	}
}

/* Goes on from all that was reached from `at` on. */
static uint32_t spread(struct search *search, uint32_t at)
{
	for (; at < search->reach->count; at++) {
		uint32_t node = search->reach->order[at];
		unsigned turn = turn_of(&search->graph->nodes[node]);

		if (turn > search->turn)
			wait(&search->waiting[turn], node);
		else
			expand(search, node);
	}
	return at;
}

static void drop_cached(struct heap_graph *graph)
{
	for (uint32_t i = 0; i < graph->count; i++) {
		struct heap_node *node = &graph->nodes[i];
		uint32_t kept = 0;

		if (!(node->flags & BYSTANDERS))
			continue;
		for (uint32_t j = 0; j < node->degree; j++) {
			uint32_t to = graph->edges[node->first + j];

			if (!(graph->nodes[to].flags & HEAP_NODE_NEAR))
				graph->edges[node->first + kept++] = to;
		}
		node->degree = kept;
	}
}

void heap_reach_find(struct heap_reach *reach, struct heap_graph *graph)
{
	struct search search = {.reach = reach, .graph = graph};
	uint32_t at;

	reach->parents = memory_resize(NULL, graph->count * sizeof(*reach->parents));
	memset(reach->parents, 0xff, graph->count * sizeof(*reach->parents));
	reach->order = memory_resize(NULL, graph->count * sizeof(*reach->order));
	reach->order[0] = 0;
	reach->count = 1;
	at = spread(&search, 0);
	for (search.turn = 1; search.turn < TURNS; search.turn++) {
		struct waiting *waiting = &search.waiting[search.turn];

		for (size_t i = 0; i < waiting->count; i++)
			expand(&search, waiting->nodes[i]);
		at = spread(&search, at);
	}
	for (unsigned turn = 0; turn < TURNS; turn++)
		free(search.waiting[turn].nodes);
	drop_cached(graph);
}

void heap_reach_free(struct heap_reach *reach)
{
	free(reach->parents);
	free(reach->order);
	*reach = (struct heap_reach){0};
}
