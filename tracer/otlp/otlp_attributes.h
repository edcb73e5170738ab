#ifndef RBPROBE_OTLP_ATTRIBUTES_H
#define RBPROBE_OTLP_ATTRIBUTES_H

#include "tracer/base/buffer.h"

#include "proto/slice.h"

#include <tracer/otlp/otlp.pb-c.h>

/*
 * A list of attributes, for one message. Text is used where it is, and copied only where it is not UTF-8, which a receiver would
 * refuse with all that comes with it: what is wrong becomes U+FFFD. A zeroed list is empty.
 */
#define OTLP_ATTRIBUTES_MAX 128u

struct otlp_attributes {
	Otlp__KeyValue *list[OTLP_ATTRIBUTES_MAX];
	Otlp__KeyValue items[OTLP_ATTRIBUTES_MAX];
	Otlp__AnyValue values[OTLP_ATTRIBUTES_MAX];
	size_t count;
	uint32_t dropped; /* there were more */
	char *copies[2 * OTLP_ATTRIBUTES_MAX];
	size_t copied;
};

/* It is empty again; copies are freed. */
void otlp_attributes_clear(struct otlp_attributes *attributes);

void otlp_add_text(struct otlp_attributes *attributes, const char *key, struct slice text);
void otlp_add_string(struct otlp_attributes *attributes, const char *key, const char *text);
void otlp_add_int(struct otlp_attributes *attributes, const char *key, int64_t number);
/* With a key that is made of one of ours and one of somebody's: "rbprobe.args." and "@total". */
void otlp_add_named(struct otlp_attributes *attributes, const char *before, struct slice name, struct slice text);

void otlp_add_named_int(struct otlp_attributes *attributes, const char *before, const char *name, int64_t number);
/* Takes the text's bytes. */
void otlp_add_owned(struct otlp_attributes *attributes, const char *key, struct buffer *text);

/* Valid UTF-8: the text itself, or a copy that lives as long as the attributes do. */
ProtobufCBinaryData otlp_text(struct otlp_attributes *attributes, struct slice text);
static inline ProtobufCBinaryData otlp_string(const char *text)
{
	return (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
}
static inline ProtobufCBinaryData otlp_bytes(const void *bytes, size_t size)
{
	return (ProtobufCBinaryData){size, (uint8_t *)(uintptr_t)bytes};
}

/* Appends a packed message. */
void otlp_pack(struct buffer *to, const ProtobufCMessage *message);

#endif
