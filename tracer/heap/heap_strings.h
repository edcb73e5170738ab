#ifndef RBPROBE_HEAP_STRINGS_H
#define RBPROBE_HEAP_STRINGS_H

#include "tracer/heap/heap_line.h"

/*
 * Which strings are there more than once. 16 bytes for each value (with the table's free places 43, for a moment 64,
 * when it has just grown), 24 more for one that comes again; texts are kept of those only that may be shown. A 64-bit
 * hash and the size distinguish values.
 */
struct heap_strings;

#define HEAP_STRING_TEXT 72

/* A value that several strings have. */
struct heap_duplicate {
	uint64_t copies;
	uint64_t wasted_bytes; /* memsize of all but the largest */
	uint64_t value_bytes;
	char text[HEAP_STRING_TEXT]; /* its beginning, in JSON's escapes */
	uint32_t text_size;
	bool cut; /* there is more */
};

struct heap_string_totals {
	uint64_t compared;
	uint64_t not_compared; /* their value is not in the dump */
	uint64_t not_compared_bytes;
	uint64_t duplicated_values;
	uint64_t copies; /* of them, the first included */
	uint64_t wasted_bytes;
};

/* shown: how many values will be asked for; at least 1. */
struct heap_strings *heap_strings_new(uint32_t shown);
void heap_strings_free(struct heap_strings *strings);
/* A line of type STRING. */
void heap_strings_add(struct heap_strings *strings, const struct heap_line *line);
struct heap_string_totals heap_strings_totals(const struct heap_strings *strings);
/* Those that waste most, most first; *count of them, to be freed by the caller. The strings must not be added to afterwards. */
struct heap_duplicate *heap_strings_worst(const struct heap_strings *strings, uint32_t *count);

#endif
