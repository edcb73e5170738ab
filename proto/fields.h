#ifndef RBPROBE_FIELDS_H
#define RBPROBE_FIELDS_H

#include "proto/error.h"
#include "proto/slice.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Reading the fields of one message, a msgpack array, in order and with limits. The first violation is kept in `err`,
 * and everything read after it is 0 or empty: a decoder reads all its fields and looks at fields_status() once.
 * Fields after the ones that are read are ignored, so that a later version may append some.
 */
struct fields {
	const char *what; /* names the message in errors */
	const msgpack_object *next;
	size_t left;
	size_t index;
	int status;
	struct error *err;
};

/* False, with err filled, where object is no array. */
bool fields_open(struct fields *fields, const char *what, const msgpack_object *object, struct error *err);
int fields_status(const struct fields *fields);

uint64_t fields_uint(struct fields *fields, uint64_t max);
/* A str or bin of at most max bytes, pointing into the message. */
struct slice fields_text(struct fields *fields, size_t max);
/* As fields_text; nil gives {NULL, 0}. */
struct slice fields_text_or_nil(struct fields *fields, size_t max);
/* An array of at most max elements; NULL with *count 0 on a violation or when empty. */
const msgpack_object *fields_array(struct fields *fields, size_t max, size_t *count);

/* Any value at all; NULL on a violation. */
const msgpack_object *fields_value(struct fields *fields);

/* Records a violation that only the caller can see. */
void fields_refuse(struct fields *fields, const char *why);

/* bytes may be NULL where size is 0. */
void pack_text(msgpack_packer *packer, const char *bytes, size_t size);
void pack_text_or_nil(msgpack_packer *packer, const char *bytes, size_t size);

#endif
