#ifndef RBPROBE_SESSION_STATE_H
#define RBPROBE_SESSION_STATE_H

#include "tracer/stream/stream.h"

#include "proto/record.h"

/*
 * What a reader has to know of a session to begin in the middle of it: the methods, fibers and callers that were announced, which
 * selectors have matched, and the calls that are open. Kept as records, so that they can be written in front of later ones.
 */
struct session_state;

/* Ends the program without memory, as buffers do. */
struct session_state *session_state_new(void);
void session_state_free(struct session_state *state);

/* Keeps a record, with its length in front, if it announces something; and drops what it makes void. */
void session_state_note(struct session_state *state, const struct record *record, const uint8_t *bytes, size_t size);

/* Of a call that begins: keeps its values in the fiber until it ends. */
void session_state_begin(struct fiber *fiber, const struct event *event);
/* And when it has ended: lets go of them. */
void session_state_end(struct fiber *fiber, const struct call *call);

/* Gives all that is kept to `take`, in pieces of whole records that are to be read in this order. */
typedef void session_state_taker(void *owner, const struct buffer *records);
void session_state_give(const struct session_state *state, const struct stream *stream, session_state_taker *take, void *owner);

#endif
