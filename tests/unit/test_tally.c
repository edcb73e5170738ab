/* Counting by key: every count is right however many keys there are, and the top is the top. */

#include "tracee/tally.h"
#include "unit.h"

#define KEYS 20000u

static void counts_are_exact_and_the_top_is_in_order(void **state)
{
	struct tally tally = {0};
	struct tally_entry top[10];

	(void)state;
	/* Key k, as an address, is seen k % 1000 + 1 times; five keys more often. */
	for (uintptr_t key = 1; key <= KEYS; key++)
		for (uintptr_t i = 0; i <= key % 1000; i++)
			tally_add(&tally, key * 40);
	for (uintptr_t key = 1; key <= 5; key++)
		for (uintptr_t i = 0; i < 2000 * key; i++)
			tally_add(&tally, key * 40);
	assert_int_equal(tally.used, KEYS);
	assert_int_equal(tally.missed, 0);
	assert_int_equal(tally_top(&tally, top, 10), 10);
	for (uintptr_t i = 0; i < 5; i++) {
		uintptr_t key = 5 - i;

		assert_int_equal(top[i].key, key * 40);
		assert_int_equal(top[i].count, 2000 * key + key + 1);
	}
	for (size_t i = 5; i < 10; i++)
		assert_int_equal(top[i].count, 1000);
	tally_free(&tally);
}

static void fewer_keys_than_room(void **state)
{
	struct tally tally = {0};
	struct tally_entry top[4];

	(void)state;
	assert_int_equal(tally_top(&tally, top, 4), 0);
	tally_add(&tally, 8);
	tally_add(&tally, 16);
	tally_add(&tally, 16);
	assert_int_equal(tally_top(&tally, top, 4), 2);
	assert_int_equal(top[0].key, 16);
	assert_int_equal(top[0].count, 2);
	assert_int_equal(top[1].key, 8);
	tally_free(&tally);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_are_exact_and_the_top_is_in_order),
		cmocka_unit_test(fewer_keys_than_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
