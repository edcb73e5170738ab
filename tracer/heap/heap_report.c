/* Reading one to three dumps, each once. See heap_report.h. */

#include "tracer/heap/heap_report.h"

#include "tracer/heap/heap_identities.h"

/* What a line goes into. */
struct feed {
	struct heap_report *report;
	struct heap_dump *dump;
	struct heap_identities first;     /* all of the first dump */
	struct heap_identities candidate; /* what is only in the second of three */
	uint32_t site;                    /* of the line, in the dump's summary */
};

static void alone(struct feed *feed, const struct heap_line *line)
{
	(void)feed;
	(void)line;
}

static void first_of_several(struct feed *feed, const struct heap_line *line)
{
	heap_identities_add(&feed->first, line, HEAP_TABLE_NONE);
}

static void second_of_two(struct feed *feed, const struct heap_line *line)
{
	if (heap_identities_find(&feed->first, line, NULL))
		feed->report->stayed++;
	else
		heap_summary_add(&feed->report->compared, line);
}

static void second_of_three(struct feed *feed, const struct heap_line *line)
{
	if (!heap_identities_find(&feed->first, line, NULL))
		heap_identities_add(&feed->candidate, line, feed->site);
}

/* Where recording has ended since, the second dump knows where the object was allocated. */
static void third(struct feed *feed, const struct heap_line *line)
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
	heap_summary_add(&feed->report->compared, &known);
}

/* By the number of dumps, and which of them it is: what is done with an object besides counting it. */
static void (*const object_steps[HEAP_DUMPS_MAX][HEAP_DUMPS_MAX])(struct feed *, const struct heap_line *) = {
	{alone},
	{first_of_several, second_of_two},
	{first_of_several, second_of_three, third},
};

static bool is_class(const struct heap_line *line)
{
	return heap_line_is(line, "CLASS") || heap_line_is(line, "MODULE") || heap_line_is(line, "ICLASS");
}

static void on_line(void *owner, const struct heap_line *line)
{
	struct feed *feed = owner;
	struct heap_report *report = feed->report;

	if (is_class(line))
		heap_classes_learn(&feed->dump->classes, line);
	heap_own_learn(&feed->dump->own, line);
	if (heap_own_has(&feed->dump->own, line)) {
		feed->dump->own_total.objects++;
		feed->dump->own_total.bytes += line->memsize;
		return;
	}
	feed->site = heap_summary_add(&feed->dump->summary, line);
	if (heap_line_is_object(line))
		object_steps[report->dump_count - 1][feed->dump - report->dumps](feed, line);
}

int heap_report_make(struct heap_report *report, struct error *err)
{
	uint32_t last = report->dump_count - 1;
	struct feed feed = {.report = report, .candidate = {.with_sites = true}};
	int status = 0;

	for (uint32_t i = 0; i <= last; i++)
		heap_summary_open(&report->dumps[i].summary, &report->dumps[i].classes, last == 0 ? HEAP_DETAIL_OBJECTS : 0,
		                  report->top);
	heap_summary_open(&report->compared, &report->dumps[last].classes, last ? HEAP_DETAIL_OBJECTS | HEAP_DETAIL_PAIRS : 0,
	                  report->top);
	for (uint32_t i = 0; i <= last && status == 0; i++) {
		feed.dump = &report->dumps[i];
		status = heap_read(report->paths[i], on_line, &feed, &feed.dump->reading, err);
		if (i == 1) {
			report->only_in_second = feed.candidate.count;
			heap_identities_free(&feed.first);
		}
	}
	heap_identities_free(&feed.first);
	heap_identities_free(&feed.candidate);
	heap_biggest_sort(&report->dumps[last].summary.biggest);
	heap_biggest_sort(&report->compared.biggest);
	return status;
}

void heap_report_free(struct heap_report *report)
{
	heap_summary_close(&report->compared);
	for (uint32_t i = 0; i < report->dump_count; i++) {
		heap_summary_close(&report->dumps[i].summary);
		heap_classes_free(&report->dumps[i].classes);
		heap_own_free(&report->dumps[i].own);
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
