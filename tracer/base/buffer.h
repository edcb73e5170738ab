#ifndef RBPROBE_BUFFER_H
#define RBPROBE_BUFFER_H

#include "proto/slice.h"

#include <stdint.h>
#include <string.h>

/*
 * Bytes that grow at their end. A zeroed struct is an empty buffer. Without memory the program ends with a message: there is
 * nothing useful a tracer could do, and the target notices the closed socket and disarms by itself.
 */
struct buffer {
	char *bytes;
	size_t size;
	size_t capacity;
};

void *memory_resize(void *block, size_t size);
void *memory_zeroed(size_t size);

void buffer_grow(struct buffer *buffer, size_t more);
void buffer_free(struct buffer *buffer);

/* Room for `more` bytes at the end; what is used of it is added to buffer->size by the caller. */
static inline char *buffer_reserve(struct buffer *buffer, size_t more)
{
	/* Nothing is a place as well, and NULL is none. */
	if (buffer->capacity - buffer->size < more || !buffer->capacity)
		buffer_grow(buffer, more);
	return buffer->bytes + buffer->size;
}

static inline void buffer_add(struct buffer *buffer, const char *bytes, size_t size)
{
	char *to = buffer_reserve(buffer, size);

	if (size)
		memcpy(to, bytes, size);
	buffer->size += size;
}

static inline void buffer_add_slice(struct buffer *buffer, struct slice text)
{
	buffer_add(buffer, text.bytes, text.size);
}

static inline void buffer_add_text(struct buffer *buffer, const char *text)
{
	buffer_add(buffer, text, strlen(text));
}

static inline void buffer_add_char(struct buffer *buffer, char c)
{
	*buffer_reserve(buffer, 1) = c;
	buffer->size++;
}

void buffer_add_spaces(struct buffer *buffer, size_t count);
void buffer_add_uint(struct buffer *buffer, uint64_t number);
/* Seconds with six decimals, as "0.000198". */
void buffer_add_seconds(struct buffer *buffer, uint64_t ns);
/* Bytes, as "512 B", "12.3 KiB" or "12.3 MiB". */
void buffer_add_size(struct buffer *buffer, uint64_t bytes);
void buffer_add_format(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Adds text that somebody else wrote so that a terminal only ever shows it: control characters, invalid UTF-8 and characters
 * that reorder a line become \xNN escapes.
 */
void buffer_add_printable(struct buffer *buffer, const char *bytes, size_t size);

#endif
