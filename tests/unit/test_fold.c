/* Lines that are broken for narrow terminals. */

#include "tracer/base/fold.h"

#include "unit.h"

#include <string.h>

static void folds(const char *text, unsigned width, const char *expected)
{
	struct buffer buffer = {0};

	buffer_add_text(&buffer, "before, as it was\n");
	buffer_add_text(&buffer, text);
	buffer_fold(&buffer, strlen("before, as it was\n"), width, 2);
	buffer_add_char(&buffer, '\0');
	assert_string_equal(buffer.bytes + strlen("before, as it was\n"), expected);
	buffer_free(&buffer);
}

static void a_line_that_fits_stays(void **state)
{
	(void)state;
	folds("", 10, "");
	folds("1234567890\n\nab\n", 10, "1234567890\n\nab\n");
	folds("1234567890 and more", 0, "1234567890 and more");
}

static void it_is_broken_where_it_pauses_or_at_a_blank_or_anywhere(void **state)
{
	(void)state;
	folds("one, two three four\n", 12, "one, two\n  three four\n");
	folds("one two, three four five\n", 14, "one two,\n  three four\n  five\n");
	folds("12345678901234\n", 10, "1234567890\n  1234\n");
	folds("   one two three\n", 12, "   one two\n     three\n");
	folds("        one two\n", 12, "        one\n      two\n");
}

static void characters_are_counted_and_stay_whole(void **state)
{
	(void)state;
	folds("\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\n", 6, "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\n");
	folds("\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\n", 6,
	      "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\n  \xc3\xa9\n");
	assert_int_equal(fold_bytes("a\xc3\xa9"
	                            "b",
	                            4, 2),
	                 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_that_fits_stays),
		cmocka_unit_test(it_is_broken_where_it_pauses_or_at_a_blank_or_anywhere),
		cmocka_unit_test(characters_are_counted_and_stay_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
