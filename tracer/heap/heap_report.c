/* Reading one to three dumps, each once. See heap_report.h. */

#include "tracer/heap/heap_report.h"

#include "tracer/base/buffer.h"
#include "tracer/heap/heap_identities.h"

#include <errno.h>
#include <stdlib.h>

/* What a line goes into. */
struct heap_feed {
	struct heap_report *report;
	struct heap_dump *dump;
	struct heap_identities first;     /* all of the first dump */
	struct heap_identities candidate; /* what is only in the second of three */
	struct heap_pair counted;         /* of the line, in the dump's summary */
	struct heap_references references;
	uint32_t node; /* of the line, in the graph; HEAP_NODE_NONE: none is made of this dump */
};

static void alone(struct heap_feed *feed, const struct heap_line *line)
{
	(void)feed;
	(void)line;
}

static void first_of_several(struct heap_feed *feed, const struct heap_line *line)
{
	heap_identities_add(&feed->first, line, HEAP_TABLE_NONE);
}

/* It is one of those that the report is about. */
static void compared(struct heap_feed *feed, const struct heap_line *line)
{
	struct heap_pair pair = heap_summary_add(&feed->report->compared, line);

	if (feed->report->leaks && feed->node != HEAP_NODE_NONE)
		heap_leaks_note(&feed->report->leaked, feed->node, pair);
}

static void second_of_two(struct heap_feed *feed, const struct heap_line *line)
{
	if (heap_identities_find(&feed->first, line, NULL))
		feed->report->stayed++;
	else
		compared(feed, line);
}

static void second_of_three(struct heap_feed *feed, const struct heap_line *line)
{
	if (!heap_identities_find(&feed->first, line, NULL))
		heap_identities_add(&feed->candidate, line, feed->counted.site);
}

/* Where recording has ended since, the second dump knows where the object was allocated. */
static void third(struct heap_feed *feed, const struct heap_line *line)
{
	const struct heap_summary *second = &feed->report->dumps[1].summary;
	struct heap_line known = *line;
	struct heap_allocation then;

	if (!heap_identities_find(&feed->candidate, line, &then))
		return;
	if (!line->file.bytes && then.site != HEAP_TABLE_NONE) {
		known.file = second->files.texts[second->sites[then.site].file];
		known.source_line = second->sites[then.site].line;
	}
	if (!line->has_generation && then.has_generation) {
		known.has_generation = true;
		known.generation = then.generation;
	}
	compared(feed, &known);
}

/* By the number of dumps, and which of them it is: what is done with an object besides counting it. */
static void (*const object_steps[HEAP_DUMPS_MAX][HEAP_DUMPS_MAX])(struct heap_feed *, const struct heap_line *) = {
	{alone},
	{first_of_several, second_of_two},
	{first_of_several, second_of_three, third},
};

static bool is_class(const struct heap_line *line)
{
	return heap_line_is(line, "CLASS") || heap_line_is(line, "MODULE") || heap_line_is(line, "ICLASS");
}

/* Who holds what is asked of the last dump only. */
static uint32_t add_to_graph(struct heap_feed *feed, const struct heap_line *line, bool own)
{
	struct heap_report *report = feed->report;

	if (!heap_report_has_holders(report) || feed->dump != heap_report_last(report))
		return HEAP_NODE_NONE;
	return heap_graph_add(&report->holders.graph, line, &feed->references, feed->counted, own);
}

static void on_line(void *owner, const struct heap_line *line)
{
	struct heap_feed *feed = owner;
	struct heap_report *report = feed->report;

	if (is_class(line))
		heap_classes_learn(&feed->dump->classes, line);
	heap_own_learn(&feed->dump->own, line);
	if (heap_own_has(&feed->dump->own, line)) {
		feed->dump->own_total.objects++;
		feed->dump->own_total.bytes += line->memsize;
		feed->counted = (struct heap_pair){HEAP_TABLE_NONE, HEAP_TABLE_NONE};
		add_to_graph(feed, line, true);
		return;
	}
	if (report->wants_shapes && feed->dump == heap_report_last(report))
		heap_shapes_add(&feed->dump->shapes, &feed->dump->classes, line);
	feed->counted = heap_summary_add(&feed->dump->summary, line);
	feed->node = add_to_graph(feed, line, false);
	if (heap_line_is_object(line))
		object_steps[report->dump_count - 1][feed->dump - report->dumps](feed, line);
}

void heap_report_begin(struct heap_report *report)
{
	uint32_t last = report->dump_count - 1;

	report->feed = memory_zeroed(sizeof(*report->feed));
	*report->feed = (struct heap_feed){.report = report, .candidate = {.with_sites = true}};
	for (uint32_t i = 0; i <= last; i++)
		heap_summary_open(&report->dumps[i].summary, &report->dumps[i].classes, last == 0 ? HEAP_DETAIL_OBJECTS : 0,
		                  report->top);
	heap_summary_open(&report->compared, &report->dumps[last].classes, last ? HEAP_DETAIL_OBJECTS | HEAP_DETAIL_PAIRS : 0,
	                  report->top);
}

int heap_report_read(struct heap_report *report, uint32_t number, struct error *err)
{
	struct heap_feed *feed = report->feed;
	struct heap_reader reader = {.on_line = on_line, .owner = feed};
	int status;

	if (heap_report_has_holders(report) && number == report->dump_count - 1)
		reader.references = &feed->references;
	feed->dump = &report->dumps[number];
	status = heap_read(report->paths[number], &reader, &feed->dump->reading, err);
	if (number == 1) {
		report->only_in_second = feed->candidate.count;
		heap_identities_free(&feed->first);
	}
	return status;
}

static void feed_free(struct heap_report *report)
{
	if (!report->feed)
		return;
	heap_identities_free(&report->feed->first);
	heap_identities_free(&report->feed->candidate);
	heap_references_free(&report->feed->references);
	free(report->feed);
	report->feed = NULL;
}

/* Picks what the user has named. */
static int pick_retainers(struct heap_report *report, struct error *err)
{
	const char *text = report->retainers;
	const struct heap_dump *last = heap_report_last(report);
	uint64_t address = 0, found;
	char *end = NULL;

	if (strncmp(text, "0x", 2) == 0)
		address = strtoull(text, &end, 16);
	if (address && !*end)
		found = heap_paths_pick_address(&report->holders, address);
	else
		found = heap_paths_pick_label(&report->holders, (struct slice){text, strlen(text)});
	if (found)
		return 0;
	if (address && !*end)
		return error_set(err, -ENOENT, "%s has no object at %s", last->reading.name, text);
	return error_set(err, -ENOENT,
	                 "%s has no object of class %s; name it as the report's table of classes does (the class itself is "
	                 "\"class %s\")",
	                 last->reading.name, text, text);
}

static void find_class_paths(struct heap_report *report)
{
	struct heap_holders *holders = &report->holders;
	uint32_t count = report->classes_with_paths;

	if (count > holders->class_count)
		count = holders->class_count;
	report->class_paths = memory_zeroed((size_t)count * sizeof(*report->class_paths) + 1);
	for (uint32_t i = 0; i < count; i++) {
		heap_paths_pick_label(holders, heap_label_text(&holders->labels, holders->classes[i].label));
		heap_paths_find(&report->class_paths[report->class_path_count++], holders);
	}
}

static int find_holders(struct heap_report *report, struct error *err)
{
	const struct heap_dump *last = heap_report_last(report);
	struct heap_holders *holders = &report->holders;

	if (holders->graph.too_large)
		return error_set(err, -E2BIG, "%s has more references than rbprobe can look through (4,294,967,294)",
		                 last->reading.name);
	if (!holders->graph.root_count)
		return error_set(
			err, -EINVAL,
			"%s has no roots, so that nobody can tell who holds what; it is a dump of a part of the heap, or "
			"was changed",
			last->reading.name);
	heap_holders_find(holders, &last->summary);
	if (report->retainers) {
		if (pick_retainers(report, err) < 0)
			return err->code;
		heap_paths_find(&report->retained_by, holders);
	}
	find_class_paths(report);
	if (report->leaks)
		heap_leaks_find(&report->leaked, holders, &report->compared, report->top);
	return 0;
}

int heap_report_end(struct heap_report *report, struct error *err)
{
	feed_free(report);
	heap_biggest_sort(&report->dumps[report->dump_count - 1].summary.biggest);
	heap_biggest_sort(&report->compared.biggest);
	return heap_report_has_holders(report) ? find_holders(report, err) : 0;
}

int heap_report_make(struct heap_report *report, struct error *err)
{
	int status = 0;

	heap_report_begin(report);
	for (uint32_t i = 0; i < report->dump_count && status == 0; i++)
		status = heap_report_read(report, i, err);
	return status == 0 ? heap_report_end(report, err) : status;
}

void heap_report_free(struct heap_report *report)
{
	feed_free(report);
	heap_paths_free(&report->retained_by);
	for (uint32_t i = 0; i < report->class_path_count; i++)
		heap_paths_free(&report->class_paths[i]);
	free(report->class_paths);
	heap_leaks_free(&report->leaked);
	heap_holders_free(&report->holders);
	heap_summary_close(&report->compared);
	for (uint32_t i = 0; i < report->dump_count; i++) {
		heap_summary_close(&report->dumps[i].summary);
		heap_classes_free(&report->dumps[i].classes);
		heap_own_free(&report->dumps[i].own);
		heap_shapes_free(&report->dumps[i].shapes);
	}
}

void heap_report_rank(const struct heap_report *report, const struct heap_dimension *dimension, const struct heap_summary *before,
                      const struct heap_summary *now, struct heap_ranking *ranking)
{
	if (before)
		dimension->collect(before, true, ranking);
	dimension->collect(now, false, ranking);
	if (before)
		heap_ranking_keep_changed(ranking);
	heap_ranking_sort(ranking, report->order);
}
