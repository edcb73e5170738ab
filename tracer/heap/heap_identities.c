/* A set of objects. See heap_identities.h. */

#include "tracer/heap/heap_identities.h"

#include "tracer/base/buffer.h"

#include <stdlib.h>

#define CAPACITY_FIRST 4096u

static uint64_t hash_of(const struct heap_line *line)
{
	uint64_t hash = heap_hash_number(line->address ^ heap_hash_number(line->class_address ^ heap_hash_text(line->type)));

	return hash + (hash == 0);
}

/* 0: not known. */
static uint32_t generation_of(const struct heap_line *line)
{
	return line->has_generation ? (uint32_t)line->generation + 1 : 0;
}

static size_t place_of(const struct heap_identities *identities, uint64_t hash)
{
	size_t place = hash & (identities->capacity - 1);

	while (identities->hashes[place] && identities->hashes[place] != hash)
		place = (place + 1) & (identities->capacity - 1);
	return place;
}

static void grow(struct heap_identities *identities)
{
	struct heap_identities grown = {.capacity = identities->capacity ? 2 * identities->capacity : CAPACITY_FIRST};

	grown.hashes = memory_zeroed(grown.capacity * sizeof(*grown.hashes));
	grown.generations = memory_zeroed(grown.capacity * sizeof(*grown.generations));
	if (identities->with_sites)
		grown.sites = memory_zeroed(grown.capacity * sizeof(*grown.sites));
	for (size_t i = 0; i < identities->capacity; i++)
		if (identities->hashes[i]) {
			size_t place = place_of(&grown, identities->hashes[i]);

			grown.hashes[place] = identities->hashes[i];
			grown.generations[place] = identities->generations[i];
			if (grown.sites)
				grown.sites[place] = identities->sites[i];
		}
	free(identities->hashes);
	free(identities->generations);
	free(identities->sites);
	identities->hashes = grown.hashes;
	identities->generations = grown.generations;
	identities->sites = grown.sites;
	identities->capacity = grown.capacity;
}

void heap_identities_add(struct heap_identities *identities, const struct heap_line *line, uint32_t site)
{
	uint64_t hash = hash_of(line);
	size_t place;

	if (identities->count >= identities->capacity / 4 * 3)
		grow(identities);
	place = place_of(identities, hash);
	identities->count += identities->hashes[place] == 0;
	identities->hashes[place] = hash;
	identities->generations[place] = generation_of(line);
	if (identities->sites)
		identities->sites[place] = site;
}

bool heap_identities_find(const struct heap_identities *identities, const struct heap_line *line,
                          struct heap_allocation *allocation)
{
	uint32_t generation = generation_of(line), then;
	size_t place;

	if (!identities->capacity)
		return false;
	place = place_of(identities, hash_of(line));
	if (!identities->hashes[place])
		return false;
	/* One that was recorded now but not then has been allocated since; the other way round, recording has ended. */
	then = identities->generations[place];
	if (generation && then != generation)
		return false;
	if (allocation)
		*allocation = (struct heap_allocation){.has_generation = then != 0,
		                                       .generation = then - 1,
		                                       .site = identities->sites ? identities->sites[place] : HEAP_TABLE_NONE};
	return true;
}

void heap_identities_free(struct heap_identities *identities)
{
	free(identities->hashes);
	free(identities->generations);
	free(identities->sites);
	*identities = (struct heap_identities){0};
}
