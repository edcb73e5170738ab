/* A set of addresses. See heap_own.h. */

#include "tracer/heap/heap_own.h"

#include "tracer/base/buffer.h"
#include "tracer/heap/heap_references.h"
#include "tracer/heap/heap_table.h"

#include <stdlib.h>

#define CAPACITY_FIRST 1024u

static size_t place_of(const struct heap_own *own, uint64_t address)
{
	size_t place = heap_hash_number(address) & (own->capacity - 1);

	while (own->addresses[place] && own->addresses[place] != address)
		place = (place + 1) & (own->capacity - 1);
	return place;
}

static void grow(struct heap_own *own)
{
	struct heap_own grown = {.capacity = own->capacity ? 2 * own->capacity : CAPACITY_FIRST, .count = own->count};

	grown.addresses = memory_zeroed(grown.capacity * sizeof(*grown.addresses));
	for (size_t i = 0; i < own->capacity; i++)
		if (own->addresses[i])
			grown.addresses[place_of(&grown, own->addresses[i])] = own->addresses[i];
	free(own->addresses);
	*own = grown;
}

static void add(struct heap_own *own, uint64_t address)
{
	size_t place;

	if (own->count >= own->capacity / 2)
		grow(own);
	place = place_of(own, address);
	own->count += own->addresses[place] == 0;
	own->addresses[place] = address;
}

void heap_own_learn(struct heap_own *own, const struct heap_line *line)
{
	struct heap_references references = {0};

	if (!heap_line_is_root(line, HEAP_ROOT_OWN))
		return;
	heap_references_scan(&references, line->references);
	for (size_t i = 0; i < references.count; i++)
		if (references.items[i])
			add(own, references.items[i]);
	heap_references_free(&references);
}

bool heap_own_has(const struct heap_own *own, const struct heap_line *line)
{
	return own->count && own->addresses[place_of(own, line->address)] != 0;
}

void heap_own_free(struct heap_own *own)
{
	free(own->addresses);
	*own = (struct heap_own){0};
}
