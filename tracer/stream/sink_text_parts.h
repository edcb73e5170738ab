#ifndef RBPROBE_SINK_TEXT_PARTS_H
#define RBPROBE_SINK_TEXT_PARTS_H

#include "tracer/stream/sink.h"

/* What the files of the text format share. */

/* Escape sequences; all empty without colours. */
enum color { COLOR_NONE, COLOR_NAME, COLOR_LABEL, COLOR_VALUE, COLOR_TIME, COLOR_ERROR, COLOR_THREAD };

extern const struct slice sink_text_colors[];

static inline void sink_text_color(const struct sink *sink, struct buffer *to, enum color which)
{
	if (sink->style.colors)
		buffer_add_slice(to, sink_text_colors[which]);
}

/* What happened beside calls, without the line's beginning and end. */
void sink_text_add_mark(const struct sink *sink, struct buffer *to, enum mark_kind kind, struct values values);

#endif
