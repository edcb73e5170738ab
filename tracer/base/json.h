#ifndef RBPROBE_JSON_H
#define RBPROBE_JSON_H

#include "tracer/base/buffer.h"

#include "proto/slice.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/*
 * The one way to write JSON: into a buffer, compact, piece by piece. It is fast enough for a million calls a second.
 *
 *     json_open_object(to);
 *     json_member_uint(to, "pid", pid);
 *     json_open_array(json_key(to, "frames"));
 *     json_add_text(to, label);
 *     json_close_array(to);
 *     json_close_object(to);
 *
 * There is no state beside the buffer: every function adds a comma where the buffer's last byte is the end of a value. So
 * pieces can be prepared in buffers of their own and joined with json_add_members(). A line of JSON ends in a newline;
 * whatever else is in the buffer before JSON must end in one, too. Reading JSON is jansson's and simdjson's work.
 */

/* Whether a comma must stand before another value or key. */
static inline bool json_is_after_value(const struct buffer *to)
{
	char last = to->size ? to->bytes[to->size - 1] : '\n';

	return last != '{' && last != '[' && last != ':' && last != '\n';
}

static inline void json_separate(struct buffer *to)
{
	if (json_is_after_value(to))
		buffer_add_char(to, ',');
}

static inline void json_open_object(struct buffer *to)
{
	json_separate(to);
	buffer_add_char(to, '{');
}

static inline void json_close_object(struct buffer *to)
{
	buffer_add_char(to, '}');
}

static inline void json_open_array(struct buffer *to)
{
	json_separate(to);
	buffer_add_char(to, '[');
}

static inline void json_close_array(struct buffer *to)
{
	buffer_add_char(to, ']');
}

/* The end of an object that is a line. */
static inline void json_close_line(struct buffer *to)
{
	buffer_add(to, "}\n", 2);
}

static inline char *json_copy_key(char *at, const char *key, size_t size)
{
	*at++ = '"';
	memcpy(at, key, size);
	at += size;
	*at++ = '"';
	*at++ = ':';
	return at;
}

/* A key of ours, which needs no escapes; its value is added next. Returns the buffer. */
static inline struct buffer *json_key(struct buffer *to, const char *key)
{
	size_t size = strlen(key);
	char *at = buffer_reserve(to, size + 4);

	if (json_is_after_value(to))
		*at++ = ',';
	to->size = (size_t)(json_copy_key(at, key, size) - to->bytes);
	return to;
}

/* A key that somebody else has chosen. */
struct buffer *json_key_text(struct buffer *to, struct slice key);

/* Text in quotes, as json_add_text() adds it, but without a comma: right after a key. */
void json_quote(struct buffer *to, struct slice text);

/*
 * Text of anybody's: what is no valid UTF-8 becomes U+FFFD. What a terminal must not be shown is escaped, which is the
 * same to a program.
 */
static inline void json_add_text(struct buffer *to, struct slice text)
{
	json_separate(to);
	json_quote(to, text);
}

static inline void json_add_string(struct buffer *to, const char *string)
{
	json_add_text(to, (struct slice){string, strlen(string)});
}

/* With 17 digits, and a fraction or an exponent. JSON has no number for infinity and NaN: these are null. */
void json_add_real(struct buffer *to, double number);
void json_add_int(struct buffer *to, int64_t number);

static inline void json_add_uint(struct buffer *to, uint64_t number)
{
	json_separate(to);
	buffer_add_uint(to, number);
}

static inline void json_add_bool(struct buffer *to, bool is)
{
	json_separate(to);
	buffer_add_text(to, is ? "true" : "false");
}

static inline void json_add_null(struct buffer *to)
{
	json_separate(to);
	buffer_add_text(to, "null");
}

/* Members that were written into a buffer of their own: "a":1,"b":2 */
static inline void json_add_members(struct buffer *to, const struct buffer *members)
{
	if (!members->size)
		return;
	json_separate(to);
	buffer_add(to, members->bytes, members->size);
}

/*
 * JSON as the text of a script element of HTML, of which nothing in it ends that. `<` is only within texts there, where an escape
 * is the same. Other characters mean nothing in such an element, and control characters are escapes already.
 */
void json_add_within_script(struct buffer *to, const struct buffer *json);

/* --- A key and its value */

static inline void json_member_text(struct buffer *to, const char *key, struct slice text)
{
	json_quote(json_key(to, key), text);
}

static inline void json_member_string(struct buffer *to, const char *key, const char *string)
{
	json_quote(json_key(to, key), (struct slice){string, strlen(string)});
}

static inline void json_member_uint(struct buffer *to, const char *key, uint64_t number)
{
	buffer_add_uint(json_key(to, key), number);
}

static inline void json_member_int(struct buffer *to, const char *key, int64_t number)
{
	json_add_int(json_key(to, key), number);
}

static inline void json_member_bool(struct buffer *to, const char *key, bool is)
{
	json_add_bool(json_key(to, key), is);
}

/* A duration, as a number of seconds with six decimals. */
static inline void json_member_seconds(struct buffer *to, const char *key, uint64_t ns)
{
	buffer_add_seconds(json_key(to, key), ns);
}

#endif
