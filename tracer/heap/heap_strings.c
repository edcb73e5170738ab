/*
 * Finding equal strings in one pass. See heap_strings.h.
 *
 * Nearly all values come once. So a first table has only what distinguishes two values; a second one has the counts of
 * those that come again. The waste of a value only grows, and at that moment its text is at hand. So the worst are kept in
 * a heap of as many as will be shown, the least bad of them first, and only their texts are kept.
 */

#include "tracer/heap/heap_strings.h"

#include "tracer/base/buffer.h"
#include "tracer/heap/heap_table.h"

#include <stdlib.h>

#define CAPACITY_FIRST 1024u
/* Of seen.content: a number of `repeated`, not a memsize. */
#define REPEATED 0x80000000u
#define NO_PLACE UINT32_MAX

struct seen {
	uint64_t hash; /* 0: free */
	uint32_t size;
	uint32_t content;
};

struct repeated {
	uint64_t bytes;
	uint64_t largest;
	uint32_t copies;
	uint32_t place; /* in the heap, or NO_PLACE */
};

struct heap_strings {
	struct seen *seen;
	size_t capacity; /* a power of two */
	size_t count;
	struct repeated *repeated;
	uint32_t repeated_count;
	uint32_t repeated_capacity;
	/* The worst; places are ordered by what they waste, texts do not move. */
	uint32_t *heap; /* numbers of texts */
	struct text {
		uint32_t repeated;
		uint32_t size;
		uint64_t value_bytes;
		char bytes[HEAP_STRING_TEXT];
		bool cut;
	} * texts;
	uint32_t shown;
	uint32_t kept;
	struct heap_string_totals totals;
};

struct heap_strings *heap_strings_new(uint32_t shown)
{
	struct heap_strings *strings = memory_zeroed(sizeof(*strings));

	strings->capacity = CAPACITY_FIRST;
	strings->seen = memory_zeroed(strings->capacity * sizeof(*strings->seen));
	strings->shown = shown;
	strings->heap = memory_zeroed(shown * sizeof(*strings->heap));
	strings->texts = memory_zeroed(shown * sizeof(*strings->texts));
	return strings;
}

void heap_strings_free(struct heap_strings *strings)
{
	if (!strings)
		return;
	free(strings->seen);
	free(strings->repeated);
	free(strings->heap);
	free(strings->texts);
	free(strings);
}

static struct seen *find(struct seen *seen, size_t capacity, uint64_t hash, uint32_t size)
{
	size_t place = hash & (capacity - 1);

	while (seen[place].hash && (seen[place].hash != hash || seen[place].size != size))
		place = (place + 1) & (capacity - 1);
	return &seen[place];
}

static void grow(struct heap_strings *strings)
{
	size_t capacity = 2 * strings->capacity;
	struct seen *grown = memory_zeroed(capacity * sizeof(*grown));

	for (size_t i = 0; i < strings->capacity; i++)
		if (strings->seen[i].hash)
			*find(grown, capacity, strings->seen[i].hash, strings->seen[i].size) = strings->seen[i];
	free(strings->seen);
	strings->seen = grown;
	strings->capacity = capacity;
}

static uint64_t wasted_by(const struct repeated *repeated)
{
	return repeated->bytes - repeated->largest;
}

static struct repeated *repeated_at(const struct heap_strings *strings, uint32_t place)
{
	return &strings->repeated[strings->texts[strings->heap[place]].repeated];
}

static void swap_places(struct heap_strings *strings, uint32_t a, uint32_t b)
{
	uint32_t text = strings->heap[a];

	strings->heap[a] = strings->heap[b];
	strings->heap[b] = text;
	repeated_at(strings, a)->place = a;
	repeated_at(strings, b)->place = b;
}

/* What is at this place has become worse. */
static void sink(struct heap_strings *strings, uint32_t place)
{
	for (;;) {
		uint32_t least = place;

		for (uint32_t child = 2 * place + 1; child <= 2 * place + 2 && child < strings->kept; child++)
			if (wasted_by(repeated_at(strings, child)) < wasted_by(repeated_at(strings, least)))
				least = child;
		if (least == place)
			return;
		swap_places(strings, place, least);
		place = least;
	}
}

static void rise(struct heap_strings *strings, uint32_t place)
{
	while (place > 0 && wasted_by(repeated_at(strings, place)) < wasted_by(repeated_at(strings, (place - 1) / 2))) {
		swap_places(strings, place, (place - 1) / 2);
		place = (place - 1) / 2;
	}
}

/* The beginning of a text, not ending within an escape (\n, \u0000) or a UTF-8 sequence. */
static void text_keep(struct text *text, struct slice value)
{
	size_t size = 0;

	while (size < value.size) {
		size_t next = size + 1;

		if (value.bytes[size] == '\\')
			next = size + (size + 1 < value.size && value.bytes[size + 1] == 'u' ? 6 : 2);
		while (next < value.size && (value.bytes[next] & 0xc0) == 0x80)
			next++;
		if (next > HEAP_STRING_TEXT || next > value.size)
			break;
		size = next;
	}
	if (size)
		memcpy(text->bytes, value.bytes, size);
	text->size = (uint32_t)size;
	text->cut = size < value.size;
}

/* Keeps the heap right after a value has come again. */
static void rank(struct heap_strings *strings, uint32_t number, struct slice value, uint64_t value_bytes)
{
	struct repeated *repeated = &strings->repeated[number];
	struct text *text;

	if (repeated->place != NO_PLACE) {
		sink(strings, repeated->place);
		return;
	}
	if (strings->kept == strings->shown) {
		if (wasted_by(repeated) <= wasted_by(repeated_at(strings, 0)))
			return;
		repeated_at(strings, 0)->place = NO_PLACE;
		repeated->place = 0;
	} else {
		repeated->place = strings->kept;
		strings->heap[strings->kept] = strings->kept;
		strings->kept++;
	}
	text = &strings->texts[strings->heap[repeated->place]];
	text->repeated = number;
	text->value_bytes = value_bytes;
	text_keep(text, value);
	if (repeated->place == 0)
		sink(strings, 0);
	else
		rise(strings, repeated->place);
}

static uint32_t repeated_new(struct heap_strings *strings)
{
	uint32_t number = strings->repeated_count++;

	strings->repeated = heap_entries(strings->repeated, &strings->repeated_capacity, number, sizeof(*strings->repeated));
	strings->repeated[number] = (struct repeated){.place = NO_PLACE};
	return number;
}

static void count_one(struct repeated *repeated, uint64_t memsize)
{
	repeated->copies++;
	repeated->bytes += memsize;
	if (memsize > repeated->largest)
		repeated->largest = memsize;
}

void heap_strings_add(struct heap_strings *strings, const struct heap_line *line)
{
	/* Of an empty string newer Rubies write no value. */
	bool is_empty = line->has_bytesize && line->bytesize == 0;
	struct repeated *repeated;
	uint64_t hash, before;
	struct seen *seen;
	bool again;

	if (!line->has_value && !is_empty) {
		strings->totals.not_compared++;
		strings->totals.not_compared_bytes += line->memsize;
		return;
	}
	strings->totals.compared++;
	hash = heap_hash_text(line->value);
	hash += hash == 0;
	if (strings->count >= strings->capacity / 4 * 3)
		grow(strings);
	seen = find(strings->seen, strings->capacity, hash, (uint32_t)line->value.size);
	again = seen->hash != 0;
	if (!again) {
		strings->count++;
		seen->hash = hash;
		seen->size = (uint32_t)line->value.size;
		if (line->memsize < REPEATED) {
			seen->content = (uint32_t)line->memsize;
			return;
		}
	}
	if (!(seen->content & REPEATED)) {
		uint32_t number = repeated_new(strings);

		if (again)
			count_one(&strings->repeated[number], seen->content);
		seen->content = REPEATED | number;
	}
	repeated = &strings->repeated[seen->content & ~REPEATED];
	before = wasted_by(repeated);
	count_one(repeated, line->memsize);
	if (!again)
		return;
	if (repeated->copies == 2) {
		strings->totals.duplicated_values++;
		strings->totals.copies++;
	}
	strings->totals.copies++;
	strings->totals.wasted_bytes += wasted_by(repeated) - before;
	rank(strings, seen->content & ~REPEATED, line->value, line->bytesize);
}

struct heap_string_totals heap_strings_totals(const struct heap_strings *strings)
{
	return strings->totals;
}

static int compare_worst(const void *a, const void *b)
{
	const struct heap_duplicate *one = a, *other = b;
	uint32_t shorter = one->text_size < other->text_size ? one->text_size : other->text_size;

	if (one->wasted_bytes != other->wasted_bytes)
		return one->wasted_bytes > other->wasted_bytes ? -1 : 1;
	if (one->copies != other->copies)
		return one->copies > other->copies ? -1 : 1;
	return memcmp(one->text, other->text, shorter);
}

struct heap_duplicate *heap_strings_worst(const struct heap_strings *strings, uint32_t *count)
{
	struct heap_duplicate *worst = memory_zeroed(strings->kept * sizeof(*worst));

	for (uint32_t i = 0; i < strings->kept; i++) {
		const struct text *text = &strings->texts[strings->heap[i]];
		const struct repeated *repeated = repeated_at(strings, i);

		worst[i] = (struct heap_duplicate){.copies = repeated->copies,
		                                   .wasted_bytes = wasted_by(repeated),
		                                   .value_bytes = text->value_bytes,
		                                   .text_size = text->size,
		                                   .cut = text->cut};
		memcpy(worst[i].text, text->bytes, text->size);
	}
	*count = strings->kept;
	qsort(worst, *count, sizeof(*worst), compare_worst);
	return worst;
}
