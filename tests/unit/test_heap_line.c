/* Lines of heap dumps, as Rubies write them and as they must not be. */

#include "tracer/heap/heap_line.h"
#include "unit.h"

#include <errno.h>
#include <stdlib.h>

/* The parser may look behind the line; there is garbage. The bytes stay where they are until the next call. */
static int parse(const char *text, size_t size, struct heap_line *line)
{
	static char bytes[4096 + HEAP_LINE_PADDING];
	struct heap_parser *parser = heap_parser_new();
	int status;

	assert_non_null(parser);
	assert_true(size <= 4096);
	memset(bytes, '"', sizeof(bytes));
	memcpy(bytes, text, size);
	status = heap_parser_line(parser, bytes, size, line);
	heap_parser_free(parser);
	return status;
}

static void a_string_of_ruby_2_7(void **state)
{
	static const char text[] =
		"{\"address\":\"0x55d0a1b2c3d8\", \"type\":\"STRING\", \"class\":\"0x55d0A1bffed0\", \"frozen\":true, "
		"\"embedded\":true, \"bytesize\":3, \"value\":\"a\\\"\\n\" , \"encoding\":\"US-ASCII\", "
		"\"references\":[\"0x1\", \"0x2\"], \"file\":\"/a b.rb\", \"line\":12, \"method\":\"new\", "
		"\"generation\":0, \"memsize\":40, \"flags\":{\"wb_protected\":true, \"old\":true}}";
	struct heap_line line;

	(void)state;
	assert_int_equal(parse(text, sizeof(text) - 1, &line), 0);
	assert_slice(line.type, "STRING");
	assert_true(line.address == 0x55d0a1b2c3d8);
	assert_true(line.class_address == 0x55d0a1bffed0);
	assert_true(line.has_bytesize && line.bytesize == 3);
	assert_true(line.has_value);
	assert_slice(line.value, "a\\\"\\n");
	assert_slice(line.file, "/a b.rb");
	assert_int_equal(line.source_line, 12);
	assert_true(line.has_generation && line.generation == 0);
	assert_int_equal(line.memsize, 40);
	assert_false(line.has_length);
}

static bool is_too_complex(const char *text)
{
	struct heap_line line;

	assert_int_equal(parse(text, strlen(text), &line), 0);
	return line.too_complex;
}

static void an_object_whose_shape_is_too_complex(void **state)
{
	(void)state;
	assert_false(is_too_complex("{\"address\":\"0x8\", \"type\":\"OBJECT\", \"shape_id\":122}"));
	assert_true(is_too_complex("{\"address\":\"0x8\", \"type\":\"OBJECT\", \"shape_id\":7, \"too_complex_shape\":true}"));
	assert_true(is_too_complex("{\"address\":\"0x8\", \"type\":\"OBJECT\", \"shape_id\":0, \"complex_shape\":true}"));
}

static int32_t source_line(const char *text)
{
	struct heap_line line;

	assert_int_equal(parse(text, strlen(text), &line), 0);
	return line.source_line;
}

static void a_negative_line_of_code_of_eval(void **state)
{
	(void)state;
	assert_int_equal(
		source_line("{\"address\":\"0x1\", \"type\":\"STRING\", \"file\":\"t.erb\", \"line\":18446744073709551611}"), -5);
	assert_int_equal(source_line("{\"address\":\"0x1\", \"type\":\"STRING\", \"file\":\"t.erb\", \"line\":-5}"), -5);
}

static void bad(const char *text)
{
	struct heap_line line;

	if (parse(text, strlen(text), &line) != -EINVAL)
		fail_msg("%s is taken for a line of a dump", text);
}

static void what_is_no_line(void **state)
{
	(void)state;
	bad("");
	bad(" ");
	bad("null");
	bad("[]");
	bad("{}");
	bad("{\"type\":\"STRING\"}");
	bad("{\"address\":\"0x10\"}");
	bad("{\"address\":\"0x10\", \"type\":\"\"}");
	bad("{\"address\":\"10\", \"type\":\"STRING\"}");
	bad("{\"address\":\"0x\", \"type\":\"STRING\"}");
	bad("{\"address\":\"0x1g\", \"type\":\"STRING\"}");
	bad("{\"address\":\"0x11112222333344445\", \"type\":\"STRING\"}");
	bad("{\"address\":16, \"type\":\"STRING\"}");
	bad("{\"address\":\"0x10\", \"type\":STRING}");
	bad("{\"address\":\"0x10\", \"type\":\"STRING\", \"memsize\":-1}");
	bad("{\"address\":\"0x10\", \"type\":\"STRING\", \"memsize\":1.5}");
	bad("{\"address\":\"0x10\", \"type\":\"STRING\", \"memsize\":\"40\"}");
	bad("{\"address\":\"0x10\", \"type\":\"STRING\", \"memsize\":40");
	bad("{\"address\":\"0x10\", \"type\":\"STRING\", \"value\":\"abc");
	bad("{\"address\":\"0x10\", \"type\":\"STRING\"}{\"address\":\"0x10\", \"type\":\"STRING\"}");
	bad("{\"address\":\"0x10\", \"type\":\"STRING\"} x");
}

static void a_root_needs_no_address(void **state)
{
	struct heap_line line;

	(void)state;
	assert_int_equal(parse("{\"type\":\"ROOT\"}", 15, &line), 0);
	assert_true(heap_line_is(&line, "ROOT"));
	assert_false(heap_line_is(&line, "ROO"));
	assert_false(line.has_address);
}

static void unknown_fields_are_skipped(void **state)
{
	static const char text[] = "{\"v\":1, \"values\":[{\"type\":\"X\"}], \"typed\":\"Y\", \"address\":\"0x8\", \"\":{}, "
				   "\"type\":\"HASH\", \"value\":[1], "
				   "\"size\":3, \"later\":[[{\"memsize\":9}]]}";
	struct heap_line line;

	(void)state;
	assert_int_equal(parse(text, sizeof(text) - 1, &line), 0);
	assert_slice(line.type, "HASH");
	assert_false(line.has_value);
	assert_true(line.has_length && line.length == 3);
	assert_int_equal(line.memsize, 0);
}

static void what_is_not_utf8_stays_as_it_is(void **state)
{
	static const char text[] =
		"{\"address\":\"0x8\", \"type\":\"CLASS\", \"name\":\"Caf\xe9\", \"file\":\"\xff/b.rb\", \"memsize\":8}";
	struct heap_line line;

	(void)state;
	assert_int_equal(parse(text, sizeof(text) - 1, &line), 0);
	assert_slice(line.name, "Caf\xe9");
	assert_slice(line.file, "\xff/b.rb");
	assert_int_equal(line.memsize, 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_string_of_ruby_2_7),
		cmocka_unit_test(an_object_whose_shape_is_too_complex),
		cmocka_unit_test(a_negative_line_of_code_of_eval),
		cmocka_unit_test(what_is_no_line),
		cmocka_unit_test(a_root_needs_no_address),
		cmocka_unit_test(unknown_fields_are_skipped),
		cmocka_unit_test(what_is_not_utf8_stays_as_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
