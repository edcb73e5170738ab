/* A dump from its first line to its last. See heap_reader.h. */

#include "tracer/heap/heap_reader.h"

#include "tracer/heap/heap_lines.h"

#include <errno.h>
#include <string.h>

/* After as many bad lines and not one good, it is something else. */
#define BAD_LINES_AT_FIRST 100

/* All that a process can address with five levels of page tables; the kernel has as much again. */
#define MEMORY_MAX (1ull << 56)

/* Whether a process can have this as well. */
static bool count_memory(struct heap_reading *reading, const struct heap_line *line)
{
	if (line->memsize > MEMORY_MAX - reading->memory) {
		reading->too_large++;
		return false;
	}
	reading->memory += line->memsize;
	return true;
}

/* Where the rest is missing, its end may have been put right with a newline. Other text between the lines is none. */
static bool is_beginning(struct slice text)
{
	return text.size >= 2 && memcmp(text.bytes, "{\"", 2) == 0 && text.bytes[text.size - 1] != '}';
}

/* The last line decides: another dump may follow in the same file. */
static void look_for_end(struct heap_reading *reading, const struct heap_line *line)
{
	if (heap_line_is_root(line, HEAP_ROOT_END))
		reading->end = HEAP_END_FOUND;
	else if (line->end_mark && heap_line_is_root(line, HEAP_ROOT_OWN))
		reading->end = HEAP_END_MISSING;
	else if (reading->end == HEAP_END_FOUND)
		reading->end = HEAP_END_UNKNOWN;
}

static void give(const struct heap_reader *reader, const struct heap_line *line)
{
	/* Of a line that was too long they are there already, and none in the line. */
	if (reader->references && line->references.size)
		heap_references_scan(reader->references, line->references);
	reader->on_line(reader->owner, line);
}

static int read_lines(struct heap_lines *lines, struct heap_parser *parser, const struct heap_reader *reader,
                      struct heap_reading *reading, struct error *err)
{
	struct heap_line line;
	struct slice text;
	int status;

	while ((status = heap_lines_next(lines, &text, err)) > 0) {
		status = heap_parser_line(parser, text.bytes, text.size, &line);
		if (status == -ENOMEM)
			return error_set(err, status, "out of memory");
		reading->lines++;
		if (status == 0 && count_memory(reading, &line)) {
			reading->cut = false;
			look_for_end(reading, &line);
			if (reading->end != HEAP_END_FOUND)
				give(reader, &line);
			continue;
		}
		if (reading->bad_lines++ == 0)
			reading->first_bad_line = heap_lines_number(lines);
		reading->cut = status < 0 && (heap_lines_unfinished(lines) || is_beginning(text));
		if (reading->bad_lines == reading->lines && reading->lines >= BAD_LINES_AT_FIRST)
			return 0;
	}
	return status;
}

int heap_read(const char *path, const struct heap_reader *reader, struct heap_reading *reading, struct error *err)
{
	struct heap_parser *parser;
	struct heap_input *input;
	struct heap_lines *lines;
	int status;

	memset(reading, 0, sizeof(*reading));
	status = heap_input_open(&input, path, err);
	if (status < 0)
		return status;
	reading->name = heap_input_name(input);
	lines = heap_lines_new(input, reader->references);
	parser = heap_parser_new();
	status = parser ? read_lines(lines, parser, reader, reading, err) : error_set(err, -ENOMEM, "out of memory");
	reading->bytes = heap_lines_bytes(lines);
	reading->trailing_bytes = heap_lines_trailing(lines);
	heap_parser_free(parser);
	heap_lines_free(lines);
	if (status == -EBADMSG) {
		reading->damage = *err;
		status = 0;
	}
	if (status == 0 && reading->lines == 0 && !reading->damage.code)
		return error_set(err, -EINVAL, "%s is empty", reading->name);
	if (status == 0 && reading->bad_lines == reading->lines)
		return error_set(err, -EINVAL,
		                 "%s is no heap dump: its first line is not a JSON object as ObjectSpace.dump_all writes them",
		                 reading->name);
	return status;
}
