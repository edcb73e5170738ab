/* Attributes of OTLP. See otlp_attributes.h. */

#ifdef HAVE_LIBPROTOBUF_C

#include "tracer/otlp/otlp_attributes.h"

#include "tracer/base/utf8.h"

#include <stdlib.h>

void otlp_attributes_clear(struct otlp_attributes *attributes)
{
	for (size_t i = 0; i < attributes->copied; i++)
		free(attributes->copies[i]);
	attributes->count = attributes->copied = attributes->dropped = 0;
}

/* How far the text is as it must be. */
static size_t valid_size(struct slice text)
{
	uint32_t code;
	size_t i = 0, size;

	while (i < text.size) {
		size = utf8_sequence(text.bytes + i, text.size - i, &code);
		if (!size)
			break;
		i += size;
	}
	return i;
}

ProtobufCBinaryData otlp_text(struct otlp_attributes *attributes, struct slice text)
{
	size_t valid = valid_size(text);
	struct buffer copy = {0};

	if (valid == text.size)
		return otlp_bytes(text.size ? text.bytes : "", text.size);
	if (attributes->copied == 2 * OTLP_ATTRIBUTES_MAX)
		return otlp_bytes(text.bytes, valid);
	while (text.size) {
		valid = valid_size(text);
		buffer_add(&copy, text.bytes, valid);
		if (valid < text.size) {
			buffer_add_text(&copy, "\xef\xbf\xbd");
			valid++;
		}
		text = (struct slice){text.bytes + valid, text.size - valid};
	}
	attributes->copies[attributes->copied++] = copy.bytes;
	return otlp_bytes(copy.bytes, copy.size);
}

static Otlp__AnyValue *add(struct otlp_attributes *attributes, ProtobufCBinaryData key)
{
	size_t i = attributes->count;

	if (i == OTLP_ATTRIBUTES_MAX) {
		attributes->dropped++;
		return NULL;
	}
	attributes->count++;
	attributes->items[i] = (Otlp__KeyValue)OTLP__KEY_VALUE__INIT;
	otlp__any_value__init(&attributes->values[i]);
	attributes->items[i].key = key;
	attributes->items[i].value = &attributes->values[i];
	attributes->list[i] = &attributes->items[i];
	return &attributes->values[i];
}

static void set_text(struct otlp_attributes *attributes, Otlp__AnyValue *value, struct slice text)
{
	if (!value)
		return;
	value->value_case = OTLP__ANY_VALUE__VALUE_STRING_VALUE;
	value->string_value = otlp_text(attributes, text);
}

void otlp_add_text(struct otlp_attributes *attributes, const char *key, struct slice text)
{
	set_text(attributes, add(attributes, otlp_string(key)), text);
}

void otlp_add_string(struct otlp_attributes *attributes, const char *key, const char *text)
{
	otlp_add_text(attributes, key, (struct slice){text, strlen(text)});
}

void otlp_add_int(struct otlp_attributes *attributes, const char *key, int64_t number)
{
	Otlp__AnyValue *value = add(attributes, otlp_string(key));

	if (!value)
		return;
	value->value_case = OTLP__ANY_VALUE__VALUE_INT_VALUE;
	value->int_value = number;
}

void otlp_add_named(struct otlp_attributes *attributes, const char *before, struct slice name, struct slice text)
{
	struct buffer key = {0};
	ProtobufCBinaryData valid = otlp_text(attributes, name);

	if (attributes->copied == 2 * OTLP_ATTRIBUTES_MAX || attributes->count == OTLP_ATTRIBUTES_MAX) {
		attributes->dropped++;
		return;
	}
	buffer_add_text(&key, before);
	buffer_add(&key, (const char *)valid.data, valid.len);
	attributes->copies[attributes->copied++] = key.bytes;
	set_text(attributes, add(attributes, otlp_bytes(key.bytes, key.size)), text);
}

void otlp_add_named_int(struct otlp_attributes *attributes, const char *before, const char *name, int64_t number)
{
	struct buffer key = {0};

	if (attributes->copied == 2 * OTLP_ATTRIBUTES_MAX || attributes->count == OTLP_ATTRIBUTES_MAX) {
		attributes->dropped++;
		return;
	}
	buffer_add_format(&key, "%s%s", before, name);
	attributes->copies[attributes->copied++] = key.bytes;
	otlp_add_int(attributes, "", number);
	attributes->items[attributes->count - 1].key = otlp_bytes(key.bytes, key.size);
}

void otlp_add_owned(struct otlp_attributes *attributes, const char *key, struct buffer *text)
{
	if (attributes->copied == 2 * OTLP_ATTRIBUTES_MAX) {
		attributes->dropped++;
		buffer_free(text);
		return;
	}
	attributes->copies[attributes->copied++] = text->bytes;
	otlp_add_text(attributes, key, (struct slice){text->bytes, text->size});
}

void otlp_pack(struct buffer *to, const ProtobufCMessage *message)
{
	size_t size = protobuf_c_message_get_packed_size(message);

	to->size += protobuf_c_message_pack(message, (uint8_t *)buffer_reserve(to, size));
}

#endif
