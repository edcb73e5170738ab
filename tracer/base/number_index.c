/* From numbers to places. See number_index.h. */

#include "tracer/base/number_index.h"

#include "tracer/base/buffer.h"

#include <stdlib.h>

#define ROOM_FIRST 64

static size_t home_of(const struct number_index *index, uint64_t number)
{
	return (size_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (index->room - 1);
}

/* Where it is, or could be. There is room. */
static size_t slot_of(const struct number_index *index, uint64_t number)
{
	size_t slot = home_of(index, number);

	while (index->places[slot].place != NUMBER_INDEX_NONE && index->places[slot].number != number)
		slot = (slot + 1) & (index->room - 1);
	return slot;
}

static void grow(struct number_index *index)
{
	struct number_index old = *index;

	index->room = old.room ? 2 * old.room : ROOM_FIRST;
	index->places = memory_resize(NULL, index->room * sizeof(*index->places));
	number_index_clear(index);
	for (size_t i = 0; i < old.room; i++)
		if (old.places[i].place != NUMBER_INDEX_NONE)
			number_index_put(index, old.places[i].number, old.places[i].place);
	free(old.places);
}

uint32_t number_index_get(const struct number_index *index, uint64_t number)
{
	return index->room ? index->places[slot_of(index, number)].place : NUMBER_INDEX_NONE;
}

void number_index_put(struct number_index *index, uint64_t number, uint32_t place)
{
	size_t slot;

	if (2 * (size_t)index->count >= index->room)
		grow(index);
	slot = slot_of(index, number);
	index->count += index->places[slot].place == NUMBER_INDEX_NONE;
	index->places[slot] = (struct number_place){number, place};
}

/* What could not be at home because of it moves up. */
void number_index_remove(struct number_index *index, uint64_t number)
{
	size_t empty, next;

	if (number_index_get(index, number) == NUMBER_INDEX_NONE)
		return;
	empty = next = slot_of(index, number);
	for (;;) {
		size_t home;

		next = (next + 1) & (index->room - 1);
		if (index->places[next].place == NUMBER_INDEX_NONE)
			break;
		home = home_of(index, index->places[next].number);
		if (((next - home) & (index->room - 1)) < ((next - empty) & (index->room - 1)))
			continue;
		index->places[empty] = index->places[next];
		empty = next;
	}
	index->places[empty].place = NUMBER_INDEX_NONE;
	index->count--;
}

void number_index_clear(struct number_index *index)
{
	for (size_t i = 0; i < index->room; i++)
		index->places[i].place = NUMBER_INDEX_NONE;
	index->count = 0;
}

void number_index_free(struct number_index *index)
{
	free(index->places);
	*index = (struct number_index){0};
}
