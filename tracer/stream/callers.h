#ifndef RBPROBE_CALLERS_H
#define RBPROBE_CALLERS_H

#include "tracer/stream/stream.h"

#include "proto/error.h"

/* Who called: the tree of frames that a target has sent, and a stack in it, shown. */

struct caller {
	const struct caller *parent; /* its caller; NULL: the outermost one that is known */
	struct slice label, file;
	int32_t line;
	uint32_t depth; /* callers further out */
};

/* A record. 0, or negative with err where the target breaks the protocol. */
int callers_note(struct stream *stream, const struct record_caller *record, struct error *err);

/* The innermost frame of the stack with that number; NULL: it is not known, or empty (0). */
const struct caller *callers_get(const struct stream *stream, uint64_t number);
/* "from lib/x.rb:12 in Order#save"; NULL: "from ?". */
void callers_add_text(struct buffer *to, const struct caller *caller);
/* Member "stack", an Array; null: the process could not say. */
void callers_add_json(struct buffer *to, const struct stream *stream, uint64_t number);

void callers_free(struct stream *stream);

#endif
