/* Colours of the console: what is coloured as what, and that nothing but colours is added, whatever the text. */

#include "tracer/console/console_color.h"
#include "unit.h"

#include <stdlib.h>

/* Colours as letters: S string, Y symbol, N number, C constant, K keyword, and . at their end. */
static void assert_colored(const char *text, const char *expected)
{
	static const struct {
		const char *escape, *letter;
	} colors[] = {{"\033[32m", "S"}, {"\033[33m", "Y"}, {"\033[34m", "N"},
	              {"\033[4m", "C"},  {"\033[36m", "K"}, {"\033[0m", "."}};
	struct buffer buffer = {0}, letters = {0};

	console_color(&buffer, text, strlen(text));
	for (size_t i = 0; i < buffer.size;) {
		size_t color = 0;

		while (color < 6 && (buffer.size - i < strlen(colors[color].escape) ||
		                     memcmp(buffer.bytes + i, colors[color].escape, strlen(colors[color].escape)) != 0))
			color++;
		if (color < 6)
			buffer_add_text(&letters, colors[color].letter);
		else
			buffer_add_char(&letters, buffer.bytes[i]);
		i += color < 6 ? strlen(colors[color].escape) : 1;
	}
	buffer_add_char(&letters, '\0');
	assert_string_equal(letters.bytes, expected);
	buffer_free(&buffer);
	buffer_free(&letters);
}

static void values_by_their_kind(void **state)
{
	(void)state;
	assert_colored("[1, -2.5, 1e-3]", "[N1., -N2.5., N1e.-N3.]");
	assert_colored("{:a=>\"b\", nil=>true}", "{Y:a.=>S\"b\"., Knil.=>Ktrue.}");
	assert_colored("{a: 1, \"b c\": false}", "{Ya:. N1., S\"b c\".: Kfalse.}");
	assert_colored("Foo::Bar", "CFoo.::CBar.");
	assert_colored("#<Foo:0x00 @a=nil>", "#<CFoo.:N0x00. @a=Knil.>");
	assert_colored("[:a?, :\"x y\", :+, :[]=, :@b]", "[Y:a?., Y:\"x y\"., Y:+., Y:[]=., Y:@b.]");
}

static void strings_end_where_they_end(void **state)
{
	(void)state;
	assert_colored("\"a\\\"b\" 1", "S\"a\\\"b\". N1.");
	assert_colored("\"a\\\\\" 1", "S\"a\\\\\". N1.");
	assert_colored("\"cut", "S\"cut.");
	assert_colored("\"cut\\", "S\"cut\\.");
	assert_colored("", "");
}

/* Taking the colours away gives the text again, for any text. */
static void nothing_but_colours_is_added(void **state)
{
	static const char alphabet[] = "\"\\:@$#<>[]{}=aB1. nil?!\n\xc3\xa9";
	unsigned seed = 1;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		char text[24];
		size_t size = 0, out = 0;
		struct buffer buffer = {0};

		while (size < sizeof(text) && (seed = seed * 1103515245 + 12345, (seed >> 16) % 20))
			text[size++] = alphabet[(seed >> 16) % (sizeof(alphabet) - 1)];
		console_color(&buffer, text, size);
		for (size_t i = 0; i < buffer.size; i++) {
			if (buffer.bytes[i] == '\033') {
				while (buffer.bytes[i] != 'm')
					i++;
				continue;
			}
			assert_true(out < size);
			assert_int_equal(buffer.bytes[i], text[out]);
			out++;
		}
		assert_int_equal(out, size);
		buffer_free(&buffer);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_by_their_kind),
		cmocka_unit_test(strings_end_where_they_end),
		cmocka_unit_test(nothing_but_colours_is_added),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
