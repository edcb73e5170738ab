/* Values of DATA records. See value.h. */

#include "tracer/base/value.h"

#include "tracer/base/json.h"

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

/* Older extensions send the two's complement of a negative one. */
int32_t value_line(const msgpack_object *value)
{
	if (value && value->type == MSGPACK_OBJECT_NEGATIVE_INTEGER)
		return (int32_t)value->via.i64;
	return (int32_t)value_uint(value);
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

static void add_value(struct buffer *to, const msgpack_object *value, int depth);

static void add_members(struct buffer *to, const msgpack_object *map, int depth)
{
	for (uint32_t i = 0; map->type == MSGPACK_OBJECT_MAP && i < map->via.map.size; i++) {
		const msgpack_object_kv *pair = &map->via.map.ptr[i];

		add_value(json_key_text(to, value_text(&pair->key)), &pair->val, depth);
	}
}

static void add_value(struct buffer *to, const msgpack_object *value, int depth)
{
	if (depth > DEPTH_MAX) {
		json_add_null(to);
		return;
	}
	switch (value->type) {
	case MSGPACK_OBJECT_BOOLEAN:
		json_add_bool(to, value->via.boolean);
		return;
	case MSGPACK_OBJECT_POSITIVE_INTEGER:
		json_add_uint(to, value->via.u64);
		return;
	case MSGPACK_OBJECT_NEGATIVE_INTEGER:
		json_add_int(to, value->via.i64);
		return;
	case MSGPACK_OBJECT_FLOAT32:
	case MSGPACK_OBJECT_FLOAT64:
		json_add_real(to, value->via.f64);
		return;
	case MSGPACK_OBJECT_STR:
	case MSGPACK_OBJECT_BIN:
		json_add_text(to, value_text(value));
		return;
	case MSGPACK_OBJECT_ARRAY:
		json_open_array(to);
		for (uint32_t i = 0; i < value->via.array.size; i++)
			add_value(to, &value->via.array.ptr[i], depth + 1);
		json_close_array(to);
		return;
	case MSGPACK_OBJECT_MAP:
		json_open_object(to);
		add_members(to, value, depth + 1);
		json_close_object(to);
		return;
	default:
		json_add_null(to);
	}
}

void value_add_json(struct buffer *to, const msgpack_object *value)
{
	if (value)
		add_value(to, value, 0);
	else
		json_add_null(to);
}

void value_add_members(struct buffer *to, const msgpack_object *map)
{
	if (map)
		add_members(to, map, 1);
}
