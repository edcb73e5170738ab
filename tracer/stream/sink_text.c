/*
 * The text format: rbtrace's tree.
 *
 *     String#multiply_vowels(self="hello", num=3)          a call with traced calls inside: a line where it begins
 *        String#gsub(self="hello")
 *           String#* <0.000020>                            a call without: one line
 *        String#gsub <0.000085>
 *     String#multiply_vowels <0.000198>                    and one where it ends
 *     Order#total <0.000010 cpu 0.000009 alloc 12 gc 0.000000>       (--measure)
 *     Order#total => 42 <0.000010>                         result (--return)
 *     Order#total items=[1, 2] sum=42 => 42 <0.000010>     local variables at its end (--locals)
 *     Order#save ! ActiveRecord::RecordInvalid: no name <0.000010>   an exception left it
 *     Order#each ~ thrown <0.000010>                       throw, or a break or return for an outer frame, went through it
 *     Worker#run ~ killed <0.000010>                       its thread was killed
 *     Order#charge => true (retried 2 times) <0.000010>    its rescue clause said `retry`
 *     Worker#run ~ ended <0.000010>                        it is over, and nobody knows how
 *     ! raised ArgumentError: no at shop.rb:12             an exception is raised here
 *     order.rb:42 total=12 user.id=3                       a line was reached
 *     # gc minor (newobj) 0.001200 s, 40,210 -> 31,000 objects   a collection is over
 *     # gc major (newobj) pause 0.012000 s                 one that is not over has paused for long
 *     # gvl waited 0.012000 s                               the thread has waited so long for the GVL
 *     ... 1234 calls lost (0.012000 s) ...
 *     [thread 12345 "worker 1", fiber 7]                   what follows is this fiber's; shown once there is more than one
 *
 * A start line is held back until it is known whether the call has calls inside, that is until the fiber's next event, but not
 * when something younger is to be printed or nothing has come for a moment. So all lines are in order of time, a call that
 * takes long is seen while it runs, and calls that wait side by side in many threads still take one line each.
 */

#include "tracer/stream/sink_text_parts.h"

#include "proto/clock.h"
#include "tracer/stream/callers.h"
#include "tracer/stream/measures.h"

#include <stdlib.h>
#include <time.h>

#define INDENT_LEVELS_MAX 256u   /* deeper calls are not indented further */
#define KEPT_CAPACITY_MAX 65536u /* of a fiber that holds nothing back */

struct text_sink {
	struct sink sink;
	struct fiber *held_first, *held_last; /* fibers whose innermost call is not shown yet, oldest first */
	struct second_text second;
};

const struct slice sink_text_colors[] = {
	[COLOR_NONE] = {"\033[0m", 4},      [COLOR_NAME] = {"\033[1;36m", 7}, [COLOR_LABEL] = {"\033[2m", 4},
	[COLOR_VALUE] = {"\033[32m", 5},    [COLOR_TIME] = {"\033[33m", 5},   [COLOR_ERROR] = {"\033[1;31m", 7},
	[COLOR_THREAD] = {"\033[1;35m", 7},
};

static void add_colored(const struct sink *sink, struct buffer *to, enum color which, struct slice text)
{
	sink_text_color(sink, to, which);
	buffer_add_slice(to, text);
	sink_text_color(sink, to, COLOR_NONE);
}

void sink_text_add_pid(const struct sink *sink, struct buffer *to, const struct stream *stream)
{
	if (sink->style.many_pids) {
		buffer_add_uint(to, (uint64_t)stream->pid);
		buffer_add(to, ": ", 2);
	}
}

void sink_text_header(struct sink *sink, struct fiber *fiber)
{
	struct stream *stream = fiber->stream;
	struct buffer *to = &sink->output->buffer;

	if (stream->shown_fiber == fiber)
		return;
	stream->shown_fiber = fiber;
	if (stream->fiber_count < 2)
		return;
	sink_text_add_pid(sink, to, stream);
	sink_text_color(sink, to, COLOR_THREAD);
	buffer_add_text(to, "[thread ");
	buffer_add_uint(to, fiber->native_id ? fiber->native_id : fiber->thread_id);
	if (fiber->thread_name.size) {
		buffer_add_text(to, " \"");
		buffer_add_printable(to, fiber->thread_name.bytes, fiber->thread_name.size);
		buffer_add_char(to, '"');
	}
	if (!fiber->root) {
		buffer_add_text(to, ", fiber ");
		buffer_add_uint(to, fiber->ref);
		if (fiber->created_at.size) {
			buffer_add_text(to, " of ");
			buffer_add_printable(to, fiber->created_at.bytes, fiber->created_at.size);
		}
	}
	buffer_add_char(to, ']');
	sink_text_color(sink, to, COLOR_NONE);
	buffer_add_char(to, '\n');
}

static void line_begin(struct sink *sink, struct fiber *fiber)
{
	sink_text_header(sink, fiber);
	sink_text_add_pid(sink, &sink->output->buffer, fiber->stream);
}

static void line_end(struct sink *sink)
{
	buffer_add_char(&sink->output->buffer, '\n');
	output_commit(sink->output);
}

void sink_text_indent(const struct sink *sink, struct buffer *to, uint32_t depth)
{
	buffer_add_spaces(to, (size_t)(depth < INDENT_LEVELS_MAX ? depth : INDENT_LEVELS_MAX) * sink->style.indent);
}

void sink_text_add_start_time(struct second_text *last, struct buffer *to, const struct stream *stream, uint64_t time_ns)
{
	int64_t wall_ns = (int64_t)time_ns + stream->wall_offset_ns;
	int64_t second = wall_ns / (int64_t)NS_PER_S;
	uint64_t us;
	char digits[7];

	if (second != last->second || !last->text[0]) {
		time_t seconds = (time_t)second;
		struct tm local;

		last->second = second;
		localtime_r(&seconds, &local);
		strftime(last->text, sizeof(last->text), "%H:%M:%S.", &local);
	}
	us = (uint64_t)(wall_ns - second * (int64_t)NS_PER_S) / NS_PER_US;
	for (int i = 5; i >= 0; i--, us /= 10)
		digits[i] = (char)('0' + us % 10);
	digits[6] = ' ';
	buffer_add_text(to, last->text);
	buffer_add(to, digits, sizeof(digits));
}

static void held_remove(struct text_sink *text, struct fiber *fiber)
{
	if (fiber->held_before)
		fiber->held_before->held_after = fiber->held_after;
	else
		text->held_first = fiber->held_after;
	if (fiber->held_after)
		fiber->held_after->held_before = fiber->held_before;
	else
		text->held_last = fiber->held_before;
	fiber->held_before = fiber->held_after = NULL;
	if (fiber->kept.capacity > KEPT_CAPACITY_MAX)
		buffer_free(&fiber->kept);
	fiber->kept.size = 0;
}

/* Shows the call that this fiber holds back as a line of its own. Only its innermost call can be held. */
static void show_start(struct text_sink *text, struct fiber *fiber, struct call *call)
{
	line_begin(&text->sink, fiber);
	buffer_add(&text->sink.output->buffer, fiber->kept.bytes, fiber->kept.size);
	line_end(&text->sink);
	call->held = false;
	held_remove(text, fiber);
}

/* What a fiber holds back: its innermost call, save for those that --count leaves out. */
static struct call *held_call(struct fiber *fiber)
{
	struct call *call = &fiber->calls[fiber->depth - 1];

	while (!call->held)
		call--;
	return call;
}

/* Shows all that is held back and older than what this fiber holds; everything where that is nothing. */
static void show_older(struct text_sink *text, const struct fiber *than)
{
	while (text->held_first && text->held_first != than)
		show_start(text, text->held_first, held_call(text->held_first));
}

void sink_text_add_values(const struct sink *sink, struct buffer *to, const struct labels *labels, struct values values,
                          struct slice separator)
{
	struct slice value;
	bool more = false;

	for (uint32_t i = 0; values_next(&values, &value); i++) {
		if (!value.bytes)
			continue;
		if (more)
			buffer_add_slice(to, separator);
		more = true;
		sink_text_color(sink, to, COLOR_LABEL);
		if (i < labels->count)
			buffer_add_slice(to, labels->shown[i]);
		buffer_add_char(to, '=');
		sink_text_color(sink, to, COLOR_NONE);
		sink_text_color(sink, to, COLOR_VALUE);
		buffer_add_printable(to, value.bytes, value.size);
		sink_text_color(sink, to, COLOR_NONE);
	}
}

/* The line up to the arguments. */
static void add_begin(struct text_sink *text, struct buffer *to, const struct fiber *fiber, const struct method *method,
                      const struct event *event)
{
	if (text->sink.style.start_times)
		sink_text_add_start_time(&text->second, to, fiber->stream, event->time_ns);
	sink_text_indent(&text->sink, to, fiber->depth);
	add_colored(&text->sink, to, COLOR_NAME, method->shown);
	if (event->values.count && !method->is_line) {
		buffer_add_char(to, '(');
		sink_text_add_values(&text->sink, to, &method->labels, event->values, (struct slice){", ", 2});
		buffer_add_char(to, ')');
	} else if (event->values.count) {
		buffer_add_char(to, ' ');
		sink_text_add_values(&text->sink, to, &method->labels, event->values, (struct slice){" ", 1});
	}
}

static void text_start(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event)
{
	struct text_sink *text = (struct text_sink *)sink;
	struct buffer *kept = &fiber->kept;

	if (fiber->depth && fiber->calls[fiber->depth - 1].held) {
		show_older(text, fiber);
		show_start(text, fiber, &fiber->calls[fiber->depth - 1]);
	}
	kept->size = 0;
	add_begin(text, kept, fiber, call->method, event);
	call->held = true;
	fiber->held_before = text->held_last;
	if (text->held_last)
		text->held_last->held_after = fiber;
	else
		text->held_first = fiber;
	text->held_last = fiber;
}

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
static void add_stack(struct sink *sink, struct buffer *to, const struct fiber *fiber, uint64_t number)
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
	if (number)
		output_commit(sink->output);
}

/* The line after the arguments. apart: its beginning has another line. */
static void add_end(struct sink *sink, struct buffer *to, const struct fiber *fiber, const struct method *method, bool apart,
                    enum ending ending, const struct values *outcome, uint32_t retries, uint64_t duration_ns)
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
	line_end(sink);
	add_stack(sink, to, fiber, measures_stack(&measures));
}

static void text_end(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event, uint64_t duration_ns)
{
	struct text_sink *text = (struct text_sink *)sink;
	struct buffer *to = &sink->output->buffer;
	bool apart = !call->held;

	show_older(text, call->held ? fiber : NULL);
	line_begin(sink, fiber);
	if (call->held) {
		buffer_add(to, fiber->kept.bytes, fiber->kept.size);
		held_remove(text, fiber);
	} else {
		if (sink->style.start_times)
			buffer_add_spaces(to, 16);
		sink_text_indent(sink, to, fiber->depth);
		add_colored(sink, to, COLOR_NAME, call->method->shown);
	}
	add_end(sink, to, fiber, call->method, apart, event->ending, &event->values, call->retries, duration_ns);
}

static void text_whole(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	struct text_sink *text = (struct text_sink *)sink;
	struct buffer *to = &sink->output->buffer;

	show_older(text, NULL);
	line_begin(sink, fiber);
	add_begin(text, to, fiber, method, event);
	add_end(sink, to, fiber, method, false, event->ending, &event->outcome, 0, event->duration_ns);
}

/* Of a mark. Where the process could not say: one that no stack has. */
static uint64_t stack_number(struct slice digits)
{
	return digits.bytes ? sink_text_number(digits) : UINT64_MAX;
}

static void text_mark(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	struct text_sink *text = (struct text_sink *)sink;
	struct buffer *to = &sink->output->buffer;

	show_older(text, NULL);
	line_begin(sink, fiber);
	if (sink->style.start_times)
		sink_text_add_start_time(&text->second, to, fiber->stream, event->time_ns);
	sink_text_indent(sink, to, fiber->depth);
	sink_text_add_mark(sink, to, method->mark_kind, event->values);
	line_end(sink);
	if (method->mark->stack && event->values.count > method->mark->stack)
		add_stack(sink, to, fiber, stack_number(values_get(event->values, method->mark->stack)));
}

static void text_line(struct sink *sink, struct fiber *fiber, struct method *line, const struct event *event)
{
	struct text_sink *text = (struct text_sink *)sink;
	struct event shown = *event;
	struct measures measures = measures_take_stack(&shown.values, sink->style.flags);

	show_older(text, NULL);
	line_begin(sink, fiber);
	add_begin(text, &sink->output->buffer, fiber, line, &shown);
	line_end(sink);
	add_stack(sink, &sink->output->buffer, fiber, measures_stack(&measures));
}

static void text_open(struct sink *sink, struct fiber *fiber, struct call *call)
{
	struct text_sink *text = (struct text_sink *)sink;

	if (!call->held)
		return;
	show_older(text, fiber);
	show_start(text, fiber, call);
}

static void text_quiet(struct sink *sink)
{
	show_older((struct text_sink *)sink, NULL);
}

static bool text_holds(const struct sink *sink)
{
	return ((const struct text_sink *)sink)->held_first != NULL;
}

void sink_text_add_lost(const struct sink *sink, struct buffer *to, const struct record_lost *lost)
{
	sink_text_color(sink, to, COLOR_ERROR);
	buffer_add_text(to, "... ");
	buffer_add_uint(to, lost->calls);
	buffer_add_text(to, lost->calls == 1 ? " call lost (" : " calls lost (");
	buffer_add_seconds(to, lost->to_ns > lost->from_ns ? lost->to_ns - lost->from_ns : 0);
	buffer_add_text(to, " s) ...");
	sink_text_color(sink, to, COLOR_NONE);
}

static void text_lost(struct sink *sink, struct stream *stream, const struct record_lost *lost)
{
	text_quiet(sink);
	sink_text_add_pid(sink, &sink->output->buffer, stream);
	sink_text_add_lost(sink, &sink->output->buffer, lost);
	line_end(sink);
}

const struct sink_ops sink_text = {
	.name = "text",
	.size = sizeof(struct text_sink),
	.start = text_start,
	.end = text_end,
	.whole = text_whole,
	.mark = text_mark,
	.line = text_line,
	.open = text_open,
	.lost = text_lost,
	.quiet = text_quiet,
	.holds = text_holds,
};
