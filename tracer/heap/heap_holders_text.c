/* Who holds what, for people. See heap_report.h. */

#include "tracer/heap/heap_report.h"

#include <stdlib.h>

/* A path that is longer is shown from both its ends. */
#define STEPS_SHOWN 24u
#define PATHS_OF_A_LEAK 3u
/* The dominator tree: how deep, and what part of the memory that lives something must retain. */
#define TREE_DEPTH 12u
#define TREE_LEAST 100u

static void add_text(struct buffer *to, struct slice text)
{
	buffer_add_printable(to, text.bytes, text.size);
}

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

/* Where it was allocated, if that was recorded. */
static void add_site(const struct heap_report *report, const struct heap_node *node, struct buffer *to)
{
	struct buffer label = {0};

	if (node->counted.site == HEAP_TABLE_NONE || node->flags & HEAP_NODE_ROOT)
		return;
	heap_label_site(&heap_report_last(report)->summary, node->counted.site, &label);
	buffer_add_text(to, "  ");
	add_text(to, (struct slice){label.bytes, label.size});
	buffer_free(&label);
}

static void add_object(struct heap_report *report, uint32_t number, struct buffer *to)
{
	const struct heap_node *node = &report->holders.graph.nodes[number];

	add_text(to, heap_label_text(&report->holders.labels, heap_label_of(&report->holders.labels, number)));
	if (!(node->flags & HEAP_NODE_ROOT))
		buffer_add_format(to, " 0x%llx", (unsigned long long)node->address);
	add_site(report, node, to);
}

static void add_step(struct heap_report *report, const struct heap_step *step, bool is_last, struct buffer *to)
{
	const struct heap_holders *holders = &report->holders;
	const struct heap_node *node = &holders->graph.nodes[step->example];

	buffer_add_text(to, "     ");
	if (step->objects > 1)
		buffer_add_format(to, "%u objects%s, such as ", step->objects, step->is_chain ? ", one after the other" : "");
	add_object(report, step->example, to);
	if (!is_last && heap_holders_is_object(holders, step->example))
		buffer_add_format(to, "  (%u reference%s, retains %llu)", node->degree, plural(node->degree),
		                  (unsigned long long)holders->dominators.retained[step->example]);
	buffer_add_char(to, '\n');
}

/* From the root down to where the path ends. */
static void add_path(struct heap_report *report, const struct heap_paths *paths, uint32_t end, struct buffer *to)
{
	uint32_t count = 0, place = 0, *steps;

	for (uint32_t at = end; at != HEAP_NODE_NONE; at = paths->steps[at].above)
		count++;
	steps = memory_resize(NULL, count * sizeof(*steps));
	place = count;
	for (uint32_t at = end; at != HEAP_NODE_NONE; at = paths->steps[at].above)
		steps[--place] = at;
	for (uint32_t i = 0; i < count; i++) {
		if (count > STEPS_SHOWN && i == STEPS_SHOWN / 2) {
			buffer_add_format(to, "     ... %u steps\n", count - STEPS_SHOWN);
			i = count - STEPS_SHOWN / 2;
		}
		add_step(report, &paths->steps[steps[i]], i == count - 1, to);
	}
	free(steps);
}

static void write_paths(struct heap_report *report, const struct heap_paths *paths, uint32_t most, struct buffer *to)
{
	uint32_t shown = paths->end_count < most ? paths->end_count : most;
	uint64_t rest = 0;

	for (uint32_t i = 0; i < shown; i++) {
		const struct heap_step *end = &paths->steps[paths->ends[i]];

		buffer_add_format(to, "\n  %llu object%s, %llu bytes, retain %llu\n", (unsigned long long)end->ends.objects,
		                  plural(end->ends.objects), (unsigned long long)end->ends.bytes,
		                  (unsigned long long)end->retained);
		add_path(report, paths, paths->ends[i], to);
	}
	for (uint32_t i = shown; i < paths->end_count; i++)
		rest += paths->steps[paths->ends[i]].ends.objects;
	if (rest)
		buffer_add_format(to, "\n  ... %llu object%s on %u more path%s\n", (unsigned long long)rest, plural(rest),
		                  paths->end_count - shown, plural(paths->end_count - shown));
}

static void write_retainers(struct heap_report *report, struct buffer *to)
{
	const struct heap_paths *paths = &report->retained_by;

	buffer_add_text(to, "\n=== Who holds ");
	buffer_add_printable(to, report->retainers, strlen(report->retainers));
	buffer_add_format(to, ": %llu object%s, %llu bytes; they retain %llu bytes\n", (unsigned long long)paths->live.objects,
	                  plural(paths->live.objects), (unsigned long long)paths->live.bytes,
	                  (unsigned long long)paths->retained);
	if (paths->garbage.objects)
		buffer_add_format(to, "Nobody holds %llu more (%llu bytes): they are garbage\n",
		                  (unsigned long long)paths->garbage.objects, (unsigned long long)paths->garbage.bytes);
	write_paths(report, paths, report->top, to);
}

/* --- Leaks */

static void add_leak_label(const struct heap_leaks *leaks, const struct heap_leak *leak, struct buffer *to)
{
	struct slice label = leaks->labels.texts[leak->label];
	const char *separator = memchr(label.bytes, HEAP_LABEL_SEPARATOR, label.size);
	size_t first = (size_t)(separator - label.bytes);

	buffer_add_printable(to, label.bytes, first);
	buffer_add_text(to, "  ");
	buffer_add_printable(to, separator + 1, label.size - first - 1);
}

static void write_leaks(struct heap_report *report, struct buffer *to)
{
	const struct heap_leaks *leaks = &report->leaked;

	buffer_add_format(to, "\n=== Who holds what is %s: %llu objects, %llu bytes; they retain %llu bytes\n",
	                  report->dump_count == 2 ? "new" : "retained", (unsigned long long)leaks->live.objects,
	                  (unsigned long long)leaks->live.bytes, (unsigned long long)leaks->retained);
	if (leaks->garbage.objects)
		buffer_add_format(to, "Nobody holds %llu more (%llu bytes): they are garbage\n",
		                  (unsigned long long)leaks->garbage.objects, (unsigned long long)leaks->garbage.bytes);
	if (!leaks->shown)
		return;
	buffer_add_format(to, "\nBy class and allocation site\n%12s %14s %14s\n", "OBJECTS", "BYTES", "RETAINED");
	for (uint32_t i = 0; i < leaks->shown; i++) {
		const struct heap_leak *leak = &leaks->items[i];

		buffer_add_format(to, "%12llu %14llu %14llu  ", (unsigned long long)leak->live.objects,
		                  (unsigned long long)leak->live.bytes, (unsigned long long)leak->paths.retained);
		add_leak_label(leaks, leak, to);
		buffer_add_char(to, '\n');
	}
	if (leaks->shown < leaks->count)
		buffer_add_format(to, "%12s ... %u more\n", "", leaks->count - leaks->shown);
	for (uint32_t i = 0; i < leaks->shown; i++) {
		buffer_add_text(to, "\n--- ");
		add_leak_label(leaks, &leaks->items[i], to);
		buffer_add_char(to, '\n');
		write_paths(report, &leaks->items[i].paths, PATHS_OF_A_LEAK, to);
	}
}

/* --- The dominator tree */

static void write_tree(struct heap_report *report, uint32_t node, unsigned depth, struct buffer *to)
{
	struct heap_holders *holders = &report->holders;
	const uint64_t *retained = holders->dominators.retained;
	uint64_t least = holders->live.bytes / TREE_LEAST;
	const uint32_t *children;
	uint32_t count;

	children = heap_holders_children(holders, node, &count);
	for (uint32_t i = 0; i < count && i < report->top && retained[children[i]] >= least; i++) {
		uint32_t child = children[i];

		buffer_add_format(to, "%14llu %14llu  %*s", (unsigned long long)retained[child],
		                  (unsigned long long)holders->graph.nodes[child].memsize, (int)(2 * depth), "");
		add_object(report, child, to);
		buffer_add_char(to, '\n');
		if (depth + 1 < TREE_DEPTH)
			write_tree(report, child, depth + 1, to);
	}
}

static void write_dominators(struct heap_report *report, struct buffer *to)
{
	const struct heap_holders *holders = &report->holders;
	uint32_t shown = holders->class_count < report->top ? holders->class_count : report->top;

	buffer_add_format(to, "\n=== Dominators: what would go if an object went\n\nBy class\n%12s %14s %14s\n", "OBJECTS",
	                  "BYTES", "RETAINED");
	for (uint32_t i = 0; i < shown; i++) {
		const struct heap_holding *row = &holders->classes[i];

		buffer_add_format(to, "%12llu %14llu %14llu  ", (unsigned long long)row->live.objects,
		                  (unsigned long long)row->live.bytes, (unsigned long long)row->retained);
		add_text(to, heap_label_text(&holders->labels, row->label));
		buffer_add_char(to, '\n');
	}
	if (shown < holders->class_count)
		buffer_add_format(to, "%12s ... %u more\n", "", holders->class_count - shown);
	buffer_add_format(to, "\nObjects that retain 1 %% or more, below those that dominate them\n%14s %14s\n", "RETAINED",
	                  "BYTES");
	write_tree(report, 0, 0, to);
}

void heap_holders_write_text(struct heap_report *report, struct buffer *to)
{
	const struct heap_holders *holders = &report->holders;

	buffer_add_format(to, "\n=== Roots reach %llu objects, %llu bytes; garbage: %llu objects, %llu bytes\n",
	                  (unsigned long long)holders->live.objects, (unsigned long long)holders->live.bytes,
	                  (unsigned long long)holders->garbage.objects, (unsigned long long)holders->garbage.bytes);
	if (holders->graph.duplicates)
		buffer_add_format(to, "Left out: %llu lines whose address another line has, or no object can have\n",
		                  (unsigned long long)holders->graph.duplicates);
	if (holders->graph.dangling)
		buffer_add_format(to, "Left out: %llu references to what is not in the dump\n",
		                  (unsigned long long)holders->graph.dangling);
	if (report->leaks)
		write_leaks(report, to);
	if (report->retainers)
		write_retainers(report, to);
	if (report->dominators)
		write_dominators(report, to);
}
