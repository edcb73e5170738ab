/* Cutting dumps into lines: where reads end, long lines, and lines without an end. */

#define _GNU_SOURCE
#include "tracer/base/buffer.h"
#include "tracer/heap/heap_line.h"
#include "tracer/heap/heap_lines.h"
#include "unit.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static struct heap_lines *lines_of(const struct buffer *bytes)
{
	int fd = memfd_create("dump", MFD_CLOEXEC);
	struct heap_input *input;
	struct error err;
	char path[40];

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes->bytes, bytes->size), bytes->size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(heap_input_open(&input, path, &err), 0);
	close(fd);
	return heap_lines_new(input, NULL);
}

static void repeat(struct buffer *to, const char *text, size_t size)
{
	while (size) {
		size_t piece = strlen(text) < size ? strlen(text) : size;

		buffer_add(to, text, piece);
		size -= piece;
	}
}

static void lines_and_their_numbers(void **state)
{
	struct buffer bytes = {0};
	struct heap_lines *lines;
	struct slice line;
	struct error err;

	(void)state;
	buffer_add_text(&bytes, "one\n\ntwo\n");
	repeat(&bytes, "0123456789\n", 11 * 100000);
	buffer_add_text(&bytes, "last");
	lines = lines_of(&bytes);
	assert_int_equal(heap_lines_next(lines, &line, &err), 1);
	assert_slice(line, "one");
	assert_int_equal(heap_lines_next(lines, &line, &err), 1);
	assert_slice(line, "two");
	assert_int_equal(heap_lines_number(lines), 3);
	for (int i = 0; i < 100000; i++) {
		assert_int_equal(heap_lines_next(lines, &line, &err), 1);
		assert_slice(line, "0123456789");
	}
	assert_false(heap_lines_unfinished(lines));
	assert_int_equal(heap_lines_next(lines, &line, &err), 1);
	assert_slice(line, "last");
	assert_true(heap_lines_unfinished(lines));
	assert_int_equal(heap_lines_next(lines, &line, &err), 0);
	assert_int_equal(heap_lines_bytes(lines), bytes.size);
	heap_lines_free(lines);
	buffer_free(&bytes);
}

/* An object whose line has this much of `part` in it, and another behind it: both are read, whatever is left out of the first. */
static void survives(const char *before, const char *part, size_t size, const char *after)
{
	struct heap_parser *parser = heap_parser_new();
	struct buffer bytes = {0};
	struct heap_line object;
	struct heap_lines *lines;
	struct slice line;
	struct error err;

	buffer_add_text(&bytes, "{\"address\":\"0x10\", \"type\":\"STRING\"");
	buffer_add_text(&bytes, before);
	repeat(&bytes, part, size);
	buffer_add_text(&bytes, after);
	buffer_add_text(&bytes, ", \"memsize\":77}\n{\"address\":\"0x20\", \"type\":\"HASH\"}\n");
	lines = lines_of(&bytes);
	assert_int_equal(heap_lines_next(lines, &line, &err), 1);
	assert_true(line.size <= HEAP_LINES_LONGEST + ((size_t)1 << 20));
	assert_int_equal(heap_parser_line(parser, line.bytes, line.size, &object), 0);
	assert_int_equal(object.address, 0x10);
	assert_int_equal(object.memsize, 77);
	assert_int_equal(object.has_value, strstr(before, "value") && size < HEAP_LINES_LONGEST);
	assert_int_equal(heap_lines_next(lines, &line, &err), 1);
	assert_slice(line, "{\"address\":\"0x20\", \"type\":\"HASH\"}");
	assert_int_equal(heap_lines_next(lines, &line, &err), 0);
	heap_lines_free(lines);
	heap_parser_free(parser);
	buffer_free(&bytes);
}

static void long_lines_lose_only_what_makes_them_long(void **state)
{
	static const size_t sizes[] = {1000000, HEAP_LINES_LONGEST + (600u << 10), 3 * HEAP_LINES_LONGEST};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		/* Wherever the pieces that are read end: within an escape, before the end of the part. */
		for (size_t shift = 0; shift < 8; shift += 2) {
			survives(", \"value\":\"", "\\\"]\\\\", (sizes[i] + shift * 5) / 5 * 5, "\"");
			survives(", \"value\":\"x", "\\\\", sizes[i] + shift, "\"");
			survives(", \"value\":\"", "\\\", \\\"references\\\":[", sizes[i] / 20 * 20, "\"");
			survives(", \"references\":[", "\"0x10\", ", (sizes[i] + shift) / 8 * 8, "\"0x20\"]");
		}
}

static void a_line_that_is_only_long_is_none(void **state)
{
	struct heap_parser *parser = heap_parser_new();
	struct buffer bytes = {0};
	struct heap_line object;
	struct heap_lines *lines;
	struct slice line;
	struct error err;

	(void)state;
	repeat(&bytes, "{\"x\":1", 5 * HEAP_LINES_LONGEST);
	buffer_add_text(&bytes, "\n{\"type\":\"ROOT\"}\n");
	lines = lines_of(&bytes);
	assert_int_equal(heap_lines_next(lines, &line, &err), 1);
	assert_true(heap_parser_line(parser, line.bytes, line.size, &object) < 0);
	assert_int_equal(heap_lines_next(lines, &line, &err), 1);
	assert_slice(line, "{\"type\":\"ROOT\"}");
	assert_int_equal(heap_lines_number(lines), 2);
	heap_lines_free(lines);
	heap_parser_free(parser);
	buffer_free(&bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_and_their_numbers),
		cmocka_unit_test(long_lines_lose_only_what_makes_them_long),
		cmocka_unit_test(a_line_that_is_only_long_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
