/* Counting by key, in a hash with open addressing. See tally.h. */

#include "tally.h"

#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN 1024u

static struct tally_entry *find(struct tally_entry *entries, size_t capacity, uintptr_t key)
{
	/* Heap addresses differ in the middle: multiply, and take the upper bits. */
	size_t at = (size_t)(((uint64_t)key * 0x9e3779b97f4a7c15u) >> 32) & (capacity - 1);

	while (entries[at].key && entries[at].key != key)
		at = (at + 1) & (capacity - 1);
	return &entries[at];
}

static bool grow(struct tally *tally)
{
	size_t capacity = tally->capacity ? 2 * tally->capacity : CAPACITY_MIN;
	struct tally_entry *entries = calloc(capacity, sizeof(*entries));

	if (!entries)
		return false;
	for (size_t i = 0; i < tally->capacity; i++)
		if (tally->entries[i].key)
			*find(entries, capacity, tally->entries[i].key) = tally->entries[i];
	free(tally->entries);
	tally->entries = entries;
	tally->capacity = capacity;
	return true;
}

void tally_add(struct tally *tally, uintptr_t key)
{
	struct tally_entry *entry;

	/* At least a quarter stays free, so that looking for a key ends soon. */
	if (tally->used >= tally->capacity / 4 * 3 && !grow(tally)) {
		entry = tally->capacity ? find(tally->entries, tally->capacity, key) : NULL;
		if (entry && entry->key)
			entry->count++;
		else
			tally->missed++;
		return;
	}
	entry = find(tally->entries, tally->capacity, key);
	if (!entry->key) {
		entry->key = key;
		tally->used++;
	}
	entry->count++;
}

size_t tally_top(const struct tally *tally, struct tally_entry *top, size_t room)
{
	size_t count = 0;

	for (size_t i = 0; i < tally->capacity; i++) {
		const struct tally_entry *entry = &tally->entries[i];
		size_t at;

		if (!entry->key || (count == room && entry->count <= top[room - 1].count))
			continue;
		if (count < room)
			count++;
		for (at = count - 1; at > 0 && top[at - 1].count < entry->count; at--)
			top[at] = top[at - 1];
		top[at] = *entry;
	}
	return count;
}

void tally_free(struct tally *tally)
{
	free(tally->entries);
	memset(tally, 0, sizeof(*tally));
}
