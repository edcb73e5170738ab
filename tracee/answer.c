/* Maps and arrays of unknown size. See answer.h. */

#include "answer.h"

#include <string.h>

#define DEPTH_MAX (sizeof(((struct answer *)0)->open) / sizeof(((struct answer *)0)->open[0]))

/* First bytes of msgpack's map and array with a size of four bytes, big-endian. */
#define MAP_32 '\xdf'
#define ARRAY_32 '\xdd'

void answer_init(struct answer *answer)
{
	memset(answer, 0, sizeof(*answer));
	msgpack_sbuffer_init(&answer->buffer);
}

void answer_free(struct answer *answer)
{
	msgpack_sbuffer_destroy(&answer->buffer);
}

void answer_clear(struct answer *answer)
{
	answer->depth = 0;
	answer->failed = false;
	msgpack_sbuffer_clear(&answer->buffer);
}

static int put(void *data, const char *bytes, size_t size)
{
	struct answer *answer = data;

	if (msgpack_sbuffer_write(&answer->buffer, bytes, size) != 0)
		answer->failed = true;
	return 0;
}

static msgpack_packer packer_of(struct answer *answer)
{
	msgpack_packer packer;

	msgpack_packer_init(&packer, answer, put);
	return packer;
}

static void put_text(struct answer *answer, const char *bytes, size_t size)
{
	msgpack_packer packer = packer_of(answer);

	msgpack_pack_str(&packer, size);
	msgpack_pack_str_body(&packer, bytes, size);
}

/* What comes now is one element more of what is open. */
static void element(struct answer *answer, const char *key)
{
	if (answer->depth > 0)
		answer->open[answer->depth - 1].count++;
	if (key)
		put_text(answer, key, strlen(key));
}

static void begin(struct answer *answer, const char *key, char first)
{
	const char header[5] = {first};

	element(answer, key);
	if (answer->depth == DEPTH_MAX) {
		answer->failed = true;
		return;
	}
	answer->open[answer->depth].header = answer->buffer.size + 1;
	answer->open[answer->depth].count = 0;
	answer->depth++;
	put(answer, header, sizeof(header));
}

void answer_map(struct answer *answer, const char *key)
{
	begin(answer, key, MAP_32);
}

void answer_array(struct answer *answer, const char *key)
{
	begin(answer, key, ARRAY_32);
}

void answer_end(struct answer *answer)
{
	uint32_t count = answer->open[--answer->depth].count;
	char *to = answer->buffer.data + answer->open[answer->depth].header;

	if (answer->failed)
		return;
	for (int i = 0; i < 4; i++)
		to[i] = (char)(count >> (8 * (3 - i)));
}

void answer_text(struct answer *answer, const char *key, const char *bytes, size_t size)
{
	element(answer, key);
	put_text(answer, bytes, size);
}

void answer_cstr(struct answer *answer, const char *key, const char *string)
{
	answer_text(answer, key, string, strlen(string));
}

void answer_uint(struct answer *answer, const char *key, uint64_t number)
{
	msgpack_packer packer = packer_of(answer);

	element(answer, key);
	msgpack_pack_uint64(&packer, number);
}

void answer_int(struct answer *answer, const char *key, int64_t number)
{
	msgpack_packer packer = packer_of(answer);

	element(answer, key);
	msgpack_pack_int64(&packer, number);
}

void answer_bool(struct answer *answer, const char *key, bool value)
{
	msgpack_packer packer = packer_of(answer);

	element(answer, key);
	(value ? msgpack_pack_true : msgpack_pack_false)(&packer);
}
