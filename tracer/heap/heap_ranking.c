/* Rows of a report, in order. See heap_ranking.h. */

#define _GNU_SOURCE
#include "tracer/heap/heap_ranking.h"

#include <stdlib.h>

static void tally_add(struct heap_tally *to, const struct heap_tally *tally)
{
	to->objects += tally->objects;
	to->bytes += tally->bytes;
}

void heap_ranking_add(struct heap_ranking *ranking, struct slice label, const struct heap_tally *before,
                      const struct heap_tally *now)
{
	uint32_t number = heap_names_add(&ranking->labels, label);
	struct heap_row *row;

	ranking->rows = heap_entries(ranking->rows, &ranking->capacity, number, sizeof(*ranking->rows));
	ranking->count = ranking->labels.by_hash.count;
	row = &ranking->rows[number];
	row->label = number;
	if (before)
		tally_add(&row->before, before);
	if (now)
		tally_add(&row->now, now);
}

struct slice heap_ranking_label(const struct heap_ranking *ranking, const struct heap_row *row)
{
	return ranking->labels.texts[row->label];
}

void heap_ranking_keep_changed(struct heap_ranking *ranking)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < ranking->count; i++)
		if (heap_row_objects(&ranking->rows[i]) || heap_row_bytes(&ranking->rows[i]))
			ranking->rows[kept++] = ranking->rows[i];
	ranking->count = kept;
}

struct sorting {
	const struct heap_ranking *ranking;
	enum heap_order order;
};

static int descending(int64_t a, int64_t b)
{
	return a > b ? -1 : a < b;
}

static int compare(const void *a, const void *b, void *context)
{
	const struct heap_row *one = a, *other = b;
	const struct sorting *sorting = context;
	int by_bytes = descending(heap_row_bytes(one), heap_row_bytes(other));
	int by_objects = descending(heap_row_objects(one), heap_row_objects(other));
	int first = sorting->order == HEAP_BY_BYTES ? by_bytes : by_objects;
	int second = sorting->order == HEAP_BY_BYTES ? by_objects : by_bytes;
	struct slice label = heap_ranking_label(sorting->ranking, one), than = heap_ranking_label(sorting->ranking, other);
	int by_label;

	if (first || second)
		return first ? first : second;
	by_label = memcmp(label.bytes, than.bytes, label.size < than.size ? label.size : than.size);
	return by_label ? by_label : descending((int64_t)than.size, (int64_t)label.size);
}

void heap_ranking_sort(struct heap_ranking *ranking, enum heap_order order)
{
	struct sorting sorting = {ranking, order};

	if (ranking->count)
		qsort_r(ranking->rows, ranking->count, sizeof(*ranking->rows), compare, &sorting);
}

struct heap_row heap_ranking_rest(const struct heap_ranking *ranking, uint32_t from)
{
	struct heap_row rest = {0};

	for (uint32_t i = from; i < ranking->count; i++) {
		tally_add(&rest.before, &ranking->rows[i].before);
		tally_add(&rest.now, &ranking->rows[i].now);
	}
	return rest;
}

void heap_ranking_free(struct heap_ranking *ranking)
{
	heap_names_free(&ranking->labels);
	free(ranking->rows);
	*ranking = (struct heap_ranking){0};
}
