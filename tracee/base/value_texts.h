#ifndef RBPROBE_VALUE_TEXTS_H
#define RBPROBE_VALUE_TEXTS_H

#include "tracee/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The values of an event as they go into the ring: one msgpack array of texts, in memory of a fixed size. Any context. */
struct value_texts {
	char *buffer;
	size_t size;
	size_t used;
	uint32_t count;
};

/* size: at least 3. */
void value_texts_begin(struct value_texts *values, char *buffer, size_t size);
/* The next text, to be filled in place. False where there is no room for one. */
bool value_texts_open(const struct value_texts *values, struct text *text);
void value_texts_close(struct value_texts *values, const struct text *text);
/* One that is not there: nil. */
void value_texts_leave_out(struct value_texts *values);
/* A whole text, cut where it does not fit. */
void value_texts_add(struct value_texts *values, const char *bytes, size_t size);
void value_texts_add_uint(struct value_texts *values, uint64_t number);
void value_texts_add_int(struct value_texts *values, int64_t number);
/* The bytes of the array, which is complete then. */
size_t value_texts_end(struct value_texts *values);

#endif
