/*
 * speedscope's JSON: frames once, and a "sampled" profile whose samples are stacks with weights in nanoseconds, bytes or objects.
 * With threads each has a profile of its own. The order of samples in time is not known: they stand in the order of the tree.
 */

#include "tracer/export/export.h"
#include "tracer/export/losses.h"

#include "tracer/base/json.h"

#include <stdlib.h>

#define SCHEMA "https://www.speedscope.app/file-format-schema.json"

static void add_frames(const struct profile *profile, struct buffer *to)
{
	json_open_object(json_key(to, "shared"));
	json_open_array(json_key(to, "frames"));
	for (uint32_t i = 0; i < profile->function_count; i++) {
		json_open_object(to);
		json_member_text(to, "name", profile_label(profile, i));
		if (profile_path(profile, i).size) {
			json_member_text(to, "file", profile_path(profile, i));
			if (profile->functions[i].line > 0)
				json_member_int(to, "line", profile->functions[i].line);
		}
		json_close_object(to);
	}
	json_close_array(to);
	json_close_object(to);
}

struct writing {
	const struct profile_view *view;
	uint32_t *next; /* by node: the one after it that is below the same root, ascending; 0: none */
	uint32_t *path; /* room for a stack */
};

/* Threads may be very many, so that nothing is looked through for each. Parents have lower numbers than their children. */
static struct writing writing_begin(const struct profile_view *view)
{
	size_t size = (view->node_count + 1) * sizeof(uint32_t);
	struct writing writing = {view, memory_zeroed(size), memory_zeroed(size)};
	uint32_t *roots = memory_zeroed(size), *last = memory_zeroed(size);

	for (uint32_t i = 1; i < view->node_count; i++) {
		if (view->threads)
			roots[i] = view->nodes[i].parent ? roots[view->nodes[i].parent] : i;
		if (roots[i] != i)
			writing.next[last[roots[i]]] = i;
		last[roots[i]] = i;
	}
	free(roots);
	free(last);
	return writing;
}

static void writing_end(struct writing *writing)
{
	free(writing->next);
	free(writing->path);
}

/* The stack of a node, the outermost frame first. */
static void add_stack(const struct writing *writing, uint32_t number, uint32_t root, struct buffer *to)
{
	const struct profile_view_node *nodes = writing->view->nodes;
	uint32_t depth = 0;

	for (; number != root; number = nodes[number].parent)
		writing->path[depth++] = nodes[number].function;
	json_open_array(to);
	while (depth > 0)
		json_add_uint(to, writing->path[--depth]);
	json_close_array(to);
}

static void add_profile(const struct writing *writing, uint32_t root, struct buffer *to)
{
	const struct profile_view *view = writing->view;
	struct buffer name = {0};
	uint32_t i;

	if (root)
		profile_view_name(view, &view->nodes[root], &name);
	else
		buffer_add_text(&name, profile_unit(view->weight)->name);
	json_open_object(to);
	json_member_string(to, "type", "sampled");
	json_member_text(to, "name", (struct slice){name.bytes, name.size});
	json_member_string(to, "unit", profile_unit(view->weight)->scope);
	json_member_uint(to, "startValue", 0);
	json_member_uint(to, "endValue", view->nodes[root].total);
	json_open_array(json_key(to, "samples"));
	i = root;
	do {
		if (view->nodes[i].self)
			add_stack(writing, i, root, to);
	} while ((i = writing->next[i]));
	json_close_array(to);
	json_open_array(json_key(to, "weights"));
	i = root;
	do {
		if (view->nodes[i].self)
			json_add_uint(to, view->nodes[i].self);
	} while ((i = writing->next[i]));
	json_close_array(to);
	json_close_object(to);
	buffer_free(&name);
}

static struct export_left write_speedscope(const struct profile_view *view, struct output *output)
{
	struct writing writing = writing_begin(view);
	struct buffer *to = &output->buffer;
	struct buffer losses = {0};

	json_open_object(to);
	json_member_string(to, "$schema", SCHEMA);
	json_member_string(to, "exporter", "rbprobe");
	/* It is the title of what is shown. */
	if (losses_add(view->profile, &losses))
		json_member_text(to, "name", (struct slice){losses.bytes, losses.size});
	buffer_free(&losses);
	add_frames(view->profile, to);
	json_open_array(json_key(to, "profiles"));
	if (!view->threads)
		add_profile(&writing, 0, to);
	for (uint32_t root = view->threads ? view->nodes[0].first_child : 0; root; root = view->nodes[root].next)
		add_profile(&writing, root, to);
	json_close_array(to);
	json_close_line(to);
	writing_end(&writing);
	return (struct export_left){0};
}

const struct export_format export_speedscope = {.name = "speedscope", .profile = write_speedscope};
