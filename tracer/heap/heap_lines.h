#ifndef RBPROBE_HEAP_LINES_H
#define RBPROBE_HEAP_LINES_H

#include "tracer/heap/heap_input.h"
#include "tracer/heap/heap_references.h"

#include "proto/slice.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The lines of a dump, one after the other, in constant memory: of a line that is longer than HEAP_LINES_LONGEST the
 * references and the value, which are what makes a line long, are left out.
 */
struct heap_lines;

#define HEAP_LINES_LONGEST ((size_t)4 << 20)

/* Takes input over. references: gets those of the line returned that were left out of it; NULL: nobody wants them. */
struct heap_lines *heap_lines_new(struct heap_input *input, struct heap_references *references);
void heap_lines_free(struct heap_lines *lines);

/*
 * 1: the next line that is not empty, without its newline; it holds until the next call, and HEAP_LINE_PADDING bytes
 * after it can be read. 0: the end. Negative: as heap_input_read().
 */
int heap_lines_next(struct heap_lines *lines, struct slice *line, struct error *err);

/* Of the line that was returned last, from 1. */
uint64_t heap_lines_number(const struct heap_lines *lines);
/* Whether that one is the last and has no newline. */
bool heap_lines_unfinished(const struct heap_lines *lines);
/* All bytes so far, unpacked. */
uint64_t heap_lines_bytes(const struct heap_lines *lines);
/* heap_input_trailing() of the input. */
uint64_t heap_lines_trailing(const struct heap_lines *lines);

#endif
