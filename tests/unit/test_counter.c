/* Counting by key: every count is right however many keys there are, and the top is the top. */

#include "tracee/base/counter.h"
#include "unit.h"

#define KEYS 20000u

static void counts_are_exact_and_the_top_is_in_order(void **state)
{
	struct counter counter = {0};
	struct counter_entry top[10];

	(void)state;
	/* Key k, as an address, is seen k % 1000 + 1 times; five keys more often. */
	for (uintptr_t key = 1; key <= KEYS; key++)
		for (uintptr_t i = 0; i <= key % 1000; i++)
			counter_add(&counter, key * 40);
	for (uintptr_t key = 1; key <= 5; key++)
		for (uintptr_t i = 0; i < 2000 * key; i++)
			counter_add(&counter, key * 40);
	assert_int_equal(counter.used, KEYS);
	assert_int_equal(counter.missed, 0);
	assert_int_equal(counter_top(&counter, top, 10), 10);
	for (uintptr_t i = 0; i < 5; i++) {
		uintptr_t key = 5 - i;

		assert_int_equal(top[i].key, key * 40);
		assert_int_equal(top[i].count, 2000 * key + key + 1);
	}
	for (size_t i = 5; i < 10; i++)
		assert_int_equal(top[i].count, 1000);
	counter_free(&counter);
}

static void fewer_keys_than_room(void **state)
{
	struct counter counter = {0};
	struct counter_entry top[4];

	(void)state;
	assert_int_equal(counter_top(&counter, top, 4), 0);
	counter_add(&counter, 8);
	counter_add(&counter, 16);
	counter_add(&counter, 16);
	assert_int_equal(counter_top(&counter, top, 4), 2);
	assert_int_equal(top[0].key, 16);
	assert_int_equal(top[0].count, 2);
	assert_int_equal(top[1].key, 8);
	counter_free(&counter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_are_exact_and_the_top_is_in_order),
		cmocka_unit_test(fewer_keys_than_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
