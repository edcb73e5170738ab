/* A profile as a page. See html.h. */

#include "tracer/html/html_parts.h"

#include "tracer/base/json.h"
#include "tracer/profile/profile_view.h"

/* By what a page can be looked at, the usual first, and what that is called there. PROFILE_WEIGHTS: no more. */
static const enum profile_weight of_time[] = {PROFILE_WALL, PROFILE_CPU, PROFILE_WEIGHTS};
static const enum profile_weight of_gvl[] = {PROFILE_WAITED, PROFILE_HELD, PROFILE_WALL, PROFILE_CPU, PROFILE_WEIGHTS};
static const enum profile_weight of_objects[] = {PROFILE_BYTES, PROFILE_OBJECTS, PROFILE_WEIGHTS};
static const enum profile_weight of_objects_alone[] = {PROFILE_OBJECTS, PROFILE_WEIGHTS};

/* The prefix is that of the weight's columns. */
static const struct {
	const char *prefix, *title;
} words[PROFILE_WEIGHTS] = {
	[PROFILE_WALL] = {"wall_", "wall"},
	[PROFILE_CPU] = {"cpu_", "CPU"},
	[PROFILE_WAITED] = {"waited_", "waited for the GVL"},
	[PROFILE_HELD] = {"held_", "GVL held while others waited"},
	[PROFILE_BYTES] = {"bytes_", "bytes"},
	[PROFILE_OBJECTS] = {"objects_", "objects"},
};

static const enum profile_weight *weights_of(const struct profile *profile)
{
	if (!profile->of_objects)
		return profile->of_gvl ? of_gvl : of_time;
	for (uint32_t i = 0; i < profile->process_count; i++)
		if (profile->processes[i].summary.with_bytes)
			return of_objects;
	return of_objects_alone;
}

static void add_weights(const enum profile_weight *weights, struct buffer *to)
{
	json_open_array(json_key(to, "weights"));
	for (; *weights != PROFILE_WEIGHTS; weights++) {
		json_open_array(to);
		json_add_string(to, words[*weights].prefix);
		json_add_string(to, words[*weights].title);
		json_add_string(to, profile_unit(*weights)->scope);
		json_close_array(to);
	}
	json_close_array(to);
}

/* Nodes of a profile have their numbers in the page as well; a name is a function's number, or a thread's. */
static void add_tree(const struct profile *profile, enum profile_weight weight, const char *prefix, struct html_columns *columns)
{
	struct profile_view view = profile_view_make(profile, weight, true);
	struct html_tree tree = {.count = view.node_count};

	tree.nodes = memory_zeroed((view.node_count + 1) * sizeof(*tree.nodes));
	for (uint32_t i = 0; i < view.node_count; i++)
		tree.nodes[i] = (struct html_node){.parent = view.nodes[i].parent,
		                                   .name = view.nodes[i].function,
		                                   .total_ns = view.nodes[i].total,
		                                   .self_ns = view.nodes[i].self};
	html_columns_tree(columns, prefix, &tree);
	html_tree_free(&tree);
	profile_view_free(&view);
}

static void add_functions(const struct profile *profile, struct buffer *to)
{
	json_open_array(json_key(to, "methods"));
	for (uint32_t i = 0; i < profile->function_count; i++) {
		json_open_array(to);
		html_add_shown(to, profile_label(profile, i));
		html_add_shown(to, profile_path(profile, i));
		json_add_int(to, profile->functions[i].line);
		json_close_array(to);
	}
	json_close_array(to);
}

static void add_threads(const struct profile *profile, struct buffer *to)
{
	struct buffer name = {0};

	json_open_array(json_key(to, "threads"));
	for (uint32_t i = 0; i < profile->thread_count; i++) {
		name.size = 0;
		profile_thread_name(profile, i, &name);
		json_open_object(to);
		html_add_shown(json_key(to, "name"), (struct slice){name.bytes, name.size});
		json_member_int(to, "pid", profile->processes[profile->threads[i].process].pid);
		json_member_uint(to, "id", profile->threads[i].native_id);
		json_close_object(to);
	}
	json_close_array(to);
	buffer_free(&name);
}

static void add_objects(const struct profile_summary *summary, struct buffer *to)
{
	json_member_uint(to, "made", summary->made);
	json_member_uint(to, "every", summary->every);
	json_member_uint(to, "lost", summary->lost);
	json_member_uint(to, "off_ns", summary->off_ns);
	json_member_uint(to, "unwatched", summary->unwatched);
	json_member_uint(to, "unwatched_ns", summary->unwatched_ns);
	json_member_bool(to, "bytes", summary->with_bytes);
	json_member_bool(to, "retained", summary->retained);
	json_member_bool(to, "ended_early", profile_ended_early(summary));
}

static void add_processes(const struct profile *profile, struct buffer *to)
{
	json_open_array(json_key(to, "sessions"));
	for (uint32_t i = 0; i < profile->process_count; i++) {
		const struct profile_process *process = &profile->processes[i];
		const struct profile_summary *summary = &process->summary;

		json_open_object(to);
		json_member_int(to, "pid", process->pid);
		html_add_shown(json_key(to, "ruby"), process->ruby_version);
		html_add_shown(json_key(to, "command"), process->command);
		if (summary->there) {
			json_member_uint(to, "duration_ns", summary->elapsed_ns);
			json_member_uint(to, "samples", summary->samples);
			json_member_uint(to, "late_ns", summary->late_ns);
			json_member_uint(to, "no_room", summary->no_room_ticks);
			json_member_uint(to, "threads_left_out", summary->threads_left_out);
			json_member_uint(to, "cut", summary->cut);
			json_add_real(json_key(to, "rate_hz"), summary->rate_hz);
			json_member_bool(to, "cpu", summary->with_cpu);
			if (profile->of_objects)
				add_objects(summary, to);
		}
		json_close_object(to);
	}
	json_close_array(to);
}

void html_write_profile(const struct profile *profile, const char *name, const char *note, struct buffer *to)
{
	const enum profile_weight *weights = weights_of(profile);
	struct html_columns columns = {0};
	struct buffer about = {0};

	json_open_object(&about);
	json_member_string(&about, "kind", "profile");
	json_member_bool(&about, "of_objects", profile->of_objects);
	html_add_shown(json_key(&about, "file"), (struct slice){name, strlen(name)});
	json_member_uint(&about, "rate_hz", profile->rate_hz);
	json_open_array(json_key(&about, "notes"));
	if (note)
		html_add_shown(&about, (struct slice){note, strlen(note)});
	json_close_array(&about);
	add_functions(profile, &about);
	add_threads(profile, &about);
	add_processes(profile, &about);
	add_weights(weights, &about);
	for (; *weights != PROFILE_WEIGHTS; weights++)
		add_tree(profile, *weights, words[*weights].prefix, &columns);
	html_page(&columns, &about, to);
	buffer_free(&about);
}
