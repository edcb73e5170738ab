/* Calls of the timeline of a page: where there are too many, the longest. See html_parts.h. */

#include "tracer/html/html_parts.h"

#include <stdlib.h>

static void leave_out(struct html_calls *calls, uint64_t duration_ns)
{
	calls->left++;
	if (duration_ns > calls->left_longest)
		calls->left_longest = duration_ns;
}

/* Keeps the longest half; of those that are about as long as its shortest, the first. */
static void thin_out(struct html_calls *calls)
{
	uint64_t *counts = memory_zeroed(HISTOGRAM_BUCKETS * sizeof(*counts)), above = 0, equal;
	uint32_t bucket = HISTOGRAM_BUCKETS - 1;
	size_t kept = 0;

	for (size_t i = 0; i < calls->count; i++)
		counts[histogram_bucket(calls->items[i].duration_ns)]++;
	for (; bucket && above + counts[bucket] < calls->max; bucket--)
		above += counts[bucket];
	equal = calls->max - above;
	for (size_t i = 0; i < calls->count; i++) {
		uint32_t of = histogram_bucket(calls->items[i].duration_ns);

		if (of > bucket || (of == bucket && equal)) {
			equal -= of == bucket;
			calls->items[kept++] = calls->items[i];
		} else {
			leave_out(calls, calls->items[i].duration_ns);
		}
	}
	calls->count = kept;
	calls->floor = bucket;
	free(counts);
}

void html_calls_add(struct html_calls *calls, const struct html_call *call)
{
	if (calls->floor && histogram_bucket(call->duration_ns) < calls->floor) {
		leave_out(calls, call->duration_ns);
		return;
	}
	if (calls->count == calls->room) {
		calls->room = calls->room ? 2 * calls->room : 4096;
		calls->items = memory_resize(calls->items, calls->room * sizeof(*calls->items));
	}
	calls->items[calls->count++] = *call;
	if (calls->count >= 2 * calls->max)
		thin_out(calls);
}

static int compare(const void *one, const void *other)
{
	const struct html_call *a = one, *b = other;

	if (a->lane != b->lane)
		return a->lane < b->lane ? -1 : 1;
	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns ? -1 : 1;
	return (a->duration_ns < b->duration_ns) - (a->duration_ns > b->duration_ns);
}

void html_calls_sort(struct html_calls *calls)
{
	if (calls->count > calls->max)
		thin_out(calls);
	if (calls->count)
		qsort(calls->items, calls->count, sizeof(*calls->items), compare);
}

struct around {
	int64_t end_ns;
	uint32_t node;
};

static void add_inside(struct html_tree *tree, const struct html_call *call, struct around *around, uint32_t *depth,
                       uint32_t thread)
{
	int64_t end_ns = html_end(call->start_ns, call->duration_ns);
	uint32_t parent, node;

	while (*depth && (around[*depth - 1].end_ns < end_ns || around[*depth - 1].end_ns <= call->start_ns))
		--*depth;
	parent = *depth ? around[*depth - 1].node : html_tree_node(tree, 0, thread);
	node = parent == UINT32_MAX ? parent : html_tree_node(tree, parent, call->name);
	if (node == UINT32_MAX) {
		tree->folded++;
		return;
	}
	tree->nodes[node].calls++;
	tree->nodes[node].errors += call->ended == HTML_RAISED;
	tree->nodes[node].total_ns += call->duration_ns;
	tree->nodes[node].self_ns += call->duration_ns;
	if (*depth)
		tree->nodes[parent].self_ns -=
			tree->nodes[parent].self_ns < call->duration_ns ? tree->nodes[parent].self_ns : call->duration_ns;
	if (*depth < HTML_LEVELS_MAX)
		around[(*depth)++] = (struct around){end_ns, node};
}

void html_calls_tree(const struct html_calls *calls, const struct lanes *lanes, struct html_tree *tree)
{
	struct around around[HTML_LEVELS_MAX];
	uint32_t depth = 0;

	for (size_t i = 0; i < calls->count; i++) {
		const struct html_call *call = &calls->items[i];

		if (i && call->lane != calls->items[i - 1].lane)
			depth = 0;
		if (call->ended != HTML_OPEN)
			add_inside(tree, call, around, &depth, lanes->items[call->lane].thread);
	}
}
