#ifndef RBPROBE_HEAP_INPUT_H
#define RBPROBE_HEAP_INPUT_H

#include "proto/error.h"

#include <stdint.h>
#include <sys/types.h>

/*
 * The bytes of a dump: of a file or of standard input ("-"), decompressed where they are gzip's or zstd's, whatever the
 * file's name is.
 */
struct heap_input;

int heap_input_open(struct heap_input **input, const char *path, struct error *err);
void heap_input_close(struct heap_input *input);

/*
 * How many bytes were put into `to` (size > 0); 0 at the end. -EBADMSG: the compressed data are damaged or end early,
 * all that came before them has been delivered; other codes are those of read(2).
 */
ssize_t heap_input_read(struct heap_input *input, char *to, size_t size, struct error *err);

/* As messages should call it: the path, or "standard input". */
const char *heap_input_name(const struct heap_input *input);
/* How many bytes were left out so far that follow the compressed data and are none. */
uint64_t heap_input_trailing(const struct heap_input *input);

#endif
