#ifndef RBPROBE_EVAL_TEXT_H
#define RBPROBE_EVAL_TEXT_H

#include "tracer/base/buffer.h"

#include <msgpack.h>

/* What an evaluation came to, in words for people: whole lines, from the DATA of an EVAL request (PROTOCOL.md). */

/* The result; "..." stands where it was cut. Nothing where it came as output (EVAL_RAW). */
void eval_text_result(struct buffer *buffer, const msgpack_object *data);

/* An exception as Ruby prints it: where, message and class, the other frames, and the same for its causes. */
void eval_text_exception(struct buffer *buffer, const msgpack_object *data);

/* A syntax error: Ruby's message, which has the line and a caret; what of these it has not is added from the code. */
void eval_text_syntax_error(struct buffer *buffer, const msgpack_object *data, struct slice code);

/* The frames of code that was interrupted. */
void eval_text_frames(struct buffer *buffer, const msgpack_object *data);

#endif
