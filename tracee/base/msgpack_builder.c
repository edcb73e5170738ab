/* Maps and arrays of unknown size. See msgpack_builder.h. */

#include "tracee/base/msgpack_builder.h"

#include "proto/fields.h"

#include <string.h>

#define DEPTH_MAX (sizeof(((struct msgpack_builder *)0)->open) / sizeof(((struct msgpack_builder *)0)->open[0]))

#define HEADER_SIZE_MAX 5u /* of a map or an array in msgpack */

void builder_init(struct msgpack_builder *answer)
{
	memset(answer, 0, sizeof(*answer));
	msgpack_sbuffer_init(&answer->buffer);
}

void builder_free(struct msgpack_builder *answer)
{
	msgpack_sbuffer_destroy(&answer->buffer);
}

void builder_clear(struct msgpack_builder *answer)
{
	answer->depth = 0;
	answer->failed = false;
	msgpack_sbuffer_clear(&answer->buffer);
}

static int put(void *data, const char *bytes, size_t size)
{
	struct msgpack_builder *answer = data;

	if (msgpack_sbuffer_write(&answer->buffer, bytes, size) != 0)
		answer->failed = true;
	return 0;
}

static msgpack_packer packer_of(struct msgpack_builder *answer)
{
	msgpack_packer packer;

	msgpack_packer_init(&packer, answer, put);
	return packer;
}

void builder_key(struct msgpack_builder *answer, const char *bytes, size_t size)
{
	msgpack_packer packer = packer_of(answer);

	pack_text(&packer, bytes, size);
}

/* What comes now is one element more of what is open. */
static void element(struct msgpack_builder *answer, const char *key)
{
	if (answer->depth > 0)
		answer->open[answer->depth - 1].count++;
	if (key)
		builder_key(answer, key, strlen(key));
}

static void container_begin(struct msgpack_builder *answer, const char *key, bool is_map)
{
	static const char room[HEADER_SIZE_MAX];

	element(answer, key);
	if (answer->depth == DEPTH_MAX)
		answer->failed = true;
	if (answer->failed)
		return;
	answer->open[answer->depth].is_map = is_map;
	answer->open[answer->depth].header = answer->buffer.size;
	answer->open[answer->depth].count = 0;
	answer->depth++;
	put(answer, room, sizeof(room));
}

void builder_map(struct msgpack_builder *answer, const char *key)
{
	container_begin(answer, key, true);
}

void builder_array(struct msgpack_builder *answer, const char *key)
{
	container_begin(answer, key, false);
}

/* The header comes in one piece. What stands behind the room for it moves up to it. */
static int put_header(void *data, const char *bytes, size_t size)
{
	struct msgpack_builder *answer = data;
	size_t elements = answer->open[answer->depth].header + HEADER_SIZE_MAX;
	char *header = answer->buffer.data + answer->open[answer->depth].header;

	memcpy(header, bytes, size);
	memmove(header + size, answer->buffer.data + elements, answer->buffer.size - elements);
	answer->buffer.size -= HEADER_SIZE_MAX - size;
	return 0;
}

void builder_end(struct msgpack_builder *answer)
{
	msgpack_packer packer;

	/* Then not everything that was begun is open. */
	if (answer->failed)
		return;
	answer->depth--;
	msgpack_packer_init(&packer, answer, put_header);
	(answer->open[answer->depth].is_map ? msgpack_pack_map : msgpack_pack_array)(&packer, answer->open[answer->depth].count);
}

void builder_text(struct msgpack_builder *answer, const char *key, const char *bytes, size_t size)
{
	msgpack_packer packer = packer_of(answer);

	element(answer, key);
	pack_text(&packer, bytes, size);
}

void builder_cstr(struct msgpack_builder *answer, const char *key, const char *string)
{
	builder_text(answer, key, string, strlen(string));
}

void builder_uint(struct msgpack_builder *answer, const char *key, uint64_t number)
{
	msgpack_packer packer = packer_of(answer);

	element(answer, key);
	msgpack_pack_uint64(&packer, number);
}

void builder_int(struct msgpack_builder *answer, const char *key, int64_t number)
{
	msgpack_packer packer = packer_of(answer);

	element(answer, key);
	msgpack_pack_int64(&packer, number);
}

void builder_double(struct msgpack_builder *answer, const char *key, double number)
{
	msgpack_packer packer = packer_of(answer);

	element(answer, key);
	msgpack_pack_double(&packer, number);
}

void builder_bool(struct msgpack_builder *answer, const char *key, bool value)
{
	msgpack_packer packer = packer_of(answer);

	element(answer, key);
	(value ? msgpack_pack_true : msgpack_pack_false)(&packer);
}

void builder_nil(struct msgpack_builder *answer, const char *key)
{
	msgpack_packer packer = packer_of(answer);

	element(answer, key);
	msgpack_pack_nil(&packer);
}
