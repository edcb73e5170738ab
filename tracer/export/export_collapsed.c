/*
 * Collapsed stacks: a line for each, its frames from the outermost one on with semicolons between, a blank, and a whole number:
 * microseconds, bytes or objects. What separates is replaced in names. A line has the names of all its frames: a small profile of
 * deep stacks with long names can become very much.
 */

#include "tracer/export/export.h"

#include <inttypes.h>
#include <stdlib.h>

static void add_name(const struct profile_view *view, const struct profile_view_node *node, struct buffer *to)
{
	struct buffer name = {0};
	size_t from = to->size;

	profile_view_name(view, node, &name);
	buffer_add_printable(to, name.bytes, name.size);
	for (size_t i = from; i < to->size; i++)
		if (to->bytes[i] == ';')
			to->bytes[i] = ':';
	buffer_free(&name);
}

static struct export_left write_collapsed(const struct profile_view *view, struct output *output)
{
	struct buffer path = {0};
	uint32_t number = view->nodes[0].first_child;
	struct export_left left = {0};
	size_t *ends = memory_zeroed((view->node_count + 1) * sizeof(*ends));

	while (number && !output_is_over(output)) {
		const struct profile_view_node *node = &view->nodes[number];
		uint64_t divisor = profile_unit(view->weight)->divisor, whole = (node->self + divisor / 2) / divisor;

		path.size = ends[node->depth - 1];
		if (path.size)
			buffer_add_char(&path, ';');
		add_name(view, node, &path);
		ends[node->depth] = path.size;
		if (whole && output_is_flood(output)) {
			left.flood++;
		} else if (!whole && node->self) {
			left.small++;
			left.small_ns += node->self;
		} else if (whole) {
			buffer_add(&output->buffer, path.bytes, path.size);
			buffer_add_format(&output->buffer, " %" PRIu64 "\n", whole);
			output_commit(output);
		}
		if (node->first_child) {
			number = node->first_child;
			continue;
		}
		while (number && !view->nodes[number].next)
			number = view->nodes[number].parent;
		number = view->nodes[number].next;
	}
	free(ends);
	buffer_free(&path);
	return left;
}

const struct export_format export_collapsed = {.name = "collapsed", .profile = write_collapsed};
