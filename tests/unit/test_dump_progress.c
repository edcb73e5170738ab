/* What a dump's progress is told by. */

#include "tracer/heap/dump_progress.h"
#include "unit.h"

#include <string.h>

static void lines_are_counted_whatever_the_size(void **state)
{
	static char bytes[3 * 256 * 16 + 40];

	(void)state;
	memset(bytes, '\n', sizeof(bytes));
	for (size_t size = 0; size <= sizeof(bytes); size++)
		assert_int_equal(dump_count_lines(bytes + sizeof(bytes) - size, size), size);
	memset(bytes, '\v', sizeof(bytes));
	for (size_t at = 0; at < sizeof(bytes); at += 7) {
		bytes[at] = '\n';
		assert_int_equal(dump_count_lines(bytes, sizeof(bytes)), at / 7 + 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_counted_whatever_the_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
