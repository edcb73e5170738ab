#ifndef RBPROBE_HEAP_READER_H
#define RBPROBE_HEAP_READER_H

#include "tracer/heap/heap_line.h"
#include "tracer/heap/heap_references.h"

#include "proto/error.h"

/* Whether the end of a dump is there. */
enum heap_end {
	HEAP_END_UNKNOWN, /* whoever wrote the dump makes no mark there, as Ruby itself */
	HEAP_END_MISSING, /* there should be a mark */
	HEAP_END_FOUND,
};

/* What was found of a dump besides its objects. */
struct heap_reading {
	const char *name; /* as messages call it */
	uint64_t lines;
	uint64_t bytes;          /* unpacked */
	uint64_t trailing_bytes; /* after the compressed data, and none of them: left out */
	uint64_t memory;         /* of all objects: never more than a process can have, so that no sum of them overflows */
	uint64_t bad_lines;      /* that are no lines of a dump, and were passed over */
	uint64_t too_large;      /* of those: with their size it would be more than that */
	uint64_t first_bad_line; /* from 1 */
	bool cut;                /* the last line is not whole: the dump was not written to its end */
	enum heap_end end;
	struct error damage; /* code 0, or why compressed data could not be unpacked to their end */
};

/* What is done with the lines. */
struct heap_reader {
	void (*on_line)(void *owner, const struct heap_line *line);
	void *owner;
	struct heap_references *references; /* has those of the line, however many there are; NULL: not wanted */
};

/* Whether anything says that the dump is not whole. If not, it is whole for sure only where its end is HEAP_END_FOUND. */
static inline bool heap_reading_is_cut(const struct heap_reading *reading)
{
	return reading->cut || reading->damage.code || reading->end == HEAP_END_MISSING;
}

/*
 * Gives every line of the dump at path ("-": standard input) to the reader. Negative, with err filled: it cannot be read,
 * or it is no dump. A dump with bad lines is one.
 */
int heap_read(const char *path, const struct heap_reader *reader, struct heap_reading *reading, struct error *err);

#endif
