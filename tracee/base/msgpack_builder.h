#ifndef RBPROBE_MSGPACK_BUILDER_H
#define RBPROBE_MSGPACK_BUILDER_H

#include <msgpack.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The value of a DATA record: a map of maps and arrays whose number of elements is known only at their end. What is opened last
 * is ended first. request_answer() sends it. Any context that may allocate.
 */
struct msgpack_builder {
	msgpack_sbuffer buffer;
	struct {
		bool is_map;
		size_t header; /* offset of what builder_end() replaces by the header */
		size_t count;
	} open[8];
	unsigned depth;
	bool failed; /* there was no memory, or it is nested too deep: what is in it is no answer */
};

void builder_init(struct msgpack_builder *answer);
void builder_free(struct msgpack_builder *answer);
/* Forgets what is in it, and keeps the memory. */
void builder_clear(struct msgpack_builder *answer);

/*
 * In a map, key is what stands in front of the value; in an array it is NULL. The outermost one has none either. A key that is no
 * C string is put by builder_key(), and the value behind it has none.
 */
void builder_key(struct msgpack_builder *answer, const char *bytes, size_t size);
void builder_map(struct msgpack_builder *answer, const char *key);
void builder_array(struct msgpack_builder *answer, const char *key);
void builder_end(struct msgpack_builder *answer);

void builder_text(struct msgpack_builder *answer, const char *key, const char *bytes, size_t size);
void builder_cstr(struct msgpack_builder *answer, const char *key, const char *string);
void builder_uint(struct msgpack_builder *answer, const char *key, uint64_t number);
void builder_int(struct msgpack_builder *answer, const char *key, int64_t number);
void builder_double(struct msgpack_builder *answer, const char *key, double number);
void builder_bool(struct msgpack_builder *answer, const char *key, bool value);
void builder_nil(struct msgpack_builder *answer, const char *key);

#endif
