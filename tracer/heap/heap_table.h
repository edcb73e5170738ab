#ifndef RBPROBE_HEAP_TABLE_H
#define RBPROBE_HEAP_TABLE_H

#include "proto/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What a report counts by: keys get numbers in the order in which they come, and the caller keeps arrays by those
 * numbers. Zeroed structs are empty. Keys come from files that anybody may have written: the hash is seeded, so that
 * none can be made to collide.
 */

#define HEAP_TABLE_NONE UINT32_MAX

/* 64-bit keys: addresses, or two numbers packed together. 12 bytes a key, 32 when the table has just grown. */
struct heap_index {
	uint64_t *keys;
	uint32_t *numbers;
	uint32_t count;
	uint32_t capacity; /* a power of two, or 0 */
};

/* The key's number; *is_new: it has just got it. */
uint32_t heap_index_add(struct heap_index *index, uint64_t key, bool *is_new);
/* The key's number, or HEAP_TABLE_NONE. */
uint32_t heap_index_find(const struct heap_index *index, uint64_t key);
void heap_index_free(struct heap_index *index);

/* Texts, each kept once: types, files, names. */
struct heap_names {
	struct heap_index by_hash;
	struct slice *texts; /* by number; their bytes are ours */
	uint32_t capacity;
};

uint32_t heap_names_add(struct heap_names *names, struct slice text);
void heap_names_free(struct heap_names *names);

/* Makes room for the entry of this number in the caller's array, and returns the array; entries that are new are zeros. */
void *heap_entries(void *entries, uint32_t *capacity, uint32_t number, size_t entry_size);

/* A hash of which two texts that differ have the same one with a probability of 2^-64. */
uint64_t heap_hash_text(struct slice text);
uint64_t heap_hash_number(uint64_t number);

#endif
