/* Who holds what, for programs. See heap_report.h. */

#include "tracer/heap/heap_report.h"

#include "tracer/base/json.h"

#include <stdio.h>

#define STEPS_MAX 1000u /* of a path, from its end */
#define PATHS_OF_A_CLASS 5u
#define TREE_DEPTH 12u
#define TREE_LEAST 1000u

static void add_tally(struct buffer *to, const char *key, const struct heap_tally *tally)
{
	json_open_object(json_key(to, key));
	json_member_uint(to, "objects", tally->objects);
	json_member_uint(to, "bytes", tally->bytes);
	json_close_object(to);
}

/* Members of a node: what it is, and what it retains. */
static void add_node(struct heap_report *report, uint32_t number, struct buffer *to)
{
	struct heap_holders *holders = &report->holders;
	const struct heap_node *node = &holders->graph.nodes[number];
	struct buffer site = {0};
	char address[24];

	heap_json_escaped(to, "class", heap_label_text(&holders->labels, heap_label_of(&holders->labels, number)));
	if (!(node->flags & HEAP_NODE_ROOT)) {
		snprintf(address, sizeof(address), "0x%llx", (unsigned long long)node->address);
		json_member_string(to, "address", address);
		json_member_uint(to, "bytes", node->memsize);
		if (node->counted.site != HEAP_TABLE_NONE) {
			heap_label_site(&heap_report_last(report)->summary, node->counted.site, &site);
			heap_json_escaped(to, "site", (struct slice){site.bytes, site.size});
			buffer_free(&site);
		}
	}
	json_member_uint(to, "references", node->degree);
	json_member_uint(to, "retained_bytes", holders->dominators.retained[number]);
}

/* From the object up to the root. */
static void add_path(struct heap_report *report, const struct heap_paths *paths, uint32_t end, struct buffer *to)
{
	uint32_t count = 0;

	json_open_object(to);
	json_member_uint(to, "objects", paths->steps[end].ends.objects);
	json_member_uint(to, "bytes", paths->steps[end].ends.bytes);
	json_member_uint(to, "retained_bytes", paths->steps[end].retained);
	json_open_array(json_key(to, "steps"));
	for (uint32_t at = end; at != HEAP_NODE_NONE; at = paths->steps[at].above) {
		const struct heap_step *step = &paths->steps[at];

		if (count++ >= STEPS_MAX)
			continue;
		json_open_object(to);
		json_member_uint(to, "objects", step->objects);
		json_member_bool(to, "chain", step->is_chain);
		add_node(report, step->example, to);
		json_close_object(to);
	}
	json_close_array(to);
	json_member_uint(to, "length", count);
	json_close_object(to);
}

/* Members. */
static void add_paths(struct heap_report *report, const struct heap_paths *paths, uint32_t most, struct buffer *to)
{
	uint64_t rest = 0;

	add_tally(to, "live", &paths->live);
	add_tally(to, "garbage", &paths->garbage);
	json_member_uint(to, "retained_bytes", paths->retained);
	json_open_array(json_key(to, "paths"));
	for (uint32_t i = 0; i < paths->end_count && i < most; i++)
		add_path(report, paths, paths->ends[i], to);
	json_close_array(to);
	for (uint32_t i = most; i < paths->end_count; i++)
		rest += paths->steps[paths->ends[i]].ends.objects;
	json_member_uint(to, "more_paths", paths->end_count > most ? paths->end_count - most : 0);
	json_member_uint(to, "objects_on_more_paths", rest);
}

static void add_leaks(struct heap_report *report, struct buffer *to)
{
	const struct heap_leaks *leaks = &report->leaked;

	json_open_object(json_key(to, "leaks"));
	add_tally(to, "live", &leaks->live);
	add_tally(to, "garbage", &leaks->garbage);
	json_member_uint(to, "retained_bytes", leaks->retained);
	json_open_array(json_key(to, "rows"));
	for (uint32_t i = 0; i < leaks->shown; i++) {
		struct slice label = leaks->labels.texts[leaks->items[i].label];
		const char *separator = memchr(label.bytes, HEAP_LABEL_SEPARATOR, label.size);
		size_t first = (size_t)(separator - label.bytes);

		json_open_object(to);
		heap_json_escaped(to, "class", (struct slice){label.bytes, first});
		heap_json_escaped(to, "site", (struct slice){separator + 1, label.size - first - 1});
		add_paths(report, &leaks->items[i].paths, report->top, to);
		json_close_object(to);
	}
	json_close_array(to);
	json_member_uint(to, "more_rows", leaks->count - leaks->shown);
	json_close_object(to);
}

static void add_tree(struct heap_report *report, uint32_t node, unsigned depth, struct buffer *to)
{
	struct heap_holders *holders = &report->holders;
	const uint64_t *retained = holders->dominators.retained;
	uint64_t least = holders->live.bytes / TREE_LEAST;
	uint32_t count, shown = 0;
	const uint32_t *children = heap_holders_children(holders, node, &count);

	json_member_uint(to, "dominates", count);
	json_open_array(json_key(to, "biggest"));
	for (; depth < TREE_DEPTH && shown < count && shown < report->top && retained[children[shown]] >= least; shown++) {
		json_open_object(to);
		add_node(report, children[shown], to);
		add_tree(report, children[shown], depth + 1, to);
		json_close_object(to);
	}
	json_close_array(to);
}

static void add_dominators(struct heap_report *report, struct buffer *to)
{
	const struct heap_holders *holders = &report->holders;

	json_open_object(json_key(to, "dominators"));
	json_open_array(json_key(to, "classes"));
	for (uint32_t i = 0; i < holders->class_count && i < report->top; i++) {
		json_open_object(to);
		heap_json_escaped(to, "class", heap_label_text(&holders->labels, holders->classes[i].label));
		json_member_uint(to, "objects", holders->classes[i].live.objects);
		json_member_uint(to, "bytes", holders->classes[i].live.bytes);
		json_member_uint(to, "retained_bytes", holders->classes[i].retained);
		if (i < report->class_path_count) {
			json_open_object(json_key(to, "held"));
			add_paths(report, &report->class_paths[i], PATHS_OF_A_CLASS, to);
			json_close_object(to);
		}
		json_close_object(to);
	}
	json_close_array(to);
	add_tree(report, 0, 0, to);
	json_close_object(to);
}

void heap_holders_add_json(struct heap_report *report, struct buffer *to)
{
	const struct heap_holders *holders = &report->holders;

	add_tally(to, "live", &holders->live);
	add_tally(to, "garbage", &holders->garbage);
	json_member_uint(to, "duplicate_lines", holders->graph.duplicates);
	json_member_uint(to, "dangling_references", holders->graph.dangling);
	if (report->leaks)
		add_leaks(report, to);
	if (report->retainers) {
		json_open_object(json_key(to, "retainers"));
		json_member_string(to, "of", report->retainers);
		add_paths(report, &report->retained_by, report->top, to);
		json_close_object(to);
	}
	if (report->dominators)
		add_dominators(report, to);
}
