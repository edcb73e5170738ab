/* What a process prints cannot command the user's terminal, and goes everywhere else as it is. */

#include "tracer/base/terminal_text.h"
#include "unit.h"

#include <string.h>

static void expect(bool filters, const char *const *pieces, const char *expected)
{
	struct terminal_text text = {.filters = filters};
	struct buffer to = {0};

	for (; *pieces; pieces++)
		terminal_text_add(&text, &to, (struct slice){*pieces, strlen(*pieces)});
	terminal_text_end(&text, &to);
	buffer_add_char(&to, '\0');
	assert_string_equal(to.bytes, expected);
	buffer_free(&to);
}

#define PIECES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void text_passes(void **state)
{
	(void)state;
	expect(true, PIECES("one\ttwo\n", "three\r\n\n", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
	       "one\ttwo\nthree\n\n\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
}

static void orders_are_shown(void **state)
{
	(void)state;
	expect(true, PIECES("\x1b[31mred\x1b[0m\a\b", "100%\r"), "\\x1b[31mred\\x1b[0m\\x07\\x08100%\\x0d");
	/* C1 controls, as one character of UTF-8 and as a byte; a change of direction. */
	expect(true,
	       PIECES("\xc2\x9b"
	              "31m",
	              "\x9b"
	              "31m\xe2\x80\xae"),
	       "\\xc2\\x9b31m\\x9b31m\\xe2\\x80\\xae");
}

static void a_character_may_come_in_pieces(void **state)
{
	(void)state;
	expect(true,
	       PIECES("a\xf0", "\x9f", "\x98",
	              "\x80"
	              "b"),
	       "a\xf0\x9f\x98\x80"
	       "b");
	/* An order that comes in pieces is one. */
	expect(true,
	       PIECES("\xc2", "\x9b"
	                      "31m"),
	       "\\xc2\\x9b31m");
	expect(true, PIECES("a\xe2\x82"), "a\\xe2\\x82");
	expect(true, PIECES("\xe2\x82", "x"), "\\xe2\\x82x");
}

static void a_file_gets_every_byte(void **state)
{
	(void)state;
	expect(false, PIECES("\x1b[31m\r\n\xff\xe2", "\x82"), "\x1b[31m\r\n\xff\xe2\x82");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_passes),
		cmocka_unit_test(orders_are_shown),
		cmocka_unit_test(a_character_may_come_in_pieces),
		cmocka_unit_test(a_file_gets_every_byte),
	};

	return cmocka_run_group_tests_name("terminal text", tests, NULL, NULL);
}
