/* Equal strings and biggest objects: the same as by counting all of them. */

#include "tracer/heap/heap_biggest.h"
#include "tracer/heap/heap_identities.h"
#include "tracer/heap/heap_strings.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#define VALUES 3000
#define SHOWN 7

/* The same numbers each time. */
static uint32_t next_random(uint32_t *random)
{
	*random = *random * 1664525 + 1013904223;
	return *random >> 8;
}

static struct heap_line string_of(const char *text, uint64_t memsize)
{
	return (struct heap_line){.type = SLICE("STRING"),
	                          .value = {text, strlen(text)},
	                          .has_value = true,
	                          .bytesize = strlen(text),
	                          .has_bytesize = true,
	                          .memsize = memsize};
}

static int descending(const void *a, const void *b)
{
	const uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;

	return one > other ? -1 : one < other;
}

static void the_worst_of_many(void **state)
{
	static uint64_t copies[VALUES], bytes[VALUES], largest[VALUES], wasted[VALUES];
	struct heap_strings *strings = heap_strings_new(SHOWN);
	struct heap_duplicate *worst;
	struct heap_string_totals totals;
	uint64_t duplicated = 0, all_wasted = 0, all_copies = 0;
	uint32_t random = 1, count;

	(void)state;
	for (int i = 0; i < 40000; i++) {
		/* Some are much more frequent than others. */
		uint32_t value = next_random(&random) % (1 + next_random(&random) % VALUES), memsize = next_random(&random) % 500;
		struct heap_line line;
		char text[40];

		/* Far beyond what fits beside the hash. */
		uint64_t size = value % 100 == 99 ? memsize + (5ull << 30) : memsize;

		snprintf(text, sizeof(text), "value %u", value);
		line = string_of(text, size);
		heap_strings_add(strings, &line);
		copies[value]++;
		bytes[value] += size;
		largest[value] = size > largest[value] ? size : largest[value];
	}
	for (int i = 0; i < VALUES; i++) {
		wasted[i] = bytes[i] - largest[i];
		all_wasted += wasted[i];
		duplicated += copies[i] > 1;
		all_copies += copies[i] > 1 ? copies[i] : 0;
	}
	totals = heap_strings_totals(strings);
	assert_int_equal(totals.compared, 40000);
	assert_int_equal(totals.duplicated_values, duplicated);
	assert_int_equal(totals.copies, all_copies);
	assert_true(totals.wasted_bytes == all_wasted);
	worst = heap_strings_worst(strings, &count);
	assert_int_equal(count, SHOWN);
	for (uint32_t i = 0; i < count; i++) {
		int value = atoi(worst[i].text + strlen("value "));

		assert_true(worst[i].wasted_bytes == wasted[value]);
		assert_int_equal(worst[i].copies, copies[value]);
		assert_false(worst[i].cut);
	}
	qsort(wasted, VALUES, sizeof(*wasted), descending);
	for (uint32_t i = 0; i < count; i++)
		assert_true(worst[i].wasted_bytes == wasted[i]);
	free(worst);
	heap_strings_free(strings);
}

static void texts_are_cut_between_characters(void **state)
{
	static const char *const tails[] = {"\\u0000\\u0000", "\\n\\n\\n\\n\\n\\n",
	                                    "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac", "abcdefghijkl"};

	(void)state;
	for (size_t tail = 0; tail < sizeof(tails) / sizeof(*tails); tail++)
		for (int length = HEAP_STRING_TEXT - 12; length < HEAP_STRING_TEXT + 2; length++) {
			struct heap_strings *strings = heap_strings_new(1);
			struct heap_duplicate *worst;
			struct heap_line line;
			char text[2 * HEAP_STRING_TEXT];
			uint32_t count;

			snprintf(text, sizeof(text), "%0*d%s", length, 0, tails[tail]);
			line = string_of(text, 40);
			heap_strings_add(strings, &line);
			heap_strings_add(strings, &line);
			worst = heap_strings_worst(strings, &count);
			assert_int_equal(count, 1);
			assert_int_equal(worst->cut, strlen(text) > HEAP_STRING_TEXT);
			assert_memory_equal(worst->text, text, worst->text_size);
			assert_true(worst->text_size > HEAP_STRING_TEXT - 6 || !worst->cut);
			/* Nothing of an escape or a sequence without its beginning follows. */
			assert_true(text[worst->text_size] != 'u' && (text[worst->text_size] & 0xc0) != 0x80);
			free(worst);
			heap_strings_free(strings);
		}
}

static void what_has_no_value_is_not_compared(void **state)
{
	struct heap_strings *strings = heap_strings_new(1);
	struct heap_line line = string_of("", 40);
	struct heap_string_totals totals;

	(void)state;
	line.has_value = false; /* empty: that is its value */
	heap_strings_add(strings, &line);
	heap_strings_add(strings, &line);
	line.bytesize = 3;
	heap_strings_add(strings, &line);
	line.has_bytesize = false;
	heap_strings_add(strings, &line);
	totals = heap_strings_totals(strings);
	assert_int_equal(totals.compared, 2);
	assert_int_equal(totals.not_compared, 2);
	assert_int_equal(totals.not_compared_bytes, 80);
	assert_int_equal(totals.wasted_bytes, 40);
	heap_strings_free(strings);
}

static void the_biggest_of_many(void **state)
{
	struct heap_biggest biggest = {.limit = SHOWN};
	uint64_t sizes[1000];
	uint32_t random = 1;

	(void)state;
	for (uint64_t i = 0; i < 1000; i++) {
		sizes[i] = next_random(&random) % 2000;
		if (heap_biggest_wants(&biggest, sizes[i], i))
			heap_biggest_add(&biggest, &(struct heap_object){.address = i, .memsize = sizes[i]});
	}
	qsort(sizes, 1000, sizeof(*sizes), descending);
	heap_biggest_sort(&biggest);
	assert_int_equal(biggest.count, SHOWN);
	for (int i = 0; i < SHOWN; i++)
		assert_int_equal(biggest.items[i].memsize, sizes[i]);
	heap_biggest_free(&biggest);
}

static void where_it_was_allocated(void **state)
{
	struct heap_identities known = {.with_sites = true}, without = {0};
	struct heap_line line = {.type = SLICE("STRING"), .has_generation = true};
	struct heap_allocation found;

	(void)state;
	for (line.address = 0; line.address < 400000; line.address += 40) {
		line.generation = line.address % 7;
		heap_identities_add(&known, &line, line.address % 80 ? (uint32_t)line.address : HEAP_TABLE_NONE);
		heap_identities_add(&without, &line, 3);
	}
	line.has_generation = false;
	for (line.address = 0; line.address < 400000; line.address += 40) {
		assert_true(heap_identities_find(&known, &line, &found));
		assert_int_equal(found.site, line.address % 80 ? (uint32_t)line.address : HEAP_TABLE_NONE);
		assert_true(found.has_generation);
		assert_int_equal(found.generation, line.address % 7);
	}
	line.address = 40;
	assert_true(heap_identities_find(&without, &line, &found));
	assert_int_equal(found.site, HEAP_TABLE_NONE);
	heap_identities_add(&without, &line, 3); /* with no generation */
	assert_true(heap_identities_find(&without, &line, &found));
	assert_false(found.has_generation);
	heap_identities_free(&known);
	heap_identities_free(&without);
}

static void the_same_object(void **state)
{
	struct heap_identities first = {0};
	struct heap_line line = {.type = SLICE("STRING"), .class_address = 0x80};

	(void)state;
	assert_false(heap_identities_find(&first, &line, NULL));
	for (line.address = 0; line.address < 400000; line.address += 40) {
		line.has_generation = line.address % 80;
		line.generation = 5;
		heap_identities_add(&first, &line, HEAP_TABLE_NONE);
		heap_identities_add(&first, &line, HEAP_TABLE_NONE);
	}
	assert_int_equal(first.count, 10000);
	line.address = 40;
	assert_true(heap_identities_find(&first, &line, NULL));
	line.generation = 6;
	assert_false(heap_identities_find(&first, &line, NULL));
	line.has_generation = false; /* no longer known */
	assert_true(heap_identities_find(&first, &line, NULL));
	line.address = 80;
	assert_true(heap_identities_find(&first, &line, NULL));
	line.has_generation = true; /* allocated since it is recorded */
	assert_false(heap_identities_find(&first, &line, NULL));
	line.has_generation = false;
	line.class_address = 0x88;
	assert_false(heap_identities_find(&first, &line, NULL));
	line.class_address = 0x80;
	line.type = SLICE("ARRAY");
	assert_false(heap_identities_find(&first, &line, NULL));
	heap_identities_free(&first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_worst_of_many),
		cmocka_unit_test(texts_are_cut_between_characters),
		cmocka_unit_test(what_has_no_value_is_not_compared),
		cmocka_unit_test(the_biggest_of_many),
		cmocka_unit_test(the_same_object),
		cmocka_unit_test(where_it_was_allocated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
