#ifndef RBPROBE_FOLD_H
#define RBPROBE_FOLD_H

#include "tracer/base/buffer.h"

/*
 * Breaks the lines from byte `from` on that are longer than so many columns: behind a comma or semicolon, else at a blank, else
 * anywhere. What follows is indented by so much more than the line, but not past the middle. width 0: not at all.
 */
void buffer_fold(struct buffer *buffer, size_t from, unsigned width, unsigned indentation);

/* How many bytes of a text have so many columns, each character being one, and a colour's sequence none. */
size_t fold_bytes(const char *text, size_t size, unsigned columns);

#endif
