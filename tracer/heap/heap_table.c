/* Open addressing with linear probing, three quarters full at most. See heap_table.h. */

#define _GNU_SOURCE
#include "tracer/heap/heap_table.h"

#include "tracer/base/buffer.h"

#include <stdlib.h>
#include <sys/auxv.h>

#define CAPACITY_FIRST 64u

/* The kernel gives every process 16 random bytes. */
static uint64_t seed(void)
{
	static uint64_t number;

	if (!number) {
		const void *random = (const void *)getauxval(AT_RANDOM);

		if (random)
			memcpy(&number, random, sizeof(number));
		number |= 1;
	}
	return number;
}

static inline uint64_t fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

#define ODD_1 0x9e3779b97f4a7c15ull
#define ODD_2 0xd6e8feb86659fd93ull

uint64_t heap_hash_number(uint64_t number)
{
	return fold(number ^ seed(), ODD_1 ^ fold(number + ODD_2, seed()));
}

static inline uint64_t word_at(const char *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

/* All of a text that is shorter than a word; its size is hashed elsewhere. */
static inline uint64_t short_word(const char *bytes, size_t size)
{
	uint32_t first, last;

	if (size >= sizeof(first)) {
		memcpy(&first, bytes, sizeof(first));
		memcpy(&last, bytes + size - sizeof(last), sizeof(last));
		return (uint64_t)first << 32 | last;
	}
	return size ? (uint64_t)(uint8_t)bytes[0] << 16 | (uint64_t)(uint8_t)bytes[size / 2] << 8 | (uint8_t)bytes[size - 1] : 0;
}

/* What is left of a text is read with bytes that were read before, so that all reads are of whole words. */
uint64_t heap_hash_text(struct slice text)
{
	uint64_t hash = seed() ^ fold(text.size + ODD_1, ODD_2);
	const char *at = text.bytes;
	size_t left = text.size;

	for (; left > 16; at += 16, left -= 16)
		hash = fold(word_at(at) ^ hash, word_at(at + 8) ^ ODD_1 ^ (hash << 32 | hash >> 32));
	if (text.size >= 8)
		hash = fold(word_at(left > 8 ? at : text.bytes + text.size - 8) ^ hash,
		            word_at(text.bytes + text.size - 8) ^ ODD_2 ^ (hash << 32 | hash >> 32));
	else
		hash = fold(short_word(at, left) ^ hash, ODD_2 ^ seed());
	return fold(hash ^ ODD_1, seed() ^ text.size);
}

/* Where the key is, or the free place where it belongs. */
static uint32_t place_of(const struct heap_index *index, uint64_t key)
{
	uint32_t place = (uint32_t)heap_hash_number(key) & (index->capacity - 1);

	while (index->numbers[place] != HEAP_TABLE_NONE && index->keys[place] != key)
		place = (place + 1) & (index->capacity - 1);
	return place;
}

static void grow(struct heap_index *index)
{
	struct heap_index grown = {.count = index->count, .capacity = index->capacity ? 2 * index->capacity : CAPACITY_FIRST};

	grown.keys = memory_resize(NULL, (size_t)grown.capacity * sizeof(*grown.keys));
	grown.numbers = memory_resize(NULL, (size_t)grown.capacity * sizeof(*grown.numbers));
	memset(grown.numbers, 0xff, (size_t)grown.capacity * sizeof(*grown.numbers));
	for (uint32_t i = 0; i < index->capacity; i++)
		if (index->numbers[i] != HEAP_TABLE_NONE) {
			uint32_t place = place_of(&grown, index->keys[i]);

			grown.keys[place] = index->keys[i];
			grown.numbers[place] = index->numbers[i];
		}
	heap_index_free(index);
	*index = grown;
}

uint32_t heap_index_add(struct heap_index *index, uint64_t key, bool *is_new)
{
	uint32_t place;

	if (index->count >= index->capacity / 4 * 3)
		grow(index);
	place = place_of(index, key);
	*is_new = index->numbers[place] == HEAP_TABLE_NONE;
	if (*is_new) {
		index->keys[place] = key;
		index->numbers[place] = index->count++;
	}
	return index->numbers[place];
}

uint32_t heap_index_find(const struct heap_index *index, uint64_t key)
{
	return index->capacity ? index->numbers[place_of(index, key)] : HEAP_TABLE_NONE;
}

void heap_index_free(struct heap_index *index)
{
	free(index->keys);
	free(index->numbers);
	*index = (struct heap_index){0};
}

void *heap_entries(void *entries, uint32_t *capacity, uint32_t number, size_t entry_size)
{
	size_t grown = *capacity ? *capacity * (size_t)2 : CAPACITY_FIRST;

	if (number < *capacity)
		return entries;
	entries = memory_resize(entries, grown * entry_size);
	memset((char *)entries + *capacity * entry_size, 0, (grown - *capacity) * entry_size);
	*capacity = (uint32_t)grown;
	return entries;
}

uint32_t heap_names_add(struct heap_names *names, struct slice text)
{
	bool is_new;
	uint32_t number = heap_index_add(&names->by_hash, heap_hash_text(text), &is_new);

	if (is_new) {
		char *copy = memory_resize(NULL, text.size);

		names->texts = heap_entries(names->texts, &names->capacity, number, sizeof(*names->texts));
		if (text.size)
			memcpy(copy, text.bytes, text.size);
		names->texts[number] = (struct slice){copy, text.size};
	}
	return number;
}

void heap_names_free(struct heap_names *names)
{
	for (uint32_t i = 0; i < names->by_hash.count; i++)
		free((char *)names->texts[i].bytes);
	free(names->texts);
	heap_index_free(&names->by_hash);
	*names = (struct heap_names){0};
}
