/* Names and keys of rows, as far as a line of the terminal has room for them. */

#include "buffer_fixture.h"
#include "tracer/commands/stat_names.h"

static struct slice text(const char *bytes)
{
	return (struct slice){bytes, strlen(bytes)};
}

static void what_does_not_fit_is_cut(void **state)
{
	static const char log[] = "ActiveRecord::ConnectionAdapters::AbstractAdapter#log";
	static const struct {
		const char *name, *key;
		unsigned columns;
		const char *shown;
	} cases[] = {
		{log, "", 20, "ActiveRecord::ConnectionAdapters::AbstractAdapter#log"},
		{log, "\"SELECT 1\"", 0, "ActiveRecord::ConnectionAdapters::AbstractAdapter#log  \"SELECT 1\""},
		{"A#b", "\"SELECT 1\"", 15, "A#b  \"SELECT 1\""},
		{"A#b", "\"SELECT 1\"", 14, "A#b  \"SELEC..."},
		{log, "\"SELECT 1\"", 50, "...AbstractAdapter#log  \"SELECT 1\""},
		{log, "\"SELECT * FROM items WHERE id = ?\"", 50, "...stractAdapter#log  \"SELECT * FROM items WHER..."},
		{"A#b", "\"\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\"", 14,
	         "A#b  \"\u00e4\u00e4\u00e4\u00e4\u00e4..."},
		{log, "\"SELECT 1\"", 1, "...r#log  \"SELE..."},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		stat_names_add(&buffer, text(cases[i].name), text(cases[i].key), cases[i].columns);
		assert_added(cases[i].shown);
	}
}

static void what_they_want_has_a_limit(void **state)
{
	static const char longest[] = "a name that is longer than what a line should have for it";

	(void)state;
	assert_int_equal(stat_names_width(text("A#b"), text("")), 3);
	assert_int_equal(stat_names_width(text("A#b"), text("key")), 8);
	assert_int_equal(stat_names_width(text(longest), text("")), STAT_NAME_WIDTH);
	assert_true(stat_names_width(text(longest), text(longest)) <= 56);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(what_does_not_fit_is_cut, buffer_teardown),
		cmocka_unit_test(what_they_want_has_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
