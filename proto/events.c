/*
 * The EVENTS record. See events.h. Any context. Both event_next() and batch_add() are on the path that decides how many calls a
 * second can be followed: an event in the same method and fiber as the one before takes two or three numbers, mostly five bytes.
 */

#include "proto/events.h"

#include "proto/limits.h"
#include "proto/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The bits of an event's first number; the kind is in the lowest two. */
enum {
	CODE_KIND = 3,
	CODE_VALUES = 1 << 2,
	CODE_OUTCOME = 1 << 3,
	CODE_SAME = 1 << 4, /* method and fiber are those of the event before, and left out */
	CODE_ENDING_SHIFT = 5,
	CODE_MAX = (ENDING_COUNT << CODE_ENDING_SHIFT) - 1,
};

/* In place of a value: msgpack's nil. */
#define LEFT_OUT 0xc0

/* The batch's header is written when its events are known: these bytes are kept free for it. */
#define BATCH_HEADER_SIZE (RECORD_PREFIX_SIZE + 1 + 1 + 5 + 9 + 5)

/* An event's numbers, each in its longest form. */
#define EVENT_SIZE_MAX (2 + 5 + 5 + 9 + 9)

static int malformed(struct error *err, const char *what)
{
	return error_set(err, -EPROTO, "malformed batch: %s", what);
}

int events_decode(struct record_events *events, const struct cursor *cursor, uint32_t fields, struct error *err)
{
	uint64_t count;

	*events = (struct record_events){.cursor = *cursor};
	if (fields < 3 || !cursor_uint(&events->cursor, &count) || !cursor_uint(&events->cursor, &events->time_ns) ||
	    !cursor_array(&events->cursor, &events->elements_left))
		return malformed(err, "a field is missing or of another type");
	if (count > BATCH_EVENTS_MAX || events->elements_left > BATCH_ELEMENTS_MAX)
		return malformed(err, "it has too many events");
	events->count = (uint32_t)count;
	events->fields_left = fields - 3;
	return 0;
}

/* Behind the last event: nothing but fields of a later version. */
static int events_end(struct record_events *events, struct error *err)
{
	struct slice text;

	for (; events->fields_left; events->fields_left--)
		if (!cursor_any(&events->cursor, &text))
			return malformed(err, "it is not one msgpack value");
	return events->cursor.at == events->cursor.end ? 0 : malformed(err, "it is not one msgpack value");
}

static bool values_decode(struct cursor *cursor, struct values *values)
{
	struct slice text;

	if (!cursor_array(cursor, &values->count) || values->count > VALUES_MAX)
		return false;
	values->bytes = cursor->at;
	for (uint32_t i = 0; i < values->count; i++)
		if (!cursor_any(cursor, &text))
			return false;
	values->end = cursor->at;
	return true;
}

int event_next(struct record_events *events, struct event *event, struct error *err)
{
	struct cursor cursor = events->cursor;
	uint32_t elements = 2;
	uint64_t code, method, fiber, delta;

	if (events->elements_left == 0)
		return events_end(events, err);
	if (!cursor_uint(&cursor, &code))
		return malformed(err, "an event's field is not an integer");
	if (code > CODE_MAX || (code & CODE_KIND) > EVENT_MARK)
		return malformed(err, "an event's field is too large");
	if (!(code & CODE_SAME)) {
		if (!cursor_uint(&cursor, &method) || !cursor_uint(&cursor, &fiber))
			return malformed(err, "an event's field is not an integer");
		if (method > UINT32_MAX || fiber > UINT32_MAX)
			return malformed(err, "an event's field is too large");
		elements += 2;
		events->method = (uint32_t)method;
		events->fiber = (uint32_t)fiber;
		events->begun = true;
	} else if (!events->begun) {
		return malformed(err, "its first event refers to one before");
	}
	if (!cursor_int(&cursor, &delta))
		return malformed(err, "an event's field is not an integer");
	event->kind = (enum event_kind)(code & CODE_KIND);
	event->ending = (enum ending)(code >> CODE_ENDING_SHIFT);
	event->method = events->method;
	event->fiber = events->fiber;
	event->time_ns = events->time_ns += delta;
	event->values.count = event->outcome.count = 0;
	event->duration_ns = 0;
	if (event->kind == EVENT_CALL) {
		if (!cursor_uint(&cursor, &event->duration_ns))
			return malformed(err, "an event's field is not an integer");
		events->time_ns += event->duration_ns;
		elements++;
	}
	if (code & (CODE_VALUES | CODE_OUTCOME)) {
		if (((code & CODE_VALUES) && !values_decode(&cursor, &event->values)) ||
		    ((code & CODE_OUTCOME) && !values_decode(&cursor, &event->outcome)))
			return malformed(err, "an event's values are missing or too many");
		elements += !!(code & CODE_VALUES) + !!(code & CODE_OUTCOME);
	}
	if (elements > events->elements_left)
		return malformed(err, "it ends within an event");
	events->elements_left -= elements;
	events->cursor = cursor;
	return 1;
}

bool values_next(struct values *values, struct slice *text)
{
	struct cursor cursor = {values->bytes, values->end};

	if (values->count == 0 || !cursor_any(&cursor, text))
		return false;
	if (*values->bytes == LEFT_OUT)
		*text = (struct slice){NULL, 0};
	values->count--;
	values->bytes = cursor.at;
	return true;
}

/* msgpack's unsigned numbers and nil. */
static bool is_number(uint8_t first)
{
	return first < 0x80 || first == LEFT_OUT || (first >= 0xcc && first <= 0xcf);
}

uint32_t values_take_numbers(struct values *values, uint64_t *numbers, uint32_t max)
{
	struct cursor cursor = {values->bytes, values->end};
	uint32_t texts = 0, count;
	const uint8_t *end;
	struct slice text;

	while (texts < values->count && !is_number(*cursor.at) && cursor_any(&cursor, &text))
		texts++;
	count = values->count - texts;
	end = cursor.at;
	if (count > max)
		return 0;
	for (uint32_t i = 0; i < count; i++) {
		numbers[i] = EVENT_NOT_KNOWN;
		if (*cursor.at == LEFT_OUT)
			cursor.at++;
		else if (!cursor_uint(&cursor, &numbers[i]))
			return 0;
	}
	values->count = texts;
	values->end = end;
	return count;
}

bool values_take_last_number(struct values *values, uint64_t *number)
{
	struct cursor cursor = {values->bytes, values->end};
	struct slice text;
	const uint8_t *end;

	if (values->count == 0)
		return false;
	for (uint32_t i = 1; i < values->count; i++)
		if (!cursor_any(&cursor, &text))
			return false;
	end = cursor.at;
	*number = EVENT_NOT_KNOWN;
	if (*cursor.at != LEFT_OUT && !(is_number(*cursor.at) && cursor_uint(&cursor, number)))
		return false;
	values->count--;
	values->end = end;
	return true;
}

static bool is_array(uint8_t first)
{
	return (first & 0xf0) == 0x90 || first == 0xdc || first == 0xdd;
}

bool values_take_array(struct values *values, struct values *inner)
{
	struct cursor cursor = {values->bytes, values->end};
	const uint8_t *end = values->end;
	struct slice text;

	*inner = (struct values){.count = 0};
	for (uint32_t texts = 0; texts < values->count; texts++) {
		if (is_array(*cursor.at)) {
			values->count = texts;
			values->end = cursor.at;
			if (!cursor_array(&cursor, &inner->count) || inner->count > VALUES_MAX)
				inner->count = 0;
			inner->bytes = cursor.at;
			inner->end = end;
			return inner->count > 0;
		}
		if (!cursor_any(&cursor, &text))
			return false;
	}
	return false;
}

struct slice values_get(struct values values, uint32_t index)
{
	struct slice text = {"", 0};

	for (uint32_t i = 0; i <= index; i++)
		if (!values_next(&values, &text))
			return (struct slice){"", 0};
	return text.bytes ? text : (struct slice){"", 0};
}

void values_header(const struct values *values, char to[VALUES_HEADER_SIZE])
{
	*to = (char)0xdd; /* array 32 */
	for (size_t i = 1; i < VALUES_HEADER_SIZE; i++)
		to[i] = (char)(values->count >> 8 * (VALUES_HEADER_SIZE - 1 - i));
}

/* Makes room at the buffer's end; false without memory. */
static bool reserve(msgpack_sbuffer *buffer, size_t size)
{
	size_t wanted = buffer->alloc ? buffer->alloc : 8192;
	char *data;

	if (buffer->alloc - buffer->size >= size)
		return true;
	while (wanted - buffer->size < size)
		wanted *= 2;
	data = realloc(buffer->data, wanted);
	if (!data)
		return false;
	buffer->data = data;
	buffer->alloc = wanted;
	return true;
}

static char *put_big_endian(char *to, uint64_t number, size_t size)
{
	for (size_t i = 0; i < size; i++)
		to[i] = (char)(number >> (8 * (size - 1 - i)));
	return to + size;
}

static inline char *put_uint(char *to, uint64_t number)
{
	if (number < 0x80) {
		*to = (char)number;
		return to + 1;
	}
	if (number <= UINT16_MAX) {
		*to++ = (char)(number <= UINT8_MAX ? 0xcc : 0xcd);
		return put_big_endian(to, number, number <= UINT8_MAX ? 1 : 2);
	}
	*to++ = (char)(number <= UINT32_MAX ? 0xce : 0xcf);
	return put_big_endian(to, number, number <= UINT32_MAX ? 4 : 8);
}

static inline char *put_int(char *to, int64_t number)
{
	if (number >= 0)
		return put_uint(to, (uint64_t)number);
	*to++ = (char)0xd3; /* int 64; rare */
	return put_big_endian(to, (uint64_t)number, 8);
}

static char *put_bytes(char *to, struct slice bytes)
{
	if (bytes.size)
		memcpy(to, bytes.bytes, bytes.size);
	return to + bytes.size;
}

void batch_begin(struct batch *batch, msgpack_sbuffer *buffer, uint64_t base_ns)
{
	static const char header[BATCH_HEADER_SIZE];

	*batch = (struct batch){.buffer = buffer, .start = buffer->size, .base_ns = base_ns, .time_ns = base_ns};
	msgpack_sbuffer_write(buffer, header, sizeof(header));
}

bool batch_add(struct batch *batch, const struct batch_event *event)
{
	msgpack_sbuffer *buffer = batch->buffer;
	size_t size = EVENT_SIZE_MAX + event->values.size + event->outcome.size;
	bool same = batch->count && event->method == batch->method && event->fiber == batch->fiber;
	unsigned code = (unsigned)event->kind | (unsigned)event->ending << CODE_ENDING_SHIFT | (same ? CODE_SAME : 0) |
	                (event->values.size ? CODE_VALUES : 0) | (event->outcome.size ? CODE_OUTCOME : 0);
	char *to;

	if (batch->count == BATCH_EVENTS_MAX || buffer->size - batch->start + size > FRAME_SIZE_MAX || !reserve(buffer, size))
		return false;
	to = put_uint(buffer->data + buffer->size, code);
	batch->elements += 2;
	if (!same) {
		to = put_uint(to, event->method);
		to = put_uint(to, event->fiber);
		batch->elements += 2;
		batch->method = event->method;
		batch->fiber = event->fiber;
	}
	to = put_int(to, (int64_t)(event->time_ns - batch->time_ns));
	batch->time_ns = event->time_ns;
	if (event->kind == EVENT_CALL) {
		to = put_uint(to, event->duration_ns);
		batch->elements++;
		batch->time_ns += event->duration_ns;
	}
	if (event->values.size | event->outcome.size) {
		to = put_bytes(to, event->values);
		to = put_bytes(to, event->outcome);
		batch->elements += !!event->values.size + !!event->outcome.size;
	}
	buffer->size = (size_t)(to - buffer->data);
	batch->count++;
	return true;
}

/* The header has msgpack's longest forms throughout, so that its size is known before its numbers are. */
void batch_end(struct batch *batch)
{
	size_t size = batch->buffer->size - batch->start - RECORD_PREFIX_SIZE;
	char *header = batch->buffer->data + batch->start;

	for (size_t i = 0; i < RECORD_PREFIX_SIZE; i++)
		*header++ = (char)(size >> (8 * i));
	*header++ = (char)0x94; /* array of 4 */
	*header++ = RECORD_EVENTS;
	*header++ = (char)0xce; /* uint 32 */
	header = put_big_endian(header, batch->count, 4);
	*header++ = (char)0xcf; /* uint 64 */
	header = put_big_endian(header, batch->base_ns, 8);
	*header++ = (char)0xdd; /* array 32 */
	put_big_endian(header, batch->elements, 4);
}
