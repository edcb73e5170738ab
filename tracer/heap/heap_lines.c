/* Cutting a dump into lines. See heap_lines.h. */

#define _GNU_SOURCE
#include "tracer/heap/heap_lines.h"

#include "tracer/base/buffer.h"
#include "tracer/heap/heap_line.h"

#include <stdlib.h>
#include <string.h>

/* As much as a core's second cache holds, so that what was read is still there when it is parsed. */
#define READ_SIZE ((size_t)512 << 10)

/*
 * A part of a line that may be left out, from `begin` to `end`. Within a string quotes are written with a backslash, so
 * that `begin` can only be what it looks like; a newline ends everything.
 */
struct omission {
	const char *begin;
	const char *replacement; /* of the same length; NULL: none */
	size_t kept;             /* bytes after `begin` */
	char end;
	bool escapes;
	bool has_references;
};

static const struct omission omissions[] = {
	/* Under another name nobody takes what is left of it for the value. */
	{.begin = "\"value\":\"", .replacement = "\"VALUE\":\"", .end = '"', .escapes = true},
	{.begin = "\"references\":[", .end = ']', .has_references = true},
	/* What is longer even so is no line of a dump, and neither is what this leaves of it. */
	{.begin = "", .kept = 1, .end = '\n'},
};

struct heap_lines {
	struct heap_input *input;
	struct heap_references *references; /* of the line that is cut; NULL: not wanted */
	char *bytes;
	size_t capacity;
	size_t start, end;              /* what was read and is not yet returned */
	size_t searched;                /* up to here there is no newline */
	const struct omission *leaving; /* where the bytes end we are within one; NULL: not */
	bool escaped;                   /* its next byte follows a backslash */
	bool ended;
	bool unfinished;
	uint64_t number;
	uint64_t total;
};

struct heap_lines *heap_lines_new(struct heap_input *input, struct heap_references *references)
{
	struct heap_lines *lines = memory_zeroed(sizeof(*lines));

	lines->input = input;
	lines->references = references;
	lines->capacity = READ_SIZE + HEAP_LINE_PADDING;
	lines->bytes = memory_resize(NULL, lines->capacity);
	return lines;
}

void heap_lines_free(struct heap_lines *lines)
{
	if (!lines)
		return;
	heap_input_close(lines->input);
	free(lines->bytes);
	free(lines);
}

/* Where the part ends that is left out, among these bytes or after them. */
static size_t end_of_omission(struct heap_lines *lines, const char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (bytes[i] == '\n' || (bytes[i] == lines->leaving->end && !lines->escaped)) {
			lines->leaving = NULL;
			return i;
		}
		lines->escaped = lines->leaving->escapes && bytes[i] == '\\' && !lines->escaped;
	}
	return size;
}

/* How many of these bytes belong to the part that is left out; lines->leaving becomes NULL where it ends among them. */
static size_t omitted(struct heap_lines *lines, const char *bytes, size_t size)
{
	bool has_references = lines->leaving->has_references && lines->references;
	size_t count = end_of_omission(lines, bytes, size);

	if (has_references)
		heap_references_scan(lines->references, (struct slice){bytes, count});
	return count;
}

static void remove_bytes(struct heap_lines *lines, size_t from, size_t size)
{
	memmove(lines->bytes + from, lines->bytes + from + size, lines->end - from - size);
	lines->end -= size;
}

/* The line at the front is too long. */
static void shorten(struct heap_lines *lines)
{
	for (const struct omission *part = omissions; !lines->leaving && lines->end > HEAP_LINES_LONGEST; part++) {
		size_t begin_size = strlen(part->begin);
		char *found = memmem(lines->bytes, lines->end, part->begin, begin_size);
		size_t from;

		if (!found)
			continue;
		if (part->replacement)
			memcpy(found, part->replacement, begin_size);
		from = (size_t)(found - lines->bytes) + begin_size + part->kept;
		lines->leaving = part;
		lines->escaped = false;
		remove_bytes(lines, from, omitted(lines, lines->bytes + from, lines->end - from));
	}
	lines->searched = lines->end;
}

static int fill(struct heap_lines *lines, struct error *err)
{
	ssize_t got;

	remove_bytes(lines, 0, lines->start);
	lines->searched -= lines->start;
	lines->start = 0;
	if (lines->end > HEAP_LINES_LONGEST)
		shorten(lines);
	if (lines->capacity < lines->end + READ_SIZE + HEAP_LINE_PADDING) {
		lines->capacity = 2 * lines->end + READ_SIZE + HEAP_LINE_PADDING;
		lines->bytes = memory_resize(lines->bytes, lines->capacity);
	}
	got = heap_input_read(lines->input, lines->bytes + lines->end, READ_SIZE, err);
	if (got <= 0) {
		lines->ended = true;
		return (int)got;
	}
	lines->total += (uint64_t)got;
	lines->end += (size_t)got;
	if (lines->leaving) {
		size_t from = lines->end - (size_t)got;

		remove_bytes(lines, from, omitted(lines, lines->bytes + from, (size_t)got));
	}
	/* simdjson looks at what is after its input, though it does not matter. */
	memset(lines->bytes + lines->end, 0, HEAP_LINE_PADDING);
	return 0;
}

int heap_lines_next(struct heap_lines *lines, struct slice *line, struct error *err)
{
	if (lines->references)
		heap_references_clear(lines->references);
	for (;;) {
		char *newline = NULL;
		int status;

		if (lines->searched < lines->end)
			newline = memchr(lines->bytes + lines->searched, '\n', lines->end - lines->searched);
		if (newline || (lines->ended && lines->start < lines->end)) {
			size_t end = newline ? (size_t)(newline - lines->bytes) : lines->end;

			*line = (struct slice){lines->bytes + lines->start, end - lines->start};
			lines->start = lines->searched = newline ? end + 1 : end;
			lines->number++;
			lines->unfinished = !newline;
			if (line->size > 0)
				return 1;
			continue;
		}
		if (lines->ended)
			return 0;
		lines->searched = lines->end;
		status = fill(lines, err);
		if (status < 0)
			return status;
	}
}

uint64_t heap_lines_number(const struct heap_lines *lines)
{
	return lines->number;
}

bool heap_lines_unfinished(const struct heap_lines *lines)
{
	return lines->unfinished;
}

uint64_t heap_lines_trailing(const struct heap_lines *lines)
{
	return heap_input_trailing(lines->input);
}

uint64_t heap_lines_bytes(const struct heap_lines *lines)
{
	return lines->total;
}
