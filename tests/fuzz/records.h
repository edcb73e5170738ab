#ifndef RBPROBE_FUZZ_RECORDS_H
#define RBPROBE_FUZZ_RECORDS_H

#include "proto/record.h"
#include "tracer/base/buffer.h"
#include "tracer/stream/decode.h"

#include <stddef.h>
#include <stdint.h>

/*
 * What a lying target sends, made of a fuzzer's bytes: records of all kinds in any order, well-formed with any
 * contents, or bytes that are none. Small numbers come often, so that records refer to each other.
 */
struct lies {
	const uint8_t *bytes;
	size_t size;
};

#define FUZZ_REQUEST 2 /* the command that the answers are for, more often than not */

/*
 * Without a socket: the stream gets records, in pieces, until the bytes are used up or it refuses. Returns what
 * stream_read() would.
 */
int lies_tell(struct lies *lies, struct stream *stream, struct error *err);

/* Adds one record as it comes through a socket, or bytes that are none. Returns the byte that said which. */
uint8_t lies_add(struct lies *lies, msgpack_sbuffer *buffer);

uint8_t lies_byte(struct lies *lies);
uint64_t lies_number(struct lies *lies);
struct slice lies_text(struct lies *lies);

/* A stream of process 1 as stream_new() makes it; lies_end() instead of stream_free(). One at a time. */
struct stream *lies_stream(struct sink *sink, struct call_limit *limit, const struct stream_handler *handler, void *owner);
void lies_end(struct stream *stream);

/* A file in memory for what is written at once, made at first and empty. *fd: -1 at first. */
int lies_file(int *fd);
void lies_file_read(int fd, struct buffer *to);

/* Ends the program where a terminal would be commanded, or a line of JSON is none. */
void must_be_harmless(const struct buffer *text);
void must_be_json(const struct buffer *lines);

#endif
