/* Folding paths. See heap_paths.h. */

#define _GNU_SOURCE
#include "tracer/heap/heap_paths.h"

#include "tracer/base/buffer.h"

#include <stdlib.h>

#define OF_A_QUESTION (HEAP_NODE_PICKED | HEAP_NODE_NEEDED | HEAP_NODE_INSIDE)

void heap_paths_pick(struct heap_holders *holders, uint32_t node)
{
	holders->graph.nodes[node].flags |= HEAP_NODE_PICKED;
}

static bool may_be_picked(const struct heap_holders *holders, uint32_t node)
{
	return heap_holders_is_object(holders, node) && holders->graph.nodes[node].flags & HEAP_NODE_DEFINED;
}

uint64_t heap_paths_pick_label(struct heap_holders *holders, struct slice text)
{
	uint32_t wanted = heap_names_add(&holders->labels.texts, text);
	uint64_t count = 0;

	for (uint32_t i = 1; i < holders->graph.count; i++)
		if (may_be_picked(holders, i) && heap_label_of(&holders->labels, i) == wanted) {
			heap_paths_pick(holders, i);
			count++;
		}
	return count;
}

uint64_t heap_paths_pick_address(struct heap_holders *holders, uint64_t address)
{
	for (uint32_t i = 1; i < holders->graph.count; i++)
		if (may_be_picked(holders, i) && holders->graph.nodes[i].address == address) {
			heap_paths_pick(holders, i);
			return 1;
		}
	return 0;
}

static void count_picked(struct heap_paths *paths, const struct heap_holders *holders)
{
	for (uint32_t i = 1; i < holders->graph.count; i++) {
		const struct heap_node *node = &holders->graph.nodes[i];
		struct heap_tally *tally = heap_reach_has(&holders->reach, i) ? &paths->live : &paths->garbage;

		if (!(node->flags & HEAP_NODE_PICKED))
			continue;
		tally->objects++;
		tally->bytes += node->memsize;
	}
}

/* In the dominators' order, so that what is above has been looked at before. */
static void mark_inside(struct heap_holders *holders)
{
	const struct heap_dominators *dominators = &holders->dominators;

	for (uint32_t i = 1; i < dominators->count; i++) {
		uint32_t node = dominators->order[i];

		if (holders->graph.nodes[dominators->above[node]].flags & (HEAP_NODE_PICKED | HEAP_NODE_INSIDE))
			holders->graph.nodes[node].flags |= HEAP_NODE_INSIDE;
	}
}

static void mark_needed(struct heap_holders *holders)
{
	for (uint32_t i = 1; i < holders->reach.count; i++) {
		uint32_t node = holders->reach.order[i];

		if (!(holders->graph.nodes[node].flags & HEAP_NODE_PICKED))
			continue;
		for (; node && !(holders->graph.nodes[node].flags & HEAP_NODE_NEEDED); node = holders->reach.parents[node])
			holders->graph.nodes[node].flags |= HEAP_NODE_NEEDED;
	}
}

static uint32_t step_of(struct heap_paths *paths, struct heap_index *index, uint32_t above, uint32_t label)
{
	bool is_new;
	uint32_t number;

	if (above != HEAP_NODE_NONE && paths->steps[above].label == label) {
		paths->steps[above].is_chain = true;
		return above;
	}
	number = heap_index_add(index, (uint64_t)above << 32 | label, &is_new);
	if (is_new) {
		paths->steps = heap_entries(paths->steps, &paths->step_capacity, number, sizeof(*paths->steps));
		paths->steps[number] = (struct heap_step){.above = above, .label = label, .example = HEAP_NODE_NONE};
		paths->step_count = number + 1;
	}
	return number;
}

static void enter(struct heap_step *step, const struct heap_holders *holders, uint32_t number)
{
	const struct heap_node *node = &holders->graph.nodes[number];
	const uint64_t *retained = holders->dominators.retained;

	step->objects++;
	if (step->example == HEAP_NODE_NONE || retained[number] > retained[step->example])
		step->example = number;
	if (!(node->flags & HEAP_NODE_PICKED))
		return;
	step->ends.objects++;
	step->ends.bytes += node->memsize;
	if (!(node->flags & HEAP_NODE_INSIDE))
		step->retained += retained[number];
}

/* In the order in which nodes were reached, so that their parents' steps are known. */
static void fold(struct heap_paths *paths, struct heap_holders *holders)
{
	uint32_t *steps = memory_resize(NULL, holders->graph.count * sizeof(*steps));
	struct heap_index index = {0};

	steps[0] = HEAP_NODE_NONE;
	for (uint32_t i = 1; i < holders->reach.count; i++) {
		uint32_t node = holders->reach.order[i];

		if (!(holders->graph.nodes[node].flags & HEAP_NODE_NEEDED))
			continue;
		steps[node] = step_of(paths, &index, steps[holders->reach.parents[node]], heap_label_of(&holders->labels, node));
		enter(&paths->steps[steps[node]], holders, node);
	}
	heap_index_free(&index);
	free(steps);
}

static int compare_ends(const void *a, const void *b, void *all)
{
	uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
	const struct heap_step *steps = all;

	if (steps[one].ends.objects != steps[other].ends.objects)
		return steps[one].ends.objects > steps[other].ends.objects ? -1 : 1;
	if (steps[one].retained != steps[other].retained)
		return steps[one].retained > steps[other].retained ? -1 : 1;
	return one < other ? -1 : one > other;
}

static void collect_ends(struct heap_paths *paths)
{
	paths->ends = memory_resize(NULL, ((size_t)paths->step_count + 1) * sizeof(*paths->ends));
	for (uint32_t i = 0; i < paths->step_count; i++)
		if (paths->steps[i].ends.objects) {
			paths->ends[paths->end_count++] = i;
			paths->retained += paths->steps[i].retained;
		}
	if (paths->end_count)
		qsort_r(paths->ends, paths->end_count, sizeof(*paths->ends), compare_ends, paths->steps);
}

void heap_paths_find(struct heap_paths *paths, struct heap_holders *holders)
{
	*paths = (struct heap_paths){0};
	count_picked(paths, holders);
	mark_inside(holders);
	mark_needed(holders);
	fold(paths, holders);
	collect_ends(paths);
	for (uint32_t i = 0; i < holders->graph.count; i++)
		holders->graph.nodes[i].flags &= ~OF_A_QUESTION & 0x3ff;
}

void heap_paths_free(struct heap_paths *paths)
{
	free(paths->steps);
	free(paths->ends);
	*paths = (struct heap_paths){0};
}
