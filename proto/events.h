#ifndef RBPROBE_EVENTS_H
#define RBPROBE_EVENTS_H

#include "proto/cursor.h"
#include "proto/error.h"
#include "proto/wire.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>

/* The EVENTS record, both ways; PROTOCOL.md describes it. Nothing is allocated per event on either side. */

/* Texts, in the bytes of a record. */
struct values {
	const uint8_t *bytes;
	const uint8_t *end;
	uint32_t count;
};

struct event {
	enum event_kind kind;
	enum ending ending; /* of an end or a whole call */
	uint32_t method;
	uint32_t fiber;
	uint64_t time_ns;      /* of the start, or of the end of what began in an earlier event */
	uint64_t duration_ns;  /* of a whole call */
	struct values values;  /* a start, a whole call or a mark: in the order of the method's labels. An end: as outcome */
	struct values outcome; /* of a whole call: the result, or the exception's class and message */
};

/* A batch; events are read with event_next(). */
struct record_events {
	uint32_t count;   /* of events, as announced */
	uint64_t time_ns; /* up to which the last event that was read went; the batch's base before the first */

	/* private */
	struct cursor cursor;
	uint32_t elements_left;
	uint32_t fields_left; /* of the record, after the events */
	uint32_t method;      /* of the event before */
	uint32_t fiber;
	bool begun;
};

/*
 * What follows the kind in an EVENTS record of so many fields. 0, or -EPROTO and err. The events are looked at when
 * they are read.
 */
int events_decode(struct record_events *events, const struct cursor *cursor, uint32_t fields, struct error *err);

/* The next event of a batch: 1, 0 at its end, -EPROTO and err where it is malformed. */
int event_next(struct record_events *events, struct event *event, struct error *err);

/*
 * The next of the values, taking it from them; false when there is none. One that was left out is {NULL, 0}, what else
 * is not text is {"", 0}.
 */
bool values_next(struct values *values, struct slice *text);
/*
 * Takes the numbers that stand after the texts off the values, at most max; *numbers: EVENT_NOT_KNOWN for a nil. Returns how many
 * there are, 0 where something else stands among them.
 */
uint32_t values_take_numbers(struct values *values, uint64_t *numbers, uint32_t max);
/* The same of the last value alone, before which there may be a nil for a text. Whether it is a number, or nil. */
bool values_take_last_number(struct values *values, uint64_t *number);
#define EVENT_NOT_KNOWN UINT64_MAX
/* Takes the array that stands after the texts off the values, when the numbers are. False, and *inner is empty: there is none. */
bool values_take_array(struct values *values, struct values *inner);

/* The one with that number, {"", 0} where there is none. */
struct slice values_get(struct values values, uint32_t index);

/* The msgpack array that the bytes of these values are the elements of begins with this. */
#define VALUES_HEADER_SIZE 5u
void values_header(const struct values *values, char to[VALUES_HEADER_SIZE]);

/* Building a batch event by event. Between begin and end nothing else may be appended to the buffer. */
struct batch {
	msgpack_sbuffer *buffer;
	size_t start; /* offset of the length prefix */
	uint64_t base_ns;
	uint64_t time_ns; /* up to which the last event went */
	uint32_t count;
	uint32_t elements; /* of the msgpack array that holds the events */
	uint32_t method;   /* of the last event */
	uint32_t fiber;
};

/* As struct event; values and outcome each hold one encoded msgpack array of texts, or nothing. */
struct batch_event {
	enum event_kind kind;
	enum ending ending;
	uint32_t method;
	uint32_t fiber;
	uint64_t time_ns;
	uint64_t duration_ns;
	struct slice values;
	struct slice outcome;
};

void batch_begin(struct batch *batch, msgpack_sbuffer *buffer, uint64_t base_ns);
/* Returns false, with nothing appended, when the batch is full: end it and begin another. */
bool batch_add(struct batch *batch, const struct batch_event *event);
void batch_end(struct batch *batch);

#endif
