#ifndef RBPROBE_SINK_TEXT_PARTS_H
#define RBPROBE_SINK_TEXT_PARTS_H

#include "tracer/base/colors.h"
#include "tracer/stream/sink.h"

/* What the files of the text format share. */

/* Nothing without colours. */
static inline void sink_text_color(const struct sink *sink, struct buffer *to, enum color which)
{
	if (sink->style.colors)
		buffer_add_slice(to, colors[which]);
}

/* The second of the wall clock that was rendered last. */
struct second_text {
	int64_t second;
	char text[16]; /* "HH:MM:SS." */
};

/* "HH:MM:SS.uuuuuu " of local time. */
void sink_text_add_start_time(struct second_text *last, struct buffer *to, const struct stream *stream, uint64_t time_ns);
/*
 * Lines are headed by whose they are: the first ones where they are not the main thread's, and all once a target has shown more
 * than one fiber.
 */
void sink_text_header(struct sink *sink, struct fiber *fiber);
/* "PID: ", where there are several processes. */
void sink_text_add_pid(const struct sink *sink, struct buffer *to, const struct stream *stream);
/* Of decimal digits, up to what is none. */
uint64_t sink_text_number(struct slice digits);
void sink_text_indent(const struct sink *sink, struct buffer *to, uint32_t depth);
/* "name=value, name=value" */
void sink_text_add_values(const struct sink *sink, struct buffer *to, const struct labels *labels, struct values values,
                          struct slice separator);
/* "... 12 calls lost (0.001000 s) ..." */
void sink_text_add_lost(const struct sink *sink, struct buffer *to, const struct record_lost *lost);

/* A call's line after the arguments, with those who called it on lines of their own. apart: its beginning has another line. */
void sink_text_add_end(const struct sink *sink, struct buffer *to, const struct fiber *fiber, const struct method *method,
                       bool apart, enum ending ending, const struct values *outcome, uint32_t retries, uint64_t duration_ns);
/* Who called, by the number of their stack (0: not known), a line each below the call's, an indentation deeper. */
void sink_text_add_stack(const struct sink *sink, struct buffer *to, const struct fiber *fiber, uint64_t number);

/* What happened beside calls, without the line's beginning and end. */
void sink_text_add_mark(const struct sink *sink, struct buffer *to, enum mark_kind kind, struct values values);

#endif
