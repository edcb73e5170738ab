/* Which lines are of a kind. See flood.h. */

#include "tracer/base/flood.h"

#include "proto/fnv.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* A number, a method, a class, a file: whatever has what no word of a sentence has. */
static bool is_name(const char *word, size_t size)
{
	while (size > 0 && strchr(".,:;()\"", word[size - 1]))
		size--;
	for (size_t i = 0; i < size; i++)
		if (isdigit((unsigned char)word[i]) || (i > 0 && isupper((unsigned char)word[i])) || strchr("#.:/_@\"", word[i]))
			return true;
	return false;
}

/* The text without its names. */
static uint64_t key_of(const char *text)
{
	uint64_t key = FNV64_BEGIN;

	for (const char *word = text; *word;) {
		size_t size = strcspn(word, " ");

		key = fnv64_add(key, is_name(word, size) ? (struct slice){"*", 1} : (struct slice){word, size});
		key = fnv64_step(key, ' ');
		word += size + strspn(word + size, " ");
	}
	return key;
}

uint64_t flood_count(struct flood *flood, const char *text)
{
	uint64_t key = key_of(text);
	size_t i = 0;

	while (i < flood->used && flood->kinds[i].key != key)
		i++;
	if (i == FLOOD_KINDS)
		return 0;
	if (i == flood->used) {
		flood->used++;
		flood->kinds[i] = (struct flood_kind){.key = key};
		snprintf(flood->kinds[i].first, sizeof(flood->kinds[i].first), "%s", text);
	}
	return ++flood->kinds[i].count;
}
