/* Values of DATA records. See value.h. */

#include "value.h"

#include <jansson.h>
#include <string.h>

#define DEPTH_MAX 32 /* libmsgpack unpacks nothing deeper */

const msgpack_object *value_get(const msgpack_object *map, const char *key)
{
	size_t size = strlen(key);

	if (!map || map->type != MSGPACK_OBJECT_MAP)
		return NULL;
	for (uint32_t i = 0; i < map->via.map.size; i++) {
		const msgpack_object_kv *pair = &map->via.map.ptr[i];

		if (pair->key.type == MSGPACK_OBJECT_STR && pair->key.via.str.size == size &&
		    memcmp(pair->key.via.str.ptr, key, size) == 0)
			return &pair->val;
	}
	return NULL;
}

uint32_t value_count(const msgpack_object *array)
{
	return array && array->type == MSGPACK_OBJECT_ARRAY ? array->via.array.size : 0;
}

const msgpack_object *value_at(const msgpack_object *array, uint32_t index)
{
	return index < value_count(array) ? &array->via.array.ptr[index] : NULL;
}

struct slice value_text(const msgpack_object *value)
{
	if (value && value->type == MSGPACK_OBJECT_STR && value->via.str.ptr)
		return (struct slice){value->via.str.ptr, value->via.str.size};
	if (value && value->type == MSGPACK_OBJECT_BIN && value->via.bin.ptr)
		return (struct slice){value->via.bin.ptr, value->via.bin.size};
	return (struct slice){"", 0};
}

uint64_t value_uint(const msgpack_object *value)
{
	return value && value->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? value->via.u64 : 0;
}

double value_number(const msgpack_object *value)
{
	if (!value)
		return 0.0;
	switch (value->type) {
	case MSGPACK_OBJECT_POSITIVE_INTEGER:
		return (double)value->via.u64;
	case MSGPACK_OBJECT_NEGATIVE_INTEGER:
		return (double)value->via.i64;
	case MSGPACK_OBJECT_FLOAT32:
	case MSGPACK_OBJECT_FLOAT64:
		return value->via.f64;
	default:
		return 0.0;
	}
}

bool value_bool(const msgpack_object *value)
{
	return value && value->type == MSGPACK_OBJECT_BOOLEAN && value->via.boolean;
}

static json_t *text_to_json(struct slice text)
{
	struct buffer clean = {0};
	json_t *json;

	buffer_add_utf8(&clean, text.bytes, text.size);
	json = json_stringn_nocheck(clean.bytes ? clean.bytes : "", clean.size);
	buffer_free(&clean);
	return json;
}

static json_t *to_json(const msgpack_object *value, int depth);

static json_t *map_to_json(const msgpack_object_map *map, int depth)
{
	json_t *json = json_object();

	for (uint32_t i = 0; i < map->size; i++) {
		struct slice key = value_text(&map->ptr[i].key);
		struct buffer clean = {0};

		buffer_add_utf8(&clean, key.bytes, key.size);
		buffer_add_char(&clean, '\0');
		json_object_set_new_nocheck(json, clean.bytes, to_json(&map->ptr[i].val, depth));
		buffer_free(&clean);
	}
	return json;
}

static json_t *to_json(const msgpack_object *value, int depth)
{
	json_t *json;

	if (depth > DEPTH_MAX)
		return json_null();
	switch (value->type) {
	case MSGPACK_OBJECT_BOOLEAN:
		return json_boolean(value->via.boolean);
	case MSGPACK_OBJECT_POSITIVE_INTEGER:
		return json_integer((json_int_t)value->via.u64);
	case MSGPACK_OBJECT_NEGATIVE_INTEGER:
		return json_integer((json_int_t)value->via.i64);
	case MSGPACK_OBJECT_FLOAT32:
	case MSGPACK_OBJECT_FLOAT64:
		json = json_real(value->via.f64);
		return json ? json : json_null(); /* no number in JSON: infinite, NaN */
	case MSGPACK_OBJECT_STR:
	case MSGPACK_OBJECT_BIN:
		return text_to_json(value_text(value));
	case MSGPACK_OBJECT_ARRAY:
		json = json_array();
		for (uint32_t i = 0; i < value->via.array.size; i++)
			json_array_append_new(json, to_json(&value->via.array.ptr[i], depth + 1));
		return json;
	case MSGPACK_OBJECT_MAP:
		return map_to_json(&value->via.map, depth + 1);
	default:
		return json_null();
	}
}

static int add_to_buffer(const char *bytes, size_t size, void *buffer)
{
	buffer_add_made_json(buffer, bytes, size);
	return 0;
}

void value_add_json(struct buffer *buffer, const msgpack_object *value)
{
	json_t *json = value ? to_json(value, 0) : json_null();

	json_dump_callback(json, add_to_buffer, buffer, JSON_COMPACT | JSON_ENCODE_ANY);
	json_decref(json);
}
