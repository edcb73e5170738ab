/* Counting by key, in a hash with open addressing. See counter.h. */

#include "tracee/base/counter.h"

#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN 1024u

static struct counter_entry *find(struct counter_entry *entries, size_t capacity, uintptr_t key)
{
	/* Heap addresses differ in the middle: multiply, and take the upper bits. */
	size_t at = (size_t)(((uint64_t)key * 0x9e3779b97f4a7c15u) >> 32) & (capacity - 1);

	while (entries[at].key && entries[at].key != key)
		at = (at + 1) & (capacity - 1);
	return &entries[at];
}

static bool grow(struct counter *counter)
{
	size_t capacity = counter->capacity ? 2 * counter->capacity : CAPACITY_MIN;
	struct counter_entry *entries = calloc(capacity, sizeof(*entries));

	if (!entries)
		return false;
	for (size_t i = 0; i < counter->capacity; i++)
		if (counter->entries[i].key)
			*find(entries, capacity, counter->entries[i].key) = counter->entries[i];
	free(counter->entries);
	counter->entries = entries;
	counter->capacity = capacity;
	return true;
}

void counter_add(struct counter *counter, uintptr_t key)
{
	struct counter_entry *entry;

	/* At least a quarter stays free, so that looking for a key ends soon. */
	if (counter->used >= counter->capacity / 4 * 3 && !grow(counter)) {
		entry = counter->capacity ? find(counter->entries, counter->capacity, key) : NULL;
		if (entry && entry->key)
			entry->count++;
		else
			counter->missed++;
		return;
	}
	entry = find(counter->entries, counter->capacity, key);
	if (!entry->key) {
		entry->key = key;
		counter->used++;
	}
	entry->count++;
}

size_t counter_top(const struct counter *counter, struct counter_entry *top, size_t room)
{
	size_t count = 0;

	for (size_t i = 0; i < counter->capacity; i++) {
		const struct counter_entry *entry = &counter->entries[i];
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

void counter_free(struct counter *counter)
{
	free(counter->entries);
	memset(counter, 0, sizeof(*counter));
}
