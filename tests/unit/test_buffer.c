/* Bytes that grow, and how text that somebody else wrote is made safe for terminals. */

#include "buffer_fixture.h"

static void it_grows_and_keeps_what_is_there(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100000; i++)
		buffer_add_char(&buffer, (char)i);
	assert_int_equal(buffer.size, 100000);
	for (unsigned i = 0; i < 100000; i++)
		assert_int_equal(buffer.bytes[i], (char)i);
}

static void nothing_is_a_place_too(void **state)
{
	(void)state;
	assert_non_null(buffer_reserve(&buffer, 0));
	buffer_add(&buffer, NULL, 0);
	buffer_add_slice(&buffer, (struct slice){NULL, 0});
	assert_int_equal(buffer.size, 0);
}

static void numbers_spaces_and_formats(void **state)
{
	(void)state;
	buffer_add_uint(&buffer, 0);
	buffer_add_char(&buffer, ' ');
	buffer_add_uint(&buffer, UINT64_MAX);
	assert_added("0 18446744073709551615");
	buffer_add_spaces(&buffer, 3);
	buffer_add_format(&buffer, "%s-%d", "x", 5);
	assert_added("   x-5");
	buffer_add_format(&buffer, "%01000d", 7);
	assert_int_equal(buffer.size, 1000);
	assert_int_equal(buffer.bytes[999], '7');
}

static void seconds_have_six_decimals(void **state)
{
	(void)state;
	buffer_add_seconds(&buffer, 198000);
	assert_added("0.000198");
	buffer_add_seconds(&buffer, 0);
	assert_added("0.000000");
	buffer_add_seconds(&buffer, 12345678901u);
	assert_added("12.345679");
}

static void printable(const char *bytes, size_t size, const char *expected)
{
	buffer_add_printable(&buffer, bytes, size);
	assert_added(expected);
}

static void a_terminal_only_shows_what_is_printable(void **state)
{
	(void)state;
	printable("plain", 5, "plain");
	printable("\xc3\xa9", 2, "\xc3\xa9");
	printable("a\033[2Jb", 6, "a\\x1b[2Jb");
	printable("\0\x7f", 2, "\\x00\\x7f");
	printable("\xff", 1, "\\xff");
	printable("\xc3", 1, "\\xc3");                            /* cut in the middle */
	printable("\xe2\x80\xae", 3, "\\xe2\\x80\\xae");          /* right-to-left override */
	printable("\xc2\x9b", 2, "\\xc2\\x9b");                   /* a control sequence in one character */
	printable("\xc0\xaf", 2, "\\xc0\\xaf");                   /* too long a form of '/' */
	printable("\xed\xa0\x80", 3, "\\xed\\xa0\\x80");          /* half of a pair */
	printable("\xf4\x90\x80\x80", 4, "\\xf4\\x90\\x80\\x80"); /* behind the last character */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, buffer_teardown)
	const struct CMUnitTest tests[] = {
		TEST(it_grows_and_keeps_what_is_there),
		TEST(nothing_is_a_place_too),
		TEST(numbers_spaces_and_formats),
		TEST(seconds_have_six_decimals),
		TEST(a_terminal_only_shows_what_is_printable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
