/* Texts by number. See words.h. */

#define _GNU_SOURCE
#include "tracer/recording/words.h"

#include "tracer/base/buffer.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#define NODE_SIZE (8 * sizeof(void *)) /* about what tsearch() takes for one, and malloc() for two */

struct word {
	uint32_t number;
	struct slice text;
};

static void free_word(void *thing)
{
	struct word *word = thing;

	free((char *)word->text.bytes);
	free(word);
}

void words_free(struct words *words)
{
	tdestroy(words->tree, free_word);
	free(words->texts);
	*words = (struct words){0};
}

static int compare(const void *one, const void *other)
{
	const struct slice *a = &((const struct word *)one)->text, *b = &((const struct word *)other)->text;
	int order = memcmp(a->bytes, b->bytes, a->size < b->size ? a->size : b->size);

	return order ? order : (a->size > b->size) - (a->size < b->size);
}

uint32_t words_find(const struct words *words, struct slice text)
{
	const struct word wanted = {.text = text};
	struct word *const *found = tfind(&wanted, &words->tree, compare);

	return found ? (*found)->number : NO_WORD;
}

uint32_t words_number(struct words *words, struct slice text)
{
	uint32_t number = words_find(words, text);
	struct word *word;
	char *copy;

	if (number != NO_WORD)
		return number;
	word = memory_resize(NULL, sizeof(*word));
	copy = memory_resize(NULL, text.size + 1);
	memcpy(copy, text.bytes, text.size);
	copy[text.size] = '\0';
	*word = (struct word){words->count, {copy, text.size}};
	if (!tsearch(word, &words->tree, compare))
		memory_resize(NULL, SIZE_MAX); /* says so and ends the program */
	if (words->count == words->room) {
		words->room = words->room ? 2 * words->room : 64;
		words->texts = memory_resize(words->texts, words->room * sizeof(*words->texts));
	}
	words->texts[words->count] = word->text;
	words->memory += sizeof(*word) + sizeof(*words->texts) + text.size + NODE_SIZE;
	return words->count++;
}
