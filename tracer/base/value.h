#ifndef RBPROBE_VALUE_H
#define RBPROBE_VALUE_H

#include "tracer/base/buffer.h"

#include "proto/slice.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Reading the values of DATA records. They come from the target and may be anything: every function takes NULL and
 * values of another type, and gives what stands for "nothing".
 */

/* What a map has under that key; NULL: nothing. */
const msgpack_object *value_get(const msgpack_object *map, const char *key);
/* An array's size, and its elements. 0 / NULL for what is no array or beyond its end. */
uint32_t value_count(const msgpack_object *array);
const msgpack_object *value_at(const msgpack_object *array, uint32_t index);

struct slice value_text(const msgpack_object *value); /* {"", 0} */

static inline bool slice_is(struct slice text, const char *word)
{
	return text.size == strlen(word) && memcmp(text.bytes, word, text.size) == 0;
}

uint64_t value_uint(const msgpack_object *value); /* 0; a negative number is 0, too */
int32_t value_line(const msgpack_object *value);  /* 0; of a source file, where code of eval may have negative ones */
double value_number(const msgpack_object *value); /* 0.0; of integers and floats */
bool value_bool(const msgpack_object *value);     /* false */

/* Adds any value as JSON (json.h), on one line; null for NULL. */
void value_add_json(struct buffer *to, const msgpack_object *value);
/* Adds the members of a map to an object that was opened; nothing for what is no map. */
void value_add_members(struct buffer *to, const msgpack_object *map);

#endif
