/* What a process is asked for to complete a selector, and which of the names that it sends are offered. */

#include "tracer/cli/complete_request.h"
#include "unit.h"

#include <string.h>

#define ROOM 1000

static bool take(struct selector_search *search, const char *class, char separator, struct slice method)
{
	const struct record_match match = {.class_name = {class, strlen(class)}, .separator = separator, .method_name = method};

	return selector_search_take(search, &match);
}

static struct slice text(const char *bytes)
{
	return (struct slice){bytes, strlen(bytes)};
}

static void offers(const struct selector_search *search, const char *lines)
{
	assert_slice(((struct slice){search->answer.bytes ? search->answer.bytes : "", search->answer.size}), lines);
}

static void asks(const char *typed, const char *class, char separator, const char *method)
{
	struct selector_search search;
	struct command command;

	if (!selector_search_begin(&search, typed, 0, ROOM))
		fail_msg("%s is not asked for", typed);
	command = selector_search_command(&search);
	assert_int_equal(command.selector_count, 1);
	assert_slice(command.selectors[0].class_pattern, class);
	assert_int_equal(command.selectors[0].separator, separator);
	assert_slice(command.selectors[0].method_pattern, method);
	selector_search_free(&search);
}

static void what_is_asked(void **state)
{
	(void)state;
	asks("Ord", "Ord*", 0, "");
	asks("::Ord", "Ord*", 0, "");
	asks("Shop::", "Shop::*", 0, "");
	asks("Order#", "Order", '#', "");
	asks("Shop::Order.cr", "Shop::Order", '.', "cr*");
	asks("Order#[", "Order", '#', "[*");
}

static void what_is_not(void **state)
{
	static const char *const words[] = {"",          "ord",         "sh#x", "Ord*",     "Order#s*", "Order#save(",
	                                    "Order#\"x", "::",          "#x",   "12",       "Shop::or", "order.rb:1",
	                                    "A b",       "Order#a\x1b", "A\\x", "Order#a#", "Shop:#x",  "Order#a:1",
	                                    "A\xff",     ":A"};
	struct selector_search search;

	(void)state;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		if (selector_search_begin(&search, words[i], 0, ROOM))
			fail_msg("%s is asked for", words[i]);
		selector_search_free(&search);
	}
}

static void classes_as_far_as_they_are_meant(void **state)
{
	struct selector_search search;

	(void)state;
	assert_true(selector_search_begin(&search, "::Or", 0, ROOM));
	take(&search, "Order", '#', text("save"));
	take(&search, "Order", '#', text("id"));
	take(&search, "Order", '.', text("find"));
	take(&search, "Order::Item::Part", '#', text("x"));
	take(&search, "Orders", '?', text("x"));
	take(&search, "Other", '#', text("x"));
	take(&search, "Or der", '#', text("x"));
	take(&search, "Or\x1b[m", '#', text("x"));
	take(&search, "Order2 ::X", '#', text("x"));
	offers(&search, "::Order#\n::Order.\n::Order::\n");
	selector_search_free(&search);
	assert_true(selector_search_begin(&search, "Order:", 0, ROOM));
	take(&search, "Order::Item", '#', text("x"));
	take(&search, "Order", '#', text("x"));
	offers(&search, "Order::Item#\n");
	selector_search_free(&search);
}

static void names_that_are_plain(void **state)
{
	static const char *const refused[] = {"",
	                                      "a b",
	                                      "a\x01",
	                                      "a\x7f",
	                                      "a\xc2\x85",
	                                      "a\xff",
	                                      "a\nb",
	                                      "a\xc2\xa0z",
	                                      "a\xe2\x80\xae",
	                                      "a\xe2\x80\x8b",
	                                      "a\xef\xbb\xbf",
	                                      "a\xf3\xa0\x81\x81",
	                                      "a\xed\xa0\x80",
	                                      "{",
	                                      "a(b",
	                                      "a;b",
	                                      "a'b",
	                                      "a\"b",
	                                      "a\\b",
	                                      "a*b",
	                                      "a:1",
	                                      "a:",
	                                      "a.",
	                                      "a#",
	                                      "***",
	                                      "#{x}"};
	static const char *const taken[] = {"save", "save!", "ok=", "[]", "[]=",        "!=", "*",
	                                    "**",   "`",     "<=>", "-@", "\xc3\xbcml", "$x", "|"};
	struct selector_search search;
	struct buffer expected = {0};

	(void)state;
	assert_true(selector_search_begin(&search, "A#", 0, ROOM));
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
		take(&search, "A", '#', text(refused[i]));
	take(&search, "A", '#', (struct slice){"a\0b", 3});
	offers(&search, "");
	for (size_t i = 0; i < sizeof(taken) / sizeof(*taken); i++) {
		take(&search, "A", '#', text(taken[i]));
		buffer_add_format(&expected, "A#%s\n", taken[i]);
	}
	buffer_add_char(&expected, '\0');
	offers(&search, expected.bytes);
	buffer_free(&expected);
	selector_search_free(&search);
}

static void long_names_and_many(void **state)
{
	struct selector_search search;
	char name[202];

	(void)state;
	memset(name, 'x', sizeof(name));
	assert_true(selector_search_begin(&search, "A#", 2, 600));
	assert_true(take(&search, "A", '#', (struct slice){name, 201}));
	assert_int_equal(search.answer.size, 0);
	assert_true(take(&search, "A", '#', (struct slice){name, 200}));
	assert_true(take(&search, "A", '#', (struct slice){name, 200}));
	assert_true(take(&search, "A", '#', (struct slice){name, 199}));
	assert_false(take(&search, "A", '#', (struct slice){name, 198}));
	assert_int_equal(search.answer.size, 2 + 200 + 1 + 2 + 199 + 1);
	selector_search_free(&search);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_asked),
		cmocka_unit_test(what_is_not),
		cmocka_unit_test(classes_as_far_as_they_are_meant),
		cmocka_unit_test(names_that_are_plain),
		cmocka_unit_test(long_names_and_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
