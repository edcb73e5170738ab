/* From numbers to places: what is put in, changed and taken out again, beside an array that is looked through. */

#include "tracer/base/number_index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#define NUMBERS 700u
#define STEPS 40000u

/* Few that are different in the bits which choose their homes: they are in each other's way. */
static uint64_t number_of(uint32_t i)
{
	return i % 2 ? (uint64_t)i << 40 : i;
}

static void all_is_as_in_an_array(void **state)
{
	struct number_index index = {0};
	uint32_t places[NUMBERS], count = 0;
	uint64_t random = 88172645463325252u;

	(void)state;
	for (uint32_t i = 0; i < NUMBERS; i++)
		places[i] = NUMBER_INDEX_NONE;
	for (uint32_t step = 0; step < STEPS; step++) {
		uint32_t i;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		i = (uint32_t)(random >> 20) % NUMBERS;
		count -= places[i] != NUMBER_INDEX_NONE;
		if (random & 1 << 10) {
			places[i] = step;
			number_index_put(&index, number_of(i), step);
			count++;
		} else {
			places[i] = NUMBER_INDEX_NONE;
			number_index_remove(&index, number_of(i));
		}
		assert_int_equal(index.count, count);
		if (step % 1000)
			continue;
		for (i = 0; i < NUMBERS; i++)
			assert_int_equal(number_index_get(&index, number_of(i)), places[i]);
	}
	number_index_clear(&index);
	assert_int_equal(number_index_get(&index, number_of(1)), NUMBER_INDEX_NONE);
	number_index_free(&index);
	assert_int_equal(number_index_get(&index, 0), NUMBER_INDEX_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(all_is_as_in_an_array)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
