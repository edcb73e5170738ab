/* The tree of `rbprobe report --tui` without a terminal: rows, keys, search. */

#include "tracer/browse/browse_keys.h"
#include "tracer/browse/browse_view.h"
#include "unit.h"

#include <curses.h>
#include <string.h>

static struct browse browse;

static struct stat_row row(const char *name, const char *path, uint64_t calls, double total_ns)
{
	return (struct stat_row){.name = {name, strlen(name)},
	                         .key = {path, strlen(path)},
	                         .is_node = true,
	                         .calls = calls,
	                         .total_ns = total_ns,
	                         .self_ns = total_ns / 4};
}

static int setup(void **state)
{
	struct stat_row rows[] = {row("C", "A\nB\nC", 9, 20), row("A", "A", 1, 100), row("B", "A\nB", 3, 60),
	                          row("C", "A\nC", 1, 30), row("D", "D", 2, 300)};
	struct stat_table table = {.rows = rows, .count = sizeof(rows) / sizeof(*rows)};

	(void)state;
	browse = (struct browse){0};
	browse_from_table(&browse, &table);
	browse_set_height(&browse, 3);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	browse_free(&browse);
	return 0;
}

static void press(const char *keys)
{
	for (; *keys; keys++)
		assert_true(browse_press(&browse, (unsigned char)*keys));
}

/* The names of all rows, folded or not, with their levels. */
static void expect_rows(const char *expected)
{
	char text[200] = "";

	for (size_t i = 0; i < browse.row_count; i++) {
		const struct browse_node *node = &browse.nodes[browse.rows[i]];

		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s%u", i ? " " : "", node->name.bytes, node->level);
	}
	assert_string_equal(text, expected);
}

static void test_unfolding(void **state)
{
	(void)state;
	expect_rows("D1 A1");
	assert_int_equal((long)browse.whole, 400);
	press("j\r");
	expect_rows("D1 A1 B2 C2");
	press("j ");
	expect_rows("D1 A1 B2 C3 C2");
	assert_true(browse_press(&browse, KEY_LEFT));
	expect_rows("D1 A1 B2 C2");
	assert_true(browse_press(&browse, KEY_LEFT));
	assert_string_equal(browse_selected(&browse)->name.bytes, "A");
	press("c+");
	expect_rows("D1 A1 B2 C3 C2");
	press("-");
	expect_rows("D1 A1");
}

static void test_the_marked_row_is_on_the_screen(void **state)
{
	(void)state;
	press("j+G");
	assert_int_equal(browse.selected, 4);
	assert_int_equal(browse.first, 2);
	press("g");
	assert_int_equal(browse.first, 0);
	press("G");
	browse_set_height(&browse, 10);
	assert_int_equal(browse.first, 0);
	assert_false(browse_press(&browse, 'q'));
}

static void test_search_goes_round(void **state)
{
	(void)state;
	press("/c");
	expect_rows("D1 A1 B2 C3 C2");
	assert_int_equal(browse_selected(&browse)->level, 3);
	press("\r");
	press("n");
	assert_int_equal(browse_selected(&browse)->level, 2);
	press("n");
	assert_int_equal(browse_selected(&browse)->level, 3);
	press("N");
	assert_int_equal(browse_selected(&browse)->level, 2);
	press("/zzz\r");
	assert_string_equal(browse.said, "no such method");
	assert_int_equal(browse_selected(&browse)->level, 2);
}

static void test_sorting_keeps_the_mark(void **state)
{
	struct buffer line = {0};

	(void)state;
	press("j+jjj");
	assert_int_equal(browse_selected(&browse)->calls, 1);
	press("ss");
	assert_int_equal(browse.sort, BROWSE_CALLS);
	assert_int_equal(browse_selected(&browse)->calls, 1);
	press("s");
	expect_rows("A1 B2 C3 C2 D1");
	press("g");
	browse_view_row(&browse, 0, &line);
	buffer_add_char(&line, '\0');
	assert_non_null(strstr(line.bytes, "- A"));
	buffer_free(&line);
}

static void test_an_empty_tree(void **state)
{
	struct stat_table none = {0};

	(void)state;
	browse_free(&browse);
	browse_from_table(&browse, &none);
	press("jk\r+-hcsn/x\rNG");
	assert_null(browse_selected(&browse));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_unfolding, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_marked_row_is_on_the_screen, setup, teardown),
		cmocka_unit_test_setup_teardown(test_search_goes_round, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sorting_keeps_the_mark, setup, teardown),
		cmocka_unit_test_setup_teardown(test_an_empty_tree, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
