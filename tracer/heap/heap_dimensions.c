/* What a report counts objects by. See heap_ranking.h. */

#include "tracer/heap/heap_ranking.h"

static void row(struct heap_ranking *ranking, const struct buffer *label, bool before, const struct heap_tally *tally)
{
	/* A class that was named by others and has no instances itself. */
	if (tally->objects)
		heap_ranking_add(ranking, (struct slice){label->bytes, label->size}, before ? tally : NULL,
		                 before ? NULL : tally);
}

void heap_label_kind(const struct heap_summary *summary, uint32_t number, struct buffer *to)
{
	const struct heap_kind *kind = &summary->kinds[number];
	size_t before = to->size;

	if (kind->class != HEAP_TABLE_NONE)
		heap_class_label(summary->classes, kind->class, to);
	if (kind->hidden == HEAP_TABLE_NONE)
		return;
	/* C code that gives its objects no class of their own takes Object. */
	if (to->size - before == strlen("Object") && memcmp(to->bytes + before, "Object", strlen("Object")) == 0)
		to->size = before;
	if (to->size == before)
		buffer_add_slice(to, summary->hidden.texts[kind->hidden]);
}

void heap_label_site(const struct heap_summary *summary, uint32_t site, struct buffer *to)
{
	if (site == HEAP_TABLE_NONE) {
		buffer_add_char(to, '-');
		return;
	}
	buffer_add_slice(to, summary->files.texts[summary->sites[site].file]);
	buffer_add_format(to, ":%d", summary->sites[site].line);
}

static void collect_types(const struct heap_summary *summary, bool before, struct heap_ranking *ranking)
{
	struct buffer label = {0};

	for (uint32_t i = 0; i < summary->types.by_hash.count; i++) {
		label.size = 0;
		buffer_add_slice(&label, summary->types.texts[i]);
		row(ranking, &label, before, &summary->by_type[i]);
	}
	buffer_free(&label);
}

static void collect_classes(const struct heap_summary *summary, bool before, struct heap_ranking *ranking)
{
	struct buffer label = {0};

	for (uint32_t i = 0; i < summary->kind_index.count; i++) {
		label.size = 0;
		heap_label_kind(summary, i, &label);
		row(ranking, &label, before, &summary->by_kind[i]);
	}
	buffer_free(&label);
}

static void collect_sites(const struct heap_summary *summary, bool before, struct heap_ranking *ranking)
{
	struct buffer label = {0};

	for (uint32_t i = 0; i < summary->site_index.count; i++) {
		label.size = 0;
		heap_label_site(summary, i, &label);
		row(ranking, &label, before, &summary->by_site[i]);
	}
	buffer_free(&label);
}

static void collect_generations(const struct heap_summary *summary, bool before, struct heap_ranking *ranking)
{
	struct buffer label = {0};

	for (uint32_t i = 0; i < summary->generations.count; i++) {
		label.size = 0;
		buffer_add_uint(&label, summary->generation_of[i]);
		row(ranking, &label, before, &summary->by_generation[i]);
	}
	buffer_free(&label);
}

static void collect_pairs(const struct heap_summary *summary, bool before, struct heap_ranking *ranking)
{
	struct buffer label = {0};

	for (uint32_t i = 0; i < summary->pair_index.count; i++) {
		label.size = 0;
		heap_label_kind(summary, summary->pairs[i].kind, &label);
		buffer_add_char(&label, HEAP_LABEL_SEPARATOR);
		heap_label_site(summary, summary->pairs[i].site, &label);
		row(ranking, &label, before, &summary->by_pair[i]);
	}
	buffer_free(&label);
}

const struct heap_dimension heap_dimensions[] = {
	{.title = "type",
         .key = "by_type",
         .members = {"type"},
         .parts = HEAP_PART_DUMP | HEAP_PART_GROWTH | HEAP_PART_COMPARED,
         .collect = collect_types},
	{.title = "class",
         .key = "by_class",
         .members = {"class"},
         .parts = HEAP_PART_DUMP | HEAP_PART_GROWTH,
         .collect = collect_classes},
	{.title = "class and allocation site",
         .key = "by_class_and_site",
         .members = {"class", "site"},
         .parts = HEAP_PART_COMPARED,
         .collect = collect_pairs},
	{.title = "allocation site",
         .key = "by_site",
         .members = {"site"},
         .parts = HEAP_PART_DUMP | HEAP_PART_GROWTH,
         .collect = collect_sites},
	{.title = "generation",
         .key = "by_generation",
         .members = {"generation"},
         .parts = HEAP_PART_DUMP | HEAP_PART_COMPARED,
         .collect = collect_generations},
	{0},
};
