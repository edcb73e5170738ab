#ifndef RBPROBE_NATIVE_NAMES_H
#define RBPROBE_NATIVE_NAMES_H

#include "tracer/base/buffer.h"
#include "tracer/native/control.h"

#include "proto/slice.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>

/* What the process says that Ruby's frames are called (PROTOCOL.md, "FRAMES"). Each is asked for once. */

struct frame_name {
	struct control_object object;
	bool known;
	struct slice label, path; /* empty path: it is written in C, or in no file */
	int32_t line;
	uint64_t function; /* of a method in C; 0: none */
};

struct frame_names {
	struct frame_name *items;
	uint32_t count, room;
	uint32_t *slots, slot_count;
	uint32_t asked, answered; /* so many of them */
};

/* Adds it, if it is new. */
void frame_names_want(struct frame_names *names, struct control_object object);
/* NULL: not known, or not yet. */
const struct frame_name *frame_names_find(const struct frame_names *names, struct control_object object);
/* The question for those that were not asked for; what does not fit comes the next time. False: there are none. */
bool frame_names_ask(struct frame_names *names, struct buffer *question);
void frame_names_answer(struct frame_names *names, const msgpack_object *answer);
void frame_names_free(struct frame_names *names);

#endif
