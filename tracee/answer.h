#ifndef RBPROBE_ANSWER_H
#define RBPROBE_ANSWER_H

#include <msgpack.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The value of a DATA record: a map of maps and arrays whose number of elements is known only at their end. What is opened last is ended first.
 * request_answer() sends it. Any context that may allocate.
 */
struct answer {
	msgpack_sbuffer buffer;
	struct {
		bool is_map;
		size_t header; /* offset of what answer_end() replaces by the header */
		size_t count;
	} open[8];
	unsigned depth;
	bool failed; /* there was no memory, or it is nested too deep: what is in it is no answer */
};

void answer_init(struct answer *answer);
void answer_free(struct answer *answer);
/* Forgets what is in it, and keeps the memory. */
void answer_clear(struct answer *answer);

/*
 * In a map, key is what stands in front of the value; in an array it is NULL. The outermost one has none either. A key that is no C string is
 * put by answer_key(), and the value behind it has none.
 */
void answer_key(struct answer *answer, const char *bytes, size_t size);
void answer_map(struct answer *answer, const char *key);
void answer_array(struct answer *answer, const char *key);
void answer_end(struct answer *answer);

void answer_text(struct answer *answer, const char *key, const char *bytes, size_t size);
void answer_cstr(struct answer *answer, const char *key, const char *string);
void answer_uint(struct answer *answer, const char *key, uint64_t number);
void answer_int(struct answer *answer, const char *key, int64_t number);
void answer_double(struct answer *answer, const char *key, double number);
void answer_bool(struct answer *answer, const char *key, bool value);
void answer_nil(struct answer *answer, const char *key);

#endif
