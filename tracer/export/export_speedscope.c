/*
 * speedscope's JSON: frames once, and a "sampled" profile whose samples are stacks with weights in nanoseconds, bytes or objects.
 * With threads each has a profile of its own. The order of samples in time is not known: they stand in the order of the tree.
 */

#include "tracer/export/export.h"

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

static bool is_below(const struct profile_view *view, uint32_t node, uint32_t root)
{
	while (node > root)
		node = view->nodes[node].parent;
	return node == root;
}

/* The stack of a node, the outermost frame first. */
static void add_stack(const struct profile_view *view, uint32_t number, uint32_t root, uint32_t *path, struct buffer *to)
{
	uint32_t depth = 0;

	for (; number != root; number = view->nodes[number].parent)
		path[depth++] = view->nodes[number].function;
	json_open_array(to);
	while (depth > 0)
		json_add_uint(to, path[--depth]);
	json_close_array(to);
}

static void add_profile(const struct profile_view *view, uint32_t root, struct buffer *to)
{
	uint32_t *path = memory_zeroed((view->node_count + 1) * sizeof(*path));
	struct buffer name = {0};

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
	for (uint32_t i = root; i < view->node_count; i++)
		if (view->nodes[i].self && is_below(view, i, root))
			add_stack(view, i, root, path, to);
	json_close_array(to);
	json_open_array(json_key(to, "weights"));
	for (uint32_t i = root; i < view->node_count; i++)
		if (view->nodes[i].self && is_below(view, i, root))
			json_add_uint(to, view->nodes[i].self);
	json_close_array(to);
	json_close_object(to);
	buffer_free(&name);
	free(path);
}

static void write_speedscope(const struct profile_view *view, struct buffer *to)
{
	json_open_object(to);
	json_member_string(to, "$schema", SCHEMA);
	json_member_string(to, "exporter", "rbprobe");
	add_frames(view->profile, to);
	json_open_array(json_key(to, "profiles"));
	if (!view->threads)
		add_profile(view, 0, to);
	for (uint32_t root = view->threads ? view->nodes[0].first_child : 0; root; root = view->nodes[root].next)
		add_profile(view, root, to);
	json_close_array(to);
	json_close_line(to);
}

const struct export_format export_speedscope = {.name = "speedscope", .profile = write_speedscope};
