/* Reading messages field by field, with limits. See fields.h. */

#include "proto/fields.h"

#include <errno.h>
#include <string.h>

bool fields_open(struct fields *fields, const char *what, const msgpack_object *object, struct error *err)
{
	memset(fields, 0, sizeof(*fields));
	fields->what = what;
	fields->err = err;
	if (object->type != MSGPACK_OBJECT_ARRAY) {
		fields->status = error_set(err, -EPROTO, "malformed %s: not an array", what);
		return false;
	}
	fields->next = object->via.array.ptr;
	fields->left = object->via.array.size;
	return true;
}

int fields_status(const struct fields *fields)
{
	return fields->status;
}

void fields_refuse(struct fields *fields, const char *why)
{
	if (fields->status == 0)
		fields->status = error_set(fields->err, -EPROTO, "malformed %s: field %zu %s", fields->what, fields->index, why);
}

static const msgpack_object *fields_next(struct fields *fields)
{
	fields->index++;
	if (fields->status != 0)
		return NULL;
	if (fields->left == 0) {
		fields_refuse(fields, "is missing");
		return NULL;
	}
	fields->left--;
	return fields->next++;
}

uint64_t fields_uint(struct fields *fields, uint64_t max)
{
	const msgpack_object *object = fields_next(fields);

	if (!object)
		return 0;
	if (object->type != MSGPACK_OBJECT_POSITIVE_INTEGER) {
		fields_refuse(fields, "is not an unsigned integer");
		return 0;
	}
	if (object->via.u64 > max) {
		fields_refuse(fields, "is too large");
		return 0;
	}
	return object->via.u64;
}

static struct slice text_of(struct fields *fields, const msgpack_object *object, size_t max)
{
	struct slice text = {"", 0};

	if (object->type == MSGPACK_OBJECT_STR) {
		text.bytes = object->via.str.ptr;
		text.size = object->via.str.size;
	} else if (object->type == MSGPACK_OBJECT_BIN) {
		text.bytes = object->via.bin.ptr;
		text.size = object->via.bin.size;
	} else {
		fields_refuse(fields, "is not text");
	}
	if (text.size > max) {
		fields_refuse(fields, "is too long");
		text.size = 0;
	}
	if (!text.bytes)
		text.bytes = "";
	return text;
}

struct slice fields_text(struct fields *fields, size_t max)
{
	const msgpack_object *object = fields_next(fields);

	return object ? text_of(fields, object, max) : (struct slice){"", 0};
}

struct slice fields_text_or_nil(struct fields *fields, size_t max)
{
	const msgpack_object *object = fields_next(fields);

	if (!object || object->type == MSGPACK_OBJECT_NIL)
		return (struct slice){NULL, 0};
	return text_of(fields, object, max);
}

const msgpack_object *fields_array(struct fields *fields, size_t max, size_t *count)
{
	const msgpack_object *object = fields_next(fields);

	*count = 0;
	if (!object)
		return NULL;
	if (object->type != MSGPACK_OBJECT_ARRAY) {
		fields_refuse(fields, "is not an array");
		return NULL;
	}
	if (object->via.array.size > max) {
		fields_refuse(fields, "has too many elements");
		return NULL;
	}
	*count = object->via.array.size;
	return object->via.array.ptr;
}

const msgpack_object *fields_value(struct fields *fields)
{
	return fields_next(fields);
}

void pack_text(msgpack_packer *packer, const char *bytes, size_t size)
{
	msgpack_pack_str(packer, size);
	if (size)
		msgpack_pack_str_body(packer, bytes, size);
}

void pack_text_or_nil(msgpack_packer *packer, const char *bytes, size_t size)
{
	if (bytes)
		pack_text(packer, bytes, size);
	else
		msgpack_pack_nil(packer);
}
