/*
 * Callgrind's format, for kcachegrind and callgrind_annotate: what each function has itself and by each function that it called,
 * in microseconds, bytes or objects. Samples know no number of calls: it is given as 1; recorded calls are counted. With threads,
 * these are functions as well.
 */

#include "tracer/export/export.h"
#include "tracer/export/losses.h"

#include <inttypes.h>

static uint64_t whole(const struct profile_view *view, uint64_t weight)
{
	uint64_t divisor = profile_unit(view->weight)->divisor;

	return (weight + divisor / 2) / divisor;
}

static void add_name(const struct profile_view *view, const char *key, const struct profile_view_node *node, struct buffer *to)
{
	struct buffer name = {0};

	profile_view_name(view, node, &name);
	buffer_add_format(to, "%s=", key);
	/* "(7)" in front would be a number that stands for the name. */
	if (name.size && name.bytes[0] == '(')
		buffer_add_char(to, ' ');
	buffer_add_printable(to, name.bytes, name.size);
	buffer_add_char(to, '\n');
	buffer_free(&name);
}

static void add_file(const struct profile_view *view, const char *key, const struct profile_view_node *node, struct buffer *to)
{
	struct slice path =
		view->threads && node->depth == 1 ? (struct slice){"", 0} : profile_path(view->profile, node->function);

	buffer_add_format(to, "%s=", key);
	if (path.size && path.bytes[0] == '(')
		buffer_add_char(to, ' ');
	if (path.size)
		buffer_add_printable(to, path.bytes, path.size);
	else
		buffer_add_text(to, "[C]");
	buffer_add_char(to, '\n');
}

static int32_t line_of(const struct profile_view *view, const struct profile_view_node *node)
{
	int32_t line = view->threads && node->depth == 1 ? 0 : view->profile->functions[node->function].line;

	return line > 0 ? line : 0;
}

static struct export_left write_callgrind(const struct profile_view *view, struct output *output)
{
	struct buffer *to = &output->buffer;
	struct buffer losses = {0};

	buffer_add_text(to, "# callgrind format\nversion: 1\ncreator: rbprobe\n");
	if (losses_add(view->profile, &losses)) {
		buffer_add_text(to, "desc: Losses: ");
		buffer_add(to, losses.bytes, losses.size);
		buffer_add_char(to, '\n');
	}
	buffer_free(&losses);
	buffer_add_format(to, "positions: line\nevents: %s\nsummary: %" PRIu64 "\n", profile_unit(view->weight)->event,
	                  whole(view, view->total));
	for (uint32_t i = 1; i < view->node_count; i++) {
		const struct profile_view_node *node = &view->nodes[i];

		buffer_add_char(to, '\n');
		add_file(view, "fl", node, to);
		add_name(view, "fn", node, to);
		buffer_add_format(to, "%" PRId32 " %" PRIu64 "\n", line_of(view, node), whole(view, node->self));
		for (uint32_t child = node->first_child; child; child = view->nodes[child].next) {
			const struct profile_view_node *called = &view->nodes[child];

			add_file(view, "cfi", called, to);
			add_name(view, "cfn", called, to);
			buffer_add_format(to, "calls=%" PRIu64 " %" PRId32 "\n%" PRId32 " %" PRIu64 "\n",
			                  view->profile->rate_hz ? 1 : called->ticks, line_of(view, called), line_of(view, node),
			                  whole(view, called->total));
		}
		output_commit(output);
	}
	return (struct export_left){0};
}

const struct export_format export_callgrind = {.name = "callgrind", .profile = write_callgrind};
