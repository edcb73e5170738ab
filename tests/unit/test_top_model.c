/* The table of `rbprobe top` without a terminal: its order, filter and selection, and what keys do to it. */

#include "tracer/top/top_keys.h"
#include "tracer/top/top_model.h"
#include "tracer/top/top_pane.h"
#include "tracer/top/top_view.h"
#include "unit.h"

#include <curses.h>
#include <stdlib.h>

static struct top_model model;
static struct top_pane pane;

static int setup(void **state)
{
	(void)state;
	model = (struct top_model){.sort = TOP_TOTAL};
	pane = (struct top_pane){.kind = TOP_PANE_NONE};
	top_model_set_height(&model, 3);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	top_model_free(&model);
	top_pane_close(&pane);
	return 0;
}

static struct stat_row row(const char *name, uint64_t calls, double total_ns)
{
	return (struct stat_row){.name = {name, strlen(name)},
	                         .key = {"", 0},
	                         .calls = calls,
	                         .timed = true,
	                         .total_ns = total_ns,
	                         .self_ns = total_ns / 2,
	                         .min_ns = 1,
	                         .max_ns = total_ns};
}

/* Two seconds of a process. */
static void count(struct stat_row *rows, size_t size)
{
	const struct stat_table table = {.pid = 7, .rows = rows, .count = size, .elapsed_ns = 2000000000};
	const struct stat_table *tables[] = {&table};

	top_model_set(&model, tables, 1);
}

static void five(void)
{
	struct stat_row rows[] = {row("Order#save", 10, 5e6), row("Order#load", 40, 4e6), row("Cart#add", 30, 3e6),
	                          row("Cart#sum", 20, 2e6), row("Item#price", 50, 1e6)};

	count(rows, 5);
}

/* The names, in their order, with blanks between them. */
static void assert_rows(const char *expected)
{
	struct buffer names = {0};

	for (size_t i = 0; i < model.count; i++) {
		if (i)
			buffer_add_char(&names, ' ');
		buffer_add_slice(&names, model.rows[i].stat->name);
	}
	buffer_add_char(&names, '\0');
	assert_string_equal(names.bytes, expected);
	buffer_free(&names);
}

static void assert_selected(const char *name)
{
	const struct top_row *selected = top_model_selected(&model);

	assert_non_null(selected);
	assert_slice(selected->stat->name, name);
}

static enum top_action press(int key)
{
	return top_keys_press(&model, &pane, key);
}

static void press_all(const char *keys)
{
	for (; *keys; keys++)
		press((unsigned char)*keys);
}

static void rows_are_sorted_by_any_column(void **state)
{
	(void)state;
	five();
	assert_rows("Order#save Order#load Cart#add Cart#sum Item#price");
	press('N');
	assert_rows("Item#price Order#load Cart#add Cart#sum Order#save");
	press('r');
	assert_rows("Order#save Cart#sum Cart#add Order#load Item#price");
	press('r');
	press('M');
	assert_rows("Cart#add Cart#sum Item#price Order#load Order#save");
	press('>');
	assert_int_equal(model.sort, TOP_RATE);
	assert_rows("Item#price Order#load Cart#add Cart#sum Order#save");
	press('<');
	assert_int_equal(model.sort, TOP_METHOD);
}

static void equal_rows_are_in_the_order_of_their_names(void **state)
{
	struct stat_row rows[] = {row("B#b", 1, 1), row("A#a", 1, 1), row("A#", 1, 1)};

	(void)state;
	count(rows, 3);
	assert_rows("A# A#a B#b");
}

static void the_rate_is_of_the_time_that_was_counted(void **state)
{
	char text[32];

	(void)state;
	five();
	top_row_text(&model.rows[0], TOP_RATE, text);
	assert_string_equal(text, "5.0");
	top_row_text(&model.rows[0], TOP_MEAN, text);
	assert_string_equal(text, "500us");
	top_row_text(&model.rows[0], TOP_CALLS, text);
	assert_string_equal(text, "10");
}

static void a_filter_is_typed(void **state)
{
	(void)state;
	five();
	press_all("/CaRt");
	assert_true(model.filtering);
	assert_rows("Cart#add Cart#sum");
	assert_int_equal(model.left_out, 3);
	press_all("#s");
	assert_rows("Cart#sum");
	press(KEY_BACKSPACE);
	press(127);
	assert_rows("Cart#add Cart#sum");
	press('\r');
	assert_false(model.filtering);
	assert_rows("Cart#add Cart#sum");
	five(); /* it stays */
	assert_rows("Cart#add Cart#sum");
	press(27);
	assert_rows("Order#save Order#load Cart#add Cart#sum Item#price");
	press_all("/q q");
	assert_rows("");
	assert_null(top_model_selected(&model));
	assert_int_equal(press('\r'), TOP_ACTION_NONE);
	press_all("s"); /* nothing is selected, whose source it could be */
}

static void one_character_of_the_filter_goes_at_a_time(void **state)
{
	struct stat_row rows[] = {row("Caf\xc3\xa9#bar", 1, 1), row("Caf#bar", 1, 1)};

	(void)state;
	count(rows, 2);
	press_all("/f\xc3\xa9");
	assert_rows("Caf\xc3\xa9#bar");
	press(KEY_BACKSPACE);
	assert_int_equal(model.filter.size, 1);
	assert_rows("Caf#bar Caf\xc3\xa9#bar");
}

static void the_selection_stays_with_its_method(void **state)
{
	struct stat_row rows[] = {row("Item#price", 50, 9e6), row("Cart#add", 30, 1e6), row("Order#save", 10, 2e6)};

	(void)state;
	five();
	assert_selected("Order#save");
	press(KEY_DOWN);
	press('j');
	assert_selected("Cart#add");
	count(rows, 3);
	assert_rows("Item#price Order#save Cart#add");
	assert_selected("Cart#add");
	press(KEY_HOME);
	assert_selected("Item#price");
	five(); /* the first place is one, too */
	assert_selected("Order#save");
}

static void the_selected_row_is_on_the_screen(void **state)
{
	(void)state;
	five();
	press(KEY_END);
	assert_selected("Item#price");
	assert_int_equal(model.first, 2);
	press(KEY_PPAGE);
	assert_int_equal(model.selected, 2);
	press(KEY_UP);
	assert_int_equal(model.first, 1);
	top_model_set_height(&model, 1);
	assert_int_equal(model.first, 1);
	top_model_set_height(&model, 10);
	assert_int_equal(model.first, 0);
	press(KEY_NPAGE);
	press(KEY_NPAGE);
	assert_int_equal(model.selected, 4);
}

static void processes_are_added_up_or_apart(void **state)
{
	struct stat_row one[] = {row("A#a", 1, 1e6)}, other[] = {row("A#a", 2, 3e6)};
	const struct stat_table first = {.pid = 7, .rows = one, .count = 1, .elapsed_ns = 1000000000},
				second = {.pid = 8, .rows = other, .count = 1, .elapsed_ns = 1000000000};
	const struct stat_table *tables[] = {&first, &second};

	(void)state;
	top_model_set(&model, tables, 2);
	assert_int_equal(model.count, 1);
	assert_int_equal(model.rows[0].stat->calls, 3);
	assert_int_equal(model.rows[0].pid, 0);
	assert_int_equal(press('p'), TOP_ACTION_FIGURES);
	top_model_set(&model, tables, 2);
	assert_rows("A#a A#a");
	assert_int_equal(model.rows[0].pid, 8);
	press(KEY_DOWN);
	assert_int_equal(top_model_selected(&model)->pid, 7);
}

static void the_rate_of_a_late_method_is_that_of_its_own_time(void **state)
{
	struct stat_row rows[] = {row("A#a", 40, 1e6), row("B#b", 40, 1e6)};

	(void)state;
	rows[1].counted_ns = 500000000;
	count(rows, 2);
	press('C');
	assert_rows("B#b A#a");
	assert_true(model.rows[0].rate == 80);
	assert_true(model.rows[1].rate == 20);
}

static void narrow_screens_have_fewer_columns(void **state)
{
	uint32_t fit = top_columns_that_fit(80, TOP_MAX);

	(void)state;
	assert_int_equal(top_columns_that_fit(200, TOP_TOTAL), (1u << TOP_COLUMNS) - 1);
	assert_true(fit & 1u << TOP_MAX); /* by which it is sorted */
	assert_true(fit & 1u << TOP_TOTAL);
	assert_false(fit & 1u << TOP_CALLS);
	assert_int_equal(top_columns_that_fit(10, TOP_P99), 1u << TOP_P99 | 1u << TOP_METHOD);
}

static void a_row_is_as_wide_as_its_headings(void **state)
{
	struct buffer line = {0};

	(void)state;
	five();
	top_view_row(&line, &model.rows[0], 1u << TOP_RATE | 1u << TOP_TOTAL, false);
	assert_slice((struct slice){line.bytes, line.size}, "      5.0  5.00ms  Order#save");
	buffer_free(&line);
}

static void keys_ask_for_more_about_the_selected_method(void **state)
{
	(void)state;
	assert_int_equal(press('c'), TOP_ACTION_NONE);
	five();
	assert_int_equal(press('q'), TOP_ACTION_QUIT);
	assert_int_equal(press('h'), TOP_ACTION_HELP);
	assert_int_equal(press(KEY_RESIZE), TOP_ACTION_NONE);
	assert_false(model.paused);
	press(' ');
	assert_true(model.paused);
	assert_int_equal(press('t'), TOP_ACTION_FIGURES);
	assert_true(model.since_start);
}

static void a_pane_scrolls_and_is_left(void **state)
{
	(void)state;
	top_pane_open(&pane, TOP_PANE_HELP);
	top_pane_set_height(&pane, 2);
	top_pane_add(&pane, SLICE("a\nb\n\nd\n"));
	assert_int_equal(pane.count, 4);
	press(KEY_DOWN);
	assert_int_equal(pane.first, 1);
	press(KEY_END);
	assert_int_equal(pane.first, 2);
	press(KEY_HOME);
	assert_int_equal(pane.first, 0);
	assert_int_equal(press('q'), TOP_ACTION_BACK);
	assert_int_equal(press(27), TOP_ACTION_BACK);
}

static void a_pane_of_calls_stays_at_the_end_until_it_is_scrolled(void **state)
{
	(void)state;
	top_pane_open(&pane, TOP_PANE_FOLLOW);
	top_pane_set_height(&pane, 2);
	for (size_t i = 0; i < TOP_PANE_LINES_MAX + 10; i++)
		top_pane_add(&pane, SLICE("call\n"));
	assert_int_equal(pane.count, TOP_PANE_LINES_MAX);
	assert_int_equal(pane.first, TOP_PANE_LINES_MAX - 2);
	press(KEY_UP);
	top_pane_add(&pane, SLICE("call\n"));
	assert_int_equal(pane.first, TOP_PANE_LINES_MAX - 4); /* the oldest line went: what is seen stays */
	press(KEY_END);
	top_pane_add(&pane, SLICE("call\n"));
	assert_int_equal(pane.first, TOP_PANE_LINES_MAX - 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rows_are_sorted_by_any_column, setup, teardown),
		cmocka_unit_test_setup_teardown(equal_rows_are_in_the_order_of_their_names, setup, teardown),
		cmocka_unit_test_setup_teardown(the_rate_is_of_the_time_that_was_counted, setup, teardown),
		cmocka_unit_test_setup_teardown(a_filter_is_typed, setup, teardown),
		cmocka_unit_test_setup_teardown(one_character_of_the_filter_goes_at_a_time, setup, teardown),
		cmocka_unit_test_setup_teardown(the_selection_stays_with_its_method, setup, teardown),
		cmocka_unit_test_setup_teardown(the_selected_row_is_on_the_screen, setup, teardown),
		cmocka_unit_test_setup_teardown(processes_are_added_up_or_apart, setup, teardown),
		cmocka_unit_test_setup_teardown(the_rate_of_a_late_method_is_that_of_its_own_time, setup, teardown),
		cmocka_unit_test_setup_teardown(narrow_screens_have_fewer_columns, setup, teardown),
		cmocka_unit_test_setup_teardown(a_row_is_as_wide_as_its_headings, setup, teardown),
		cmocka_unit_test_setup_teardown(keys_ask_for_more_about_the_selected_method, setup, teardown),
		cmocka_unit_test_setup_teardown(a_pane_scrolls_and_is_left, setup, teardown),
		cmocka_unit_test_setup_teardown(a_pane_of_calls_stays_at_the_end_until_it_is_scrolled, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
