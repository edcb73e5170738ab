#ifndef RBPROBE_RECORD_H
#define RBPROBE_RECORD_H

#include "proto/error.h"
#include "proto/events.h"
#include "proto/limits.h"
#include "proto/slice.h"
#include "proto/states.h"
#include "proto/wire.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * What the target tells; PROTOCOL.md, "Records". On the socket each record is its size (4 bytes, little-endian)
 * and then one msgpack array. Encoding appends both to a buffer; decoding takes the array alone.
 */

#define RECORD_PREFIX_SIZE 4u

struct record_hello {
	uint32_t version;
	struct slice nonce; /* NONCE_SIZE bytes */
	uint32_t pid;       /* as the target sees itself */
	struct slice ruby_version;
	struct slice extension_version;
	uint64_t monotonic_ns; /* CLOCK_MONOTONIC, the clock of all events, ... */
	uint64_t realtime_ns;  /* ... and the wall clock, read at the same moment */
};

/* Answers the command with that id; a session's last answer to a command. */
struct record_reply {
	uint32_t command_id;
	uint32_t code; /* 0, or an errno: the command had no effect */
	struct slice text;
	uint64_t count; /* methods armed or listed */
};

/* A method, or a line of one, that events will refer to by number. */
struct record_method {
	uint32_t ref;
	struct slice class_name;
	char separator; /* '#' or '.'; 0: a line in code that is no method's, whose name is a label */
	struct slice method_name;
	struct slice file; /* {NULL, 0}: not written in Ruby */
	int32_t line;      /* may be negative, as of code of eval */
	enum engine_id engine;
	uint32_t label_count;
	const struct slice *labels; /* of the values that come with each start */
	uint32_t mark;              /* enum mark_kind: it is no method, and its events are marks; 0: it is one */
	struct slice place;         /* of a line: as its selector names it; {NULL, 0}: the events are calls of the method */
	uint32_t local_count;
	const struct slice *locals; /* of the local variables that come with each end */
	uint32_t flags;             /* enum method_flag */
};

/* A fiber that events will refer to by number; every thread has at least one. */
struct record_fiber {
	uint32_t ref;
	uint64_t thread_id; /* the same for all fibers of a thread */
	uint32_t native_id; /* Linux thread id when the fiber was first seen, 0: not known */
	struct slice thread_name;
	bool root;               /* the thread's own fiber */
	struct slice created_at; /* of another one: where its block is, "file:line"; else empty */
};

/* A fiber is no more, nor is its number: no open calls are left of it, and a later FIBER may have the number again. */
struct record_fiber_gone {
	uint32_t ref;
};

/* The fiber's innermost open call, whose end follows, was begun anew so often. */
struct record_retried {
	uint32_t fiber;
	uint32_t times;
};

struct record_lost {
	uint64_t calls;
	uint64_t from_ns;
	uint64_t to_ns;
};

struct record_note {
	enum note_level level;
	struct slice text;
};

/* One line of `rbprobe methods`. */
struct record_match {
	uint32_t selector; /* index in the command */
	struct slice class_name;
	char separator;
	struct slice method_name;
	struct slice file;
	int32_t line; /* may be negative, as of code of eval */
	enum engine_id engine;
	struct slice reason; /* why this engine, or why none */
};

/* The last record of a session. */
struct record_end {
	enum end_reason reason;
	struct slice text;
	uint64_t calls; /* happened while armed: delivered + lost + left out */
	uint64_t lost;
	uint64_t other_ractors; /* events of calls in other Ractors, which are not followed */
	uint64_t left_out;      /* calls that do not meet the conditions */
	uint64_t marks;         /* happened while armed: delivered + lost + left out */
	uint64_t marks_lost;
	uint64_t counted; /* calls and lines besides `calls`, of methods that were only counted to take less */
	uint64_t marks_left_out;
};

/* A selector of the trace has matched a method, for the first time. */
struct record_found {
	uint32_t selector; /* index in the command */
};

/* A frame of those that called, below its own caller. */
struct record_caller {
	uint32_t ref;    /* from 1 on */
	uint32_t parent; /* its caller's; 0: none, or no more are shown */
	struct slice label;
	struct slice file;
	int32_t line; /* may be negative, as of code of eval */
};

#define TOTALS_MAX 8

/* At the end: sums over all marks of a kind, also those that were lost. */
struct record_totals {
	uint32_t mark;      /* enum mark_kind */
	uint32_t native_id; /* of a thread; 0: of the process */
	struct slice thread_name;
	uint64_t elapsed_ns; /* during which */
	uint32_t count;      /* of numbers, as the mark's form has them */
	uint64_t numbers[TOTALS_MAX];
};

/* A line for who debugs rbprobe itself; only of domains that ATTACH has named. */
struct record_debug {
	uint32_t domain; /* its number */
	struct slice text;
};

/* Bytes that a request makes: what its code writes, or its result. */
struct record_output {
	uint32_t command_id;
	enum output_stream stream;
	struct slice bytes;
};

/* A piece of a request's answer: one msgpack value, a map whose keys PROTOCOL.md lists. */
struct record_data {
	uint32_t command_id;
	struct slice packed;          /* encoding: the value */
	const msgpack_object *object; /* decoding: the value */
};

/* The request is over; nothing more comes of it. */
struct record_done {
	uint32_t command_id;
	uint32_t code; /* 0, or an errno */
	struct slice text;
};

struct record {
	enum record_kind kind; /* an unknown one: skip it */
	union {
		struct record_hello hello;
		struct record_reply reply;
		struct record_method method;
		struct record_fiber fiber;
		struct record_fiber_gone fiber_gone;
		struct record_events events;
		struct record_lost lost;
		struct record_note note;
		struct record_match match;
		struct record_end end;
		struct record_output output;
		struct record_data data;
		struct record_done done;
		struct record_found found;
		struct record_retried retried;
		struct record_debug debug;
		struct record_totals totals;
		struct record_caller caller;
		struct record_states states;
	};
};

/* Appends a record; EVENTS has its own functions in events.h. Any context that may allocate. */
void record_encode(msgpack_sbuffer *buffer, const struct record *record);

/*
 * Fills record from the size bytes of one array. Strings point into bytes; arrays live in zone, which the caller clears when
 * it is done with the record. Returns 0, or -EPROTO and err.
 */
int record_decode(struct record *record, const uint8_t *bytes, size_t size, msgpack_zone *zone, struct error *err);

#endif
