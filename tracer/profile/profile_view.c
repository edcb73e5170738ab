/* A profile as it is shown. See profile_view.h. */

#include "tracer/profile/profile_view.h"

#include "proto/clock.h"
#include "proto/profile_words.h"
#include "tracer/base/buffer.h"
#include "tracer/base/value.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct profile_unit units[PROFILE_WEIGHTS] = {
	[PROFILE_WALL] = {"wall time", "nothing was sampled", "Wall_us", "nanoseconds", NS_PER_US, 1e9, " s", PROFILE_CPU},
	[PROFILE_CPU] = {"CPU time", "no thread has used CPU time", "CPU_us", "nanoseconds", NS_PER_US, 1e9, " s", PROFILE_WALL},
	[PROFILE_BUSY] = {"time without waiting", "no thread did anything", "Busy_us", "nanoseconds", NS_PER_US, 1e9, " s",
                          PROFILE_CPU},
	[PROFILE_WAITED] = {"waiting for the GVL", "no thread waited for the GVL", "GVL_wait_us", "nanoseconds", NS_PER_US, 1e9,
                            " s", PROFILE_HELD},
	[PROFILE_HELD] = {"GVL held while others waited", "no thread waited for the GVL", "GVL_held_us", "nanoseconds", NS_PER_US,
                          1e9, " s", PROFILE_WAITED},
	[PROFILE_BYTES] = {"bytes", "no objects were seen", "Bytes", "bytes", 1, 1 << 20, " MiB", PROFILE_OBJECTS},
	[PROFILE_OBJECTS] = {"objects", "no objects were seen", "Objects", "none", 1, 1, " objects", PROFILE_BYTES},
};

const struct profile_unit *profile_unit(enum profile_weight weight)
{
	return &units[weight];
}

enum profile_weight profile_weight_usual(const struct profile *profile)
{
	return profile->of_objects ? PROFILE_BYTES : profile->of_gvl ? PROFILE_WAITED : PROFILE_WALL;
}

static uint32_t add_node(struct profile_view *view, uint32_t parent, uint32_t function)
{
	uint32_t number = view->node_count;

	if (number == view->node_room) {
		view->node_room = number ? 2 * number : 256;
		view->nodes = memory_resize(view->nodes, view->node_room * sizeof(*view->nodes));
	}
	view->nodes[number] = (struct profile_view_node){.parent = parent, .function = function};
	if (number) {
		view->nodes[number].depth = view->nodes[parent].depth + 1;
		view->nodes[number].next = view->nodes[parent].first_child;
		view->nodes[parent].first_child = number;
	}
	view->node_count++;
	return number;
}

static uint32_t *child_slot(const struct profile_view *view, uint32_t parent, uint32_t function)
{
	uint64_t at = ((uint64_t)parent * UINT64_C(0x9e3779b97f4a7c15) + function) * UINT64_C(0xbf58476d1ce4e5b9) >> 32;

	for (;; at++) {
		uint32_t *slot = &view->slots[at & (view->slot_count - 1)];

		if (!*slot || (view->nodes[*slot].parent == parent && view->nodes[*slot].function == function))
			return slot;
	}
}

static void grow_slots(struct profile_view *view)
{
	if (view->slot_count >= 2 * view->node_room)
		return;
	free(view->slots);
	view->slot_count = 2 * view->node_room;
	view->slots = memory_zeroed(view->slot_count * sizeof(*view->slots));
	for (uint32_t i = 1; i < view->node_count; i++)
		*child_slot(view, view->nodes[i].parent, view->nodes[i].function) = i;
}

static uint32_t child_of(struct profile_view *view, uint32_t parent, uint32_t function)
{
	uint32_t *slot = child_slot(view, parent, function), child = *slot;

	if (child)
		return child;
	child = *slot = add_node(view, parent, function);
	grow_slots(view);
	return child;
}

/* The node for a stack. */
static uint32_t place_of(struct profile_view *view, const struct profile_sum *sum, uint32_t *path)
{
	const struct profile_node *nodes = view->profile->nodes;
	uint32_t depth = 0, place = view->threads ? child_of(view, 0, sum->thread) : 0;

	for (uint32_t node = sum->node; node; node = nodes[node].parent)
		path[depth++] = nodes[node].function;
	while (depth > 0)
		place = child_of(view, place, path[--depth]);
	return place;
}

static bool has_path(const struct profile *profile, uint32_t function, const char *expected)
{
	return slice_is(profile_path(profile, function), expected);
}

bool profile_is_state(const struct profile *profile, uint32_t function)
{
	return has_path(profile, function, PROFILE_PATH_STATE);
}

bool profile_is_native(const struct profile *profile, uint32_t function)
{
	return has_path(profile, function, PROFILE_PATH_NATIVE);
}

bool profile_is_class(const struct profile *profile, uint32_t function)
{
	return has_path(profile, function, PROFILE_PATH_OBJECTS);
}

static void add_self(struct profile_view *view, const struct profile_sum *sum, uint32_t function)
{
	view->functions[function].self += sum->weights[view->weight];
	view->functions[function].self_other += sum->weights[profile_unit(view->weight)->other];
}

/* Each function of the stack once. */
static void add_to_functions(struct profile_view *view, const struct profile_sum *sum, uint32_t *last, uint32_t number)
{
	const struct profile_node *nodes = view->profile->nodes;
	uint32_t node = sum->node;

	if (node)
		add_self(view, sum, nodes[node].function);
	if (node && profile_is_class(view->profile, nodes[node].function) && nodes[node].parent)
		add_self(view, sum, nodes[nodes[node].parent].function);
	for (; node; node = nodes[node].parent) {
		uint32_t function = nodes[node].function;

		if (last[function] == number)
			continue;
		last[function] = number;
		view->functions[function].total += sum->weights[view->weight];
	}
}

/* Two lists that are sorted become one; of nodes that weigh the same, those of the first come first. */
static uint32_t merge(struct profile_view *view, uint32_t first, uint32_t second)
{
	uint32_t merged = 0, *link = &merged;

	while (first && second) {
		uint32_t *from = view->nodes[first].total >= view->nodes[second].total ? &first : &second;

		*link = *from;
		link = &view->nodes[*from].next;
		*from = *link;
	}
	*link = first ? first : second;
	return merged;
}

#define RUNS 32

/* A lying process may have given it as many children as there are nodes. */
static void sort_children(struct profile_view *view, uint32_t parent)
{
	uint32_t runs[RUNS] = {0}; /* run n: 0, or a list of 2^n nodes */
	uint32_t child = view->nodes[parent].first_child, sorted = 0;

	while (child) {
		uint32_t next = view->nodes[child].next, run = child, n = 0;

		view->nodes[child].next = 0;
		for (; runs[n]; runs[n++] = 0)
			run = merge(view, runs[n], run);
		runs[n] = run;
		child = next;
	}
	for (uint32_t n = 0; n < RUNS; n++)
		sorted = merge(view, runs[n], sorted);
	view->nodes[parent].first_child = sorted;
}

struct profile_view profile_view_make(const struct profile *profile, enum profile_weight weight, bool threads)
{
	struct profile_view view = {.profile = profile, .weight = weight, .threads = threads};
	uint32_t *path = memory_zeroed((profile->node_count + 1) * sizeof(*path));
	uint32_t *last = memory_zeroed((profile->function_count + 1) * sizeof(*last));

	view.functions = memory_zeroed((profile->function_count + 1) * sizeof(*view.functions));
	add_node(&view, 0, 0);
	grow_slots(&view);
	for (uint32_t i = 0; i < profile->sum_count; i++) {
		const struct profile_sum *sum = &profile->sums[i];
		uint32_t place;

		if (!sum->weights[weight] && !sum->weights[profile_unit(weight)->other])
			continue;
		place = place_of(&view, sum, path);
		view.nodes[place].self += sum->weights[weight];
		view.total += sum->weights[weight];
		view.nodes[place].ticks += sum->ticks;
		add_to_functions(&view, sum, last, i + 1);
	}
	for (uint32_t i = view.node_count; i-- > 0;) {
		view.nodes[i].total += view.nodes[i].self;
		if (i)
			view.nodes[view.nodes[i].parent].total += view.nodes[i].total;
	}
	for (uint32_t i = 0; i < view.node_count; i++)
		sort_children(&view, i);
	free(path);
	free(last);
	free(view.slots);
	view.slots = NULL;
	return view;
}

void profile_view_free(struct profile_view *view)
{
	free(view->nodes);
	free(view->functions);
	*view = (struct profile_view){0};
}

void profile_thread_name(const struct profile *profile, uint32_t number, struct buffer *to)
{
	const struct profile_thread *thread = &profile->threads[number];

	if (profile->process_count > 1)
		buffer_add_format(to, "%d: ", (int)profile->processes[thread->process].pid);
	if (thread->name.size)
		buffer_add_slice(to, thread->name);
	else if (thread->main)
		buffer_add_text(to, "main");
	else if (thread->native_id)
		buffer_add_format(to, "thread %" PRIu32, thread->native_id);
	else
		buffer_add_format(to, "thread 0x%016" PRIx64, thread->id);
}

void profile_view_name(const struct profile_view *view, const struct profile_view_node *node, struct buffer *to)
{
	if (view->threads && node->depth == 1)
		profile_thread_name(view->profile, node->function, to);
	else
		buffer_add_slice(to, profile_label(view->profile, node->function));
}
