/* Texts by their hash, with open addressing. See slice_set.h. */

#include "tracee/base/slice_set.h"

#include "proto/fnv.h"

#include <stdlib.h>
#include <string.h>

#define SIZE_MIN 64u

static struct slice *place_of(struct slice *places, uint32_t size, struct slice text)
{
	uint32_t at = fnv32_add(FNV32_BEGIN, text) & (size - 1);

	while (places[at].bytes && (places[at].size != text.size || memcmp(places[at].bytes, text.bytes, text.size) != 0))
		at = (at + 1) & (size - 1);
	return &places[at];
}

static bool grow(struct slice_set *set)
{
	uint32_t size = set->size ? 2 * set->size : SIZE_MIN;
	struct slice *places = calloc(size, sizeof(*places));

	if (!places)
		return false;
	for (uint32_t i = 0; i < set->size; i++)
		if (set->places[i].bytes)
			*place_of(places, size, set->places[i]) = set->places[i];
	free(set->places);
	set->places = places;
	set->size = size;
	return true;
}

bool slice_set_add(struct slice_set *set, struct slice text)
{
	struct slice *place;

	if (2 * set->count >= set->size && !grow(set))
		return false;
	place = place_of(set->places, set->size, text);
	set->count += !place->bytes;
	*place = text;
	return true;
}

bool slice_set_has(const struct slice_set *set, struct slice text)
{
	return set->count > 0 && place_of(set->places, set->size, text)->bytes;
}

void slice_set_free(struct slice_set *set)
{
	free(set->places);
	*set = (struct slice_set){0};
}
