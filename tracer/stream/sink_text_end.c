/* How a call ended, in the text format: what follows its arguments, and its callers. See sink_text.c for how they look. */

#include "tracer/stream/sink_text_parts.h"

#include "tracer/stream/callers.h"
#include "tracer/stream/measures.h"

/* How a call ended, and what it gave. */
static void add_outcome(const struct sink *sink, struct buffer *to, enum ending ending, struct values outcome)
{
	struct slice first = values_get(outcome, 0), second = values_get(outcome, 1);

	switch (ending) {
	case ENDING_RETURNED:
		buffer_add(to, " => ", 4);
		sink_text_color(sink, to, COLOR_VALUE);
		buffer_add_printable(to, first.bytes, first.size);
		sink_text_color(sink, to, COLOR_NONE);
		return;
	case ENDING_RAISED:
		sink_text_color(sink, to, COLOR_ERROR);
		buffer_add(to, " ! ", 3);
		if (outcome.count)
			buffer_add_printable(to, first.bytes, first.size);
		else
			buffer_add_text(to, "raised");
		if (second.size) {
			buffer_add(to, ": ", 2);
			buffer_add_printable(to, second.bytes, second.size);
		}
		sink_text_color(sink, to, COLOR_NONE);
		return;
	case ENDING_THROWN:
	case ENDING_KILLED:
		sink_text_color(sink, to, COLOR_ERROR);
		buffer_add(to, " ~ ", 3);
		buffer_add_text(to, ending_name(ending));
		sink_text_color(sink, to, COLOR_NONE);
		return;
	default:
		buffer_add_text(to, " ~ ended");
	}
}

/* Who called it, below the line of its end, an indentation deeper. */
void sink_text_add_stack(const struct sink *sink, struct buffer *to, const struct fiber *fiber, uint64_t number)
{
	const struct caller *caller = callers_get(fiber->stream, number);

	while (number) {
		sink_text_add_pid(sink, to, fiber->stream);
		if (sink->style.start_times)
			buffer_add_spaces(to, 16);
		sink_text_indent(sink, to, fiber->depth + 1);
		callers_add_text(to, caller);
		buffer_add_char(to, '\n');
		caller = caller ? caller->parent : NULL;
		if (!caller)
			break;
	}
}

/* The line after the arguments. apart: its beginning has another line. */
void sink_text_add_end(const struct sink *sink, struct buffer *to, const struct fiber *fiber, const struct method *method,
                       bool apart, enum ending ending, const struct values *outcome, uint32_t retries, uint64_t duration_ns)
{
	struct values texts = *outcome, locals;
	struct measures measures = measures_take(&texts, sink->style.flags);

	if (values_take_array(&texts, &locals)) {
		buffer_add_char(to, ' ');
		sink_text_add_values(sink, to, &method->locals, locals, (struct slice){" ", 1});
	}
	if (ending != ENDING_RETURNED || texts.count)
		add_outcome(sink, to, ending, texts);
	if (retries) {
		buffer_add_text(to, " (retried ");
		buffer_add_uint(to, retries);
		buffer_add_text(to, retries == 1 ? " time)" : " times)");
	}
	if (sink->style.durations || measures_have_numbers(&measures)) {
		buffer_add_char(to, ' ');
		sink_text_color(sink, to, COLOR_TIME);
		buffer_add_char(to, '<');
		if (sink->style.durations)
			buffer_add_seconds(to, duration_ns);
		measures_add_text(to, &measures);
		buffer_add_char(to, '>');
		sink_text_color(sink, to, COLOR_NONE);
	} else if (apart) {
		buffer_add_text(to, " <end>");
	}
	buffer_add_char(to, '\n');
	sink_text_add_stack(sink, to, fiber, measures_stack(&measures));
}
