/* From objects that stayed to who holds them. See heap_leaks.h. */

#include "tracer/heap/heap_leaks.h"

#include "tracer/base/buffer.h"
#include "tracer/heap/heap_ranking.h"

#include <stdlib.h>

void heap_leaks_note(struct heap_leaks *leaks, uint32_t node, struct heap_pair pair)
{
	if (leaks->noted_count == leaks->noted_capacity) {
		leaks->noted_capacity = leaks->noted_capacity ? 2 * leaks->noted_capacity : 1024;
		leaks->noted = memory_resize(leaks->noted, leaks->noted_capacity * sizeof(*leaks->noted));
	}
	leaks->noted[leaks->noted_count++] = (struct noted){node, pair.kind, pair.site};
}

/* Where each label has its item; items move when they are sorted. */
struct places {
	const struct heap_summary *compared;
	struct buffer text;
	uint32_t *label_of_pair; /* by the pair's number in the summary; HEAP_TABLE_NONE: not known yet */
};

static uint32_t label_of(struct heap_leaks *leaks, struct places *places, const struct noted *noted)
{
	uint32_t pair = heap_index_find(&places->compared->pair_index, (uint64_t)noted->pair_kind << 32 | noted->pair_site);
	struct buffer *text = &places->text;

	if (places->label_of_pair[pair] != HEAP_TABLE_NONE)
		return places->label_of_pair[pair];
	text->size = 0;
	heap_label_kind(places->compared, noted->pair_kind, text);
	buffer_add_char(text, HEAP_LABEL_SEPARATOR);
	heap_label_site(places->compared, noted->pair_site, text);
	places->label_of_pair[pair] = heap_names_add(&leaks->labels, (struct slice){text->bytes, text->size});
	return places->label_of_pair[pair];
}

static int by_bytes(const void *a, const void *b)
{
	const struct heap_leak *one = a, *other = b;

	if (one->live.bytes != other->live.bytes)
		return one->live.bytes > other->live.bytes ? -1 : 1;
	return one->label < other->label ? -1 : one->label > other->label;
}

static int by_retained(const void *a, const void *b)
{
	const struct heap_leak *one = a, *other = b;

	if (one->paths.retained != other->paths.retained)
		return one->paths.retained > other->paths.retained ? -1 : 1;
	return by_bytes(a, b);
}

static void count(struct heap_leaks *leaks, struct places *places, const struct heap_holders *holders)
{
	for (size_t i = 0; i < leaks->noted_count; i++) {
		const struct noted *noted = &leaks->noted[i];
		uint64_t bytes = holders->graph.nodes[noted->node].memsize;
		bool lives = heap_reach_has(&holders->reach, noted->node);
		struct heap_tally *total = lives ? &leaks->live : &leaks->garbage;
		uint32_t label;

		total->objects++;
		total->bytes += bytes;
		if (!lives)
			continue;
		label = label_of(leaks, places, noted);
		leaks->items = heap_entries(leaks->items, &leaks->capacity, label, sizeof(*leaks->items));
		leaks->items[label].label = label;
		leaks->items[label].live.objects++;
		leaks->items[label].live.bytes += bytes;
	}
	leaks->count = leaks->labels.by_hash.count;
}

/* label: HEAP_TABLE_NONE for all. */
static void pick(const struct heap_leaks *leaks, struct places *places, struct heap_holders *holders, uint32_t label)
{
	for (size_t i = 0; i < leaks->noted_count; i++) {
		const struct noted *noted = &leaks->noted[i];
		uint32_t pair =
			heap_index_find(&places->compared->pair_index, (uint64_t)noted->pair_kind << 32 | noted->pair_site);

		if (label == HEAP_TABLE_NONE || places->label_of_pair[pair] == label)
			heap_paths_pick(holders, noted->node);
	}
}

void heap_leaks_find(struct heap_leaks *leaks, struct heap_holders *holders, const struct heap_summary *compared, uint32_t shown)
{
	size_t size = (size_t)compared->pair_index.count * sizeof(uint32_t);
	struct places places = {.compared = compared, .label_of_pair = memory_resize(NULL, size + 1)};
	struct heap_paths all;

	memset(places.label_of_pair, 0xff, size);
	count(leaks, &places, holders);
	if (leaks->count)
		qsort(leaks->items, leaks->count, sizeof(*leaks->items), by_bytes);
	leaks->shown = leaks->count < shown ? leaks->count : shown;
	for (uint32_t i = 0; i < leaks->shown; i++) {
		pick(leaks, &places, holders, leaks->items[i].label);
		heap_paths_find(&leaks->items[i].paths, holders);
	}
	if (leaks->shown)
		qsort(leaks->items, leaks->shown, sizeof(*leaks->items), by_retained);
	pick(leaks, &places, holders, HEAP_TABLE_NONE);
	heap_paths_find(&all, holders);
	leaks->retained = all.retained;
	heap_paths_free(&all);
	free(places.label_of_pair);
	buffer_free(&places.text);
}

void heap_leaks_free(struct heap_leaks *leaks)
{
	for (uint32_t i = 0; i < leaks->shown; i++)
		heap_paths_free(&leaks->items[i].paths);
	free(leaks->noted);
	free(leaks->items);
	heap_names_free(&leaks->labels);
	*leaks = (struct heap_leaks){0};
}
