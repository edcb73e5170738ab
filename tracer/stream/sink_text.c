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
 *     # gc minor (newobj) 0.001200 s (mark 0.000900, sweep 0.000290), 40,210 -> 31,000 objects   a collection is over
 *     # gc major (newobj) pause 0.012000 s                 one that is not over has paused for long
 *     # gvl waited 0.012000 s                               the thread has waited so long for the GVL
 *     ... 1234 calls lost (0.012000 s) ...
 *     [thread 12345 "worker 1", fiber 7]                   what follows is this fiber's; shown once there is more than one,
 *                                                          and at the start where it is not the main thread's own
 *
 * A start line is held back until it is known whether the call has calls inside, that is until the fiber's next event, but not
 * when something younger is to be printed or nothing has come for a moment. So all lines are in order of time, a call that
 * takes long is seen while it runs, and calls that wait side by side in many threads still take one line each.
 */

#include "tracer/stream/sink_text_order.h"

#include "proto/clock.h"
#include "tracer/stream/measures.h"

#include <stdlib.h>
#include <time.h>

#define INDENT_LEVELS_MAX 256u   /* deeper calls are not indented further */
#define KEPT_CAPACITY_MAX 65536u /* of a fiber that holds nothing back */

struct text_sink {
	struct sink sink;
	struct fiber *held_first, *held_last; /* fibers whose innermost call is not shown yet, oldest first */
	struct second_text second;
	struct text_order order;
};

static void add_colored(const struct sink *sink, struct buffer *to, enum color which, struct slice text)
{
	sink_text_color(sink, to, which);
	buffer_add_slice(to, text);
	sink_text_color(sink, to, COLOR_NONE);
}

static struct buffer *line_begin(struct text_sink *text, struct fiber *fiber)
{
	return order_line_begin(&text->sink, &text->order, fiber);
}

static void line_end(struct text_sink *text, struct fiber *fiber, bool over)
{
	order_line_end(&text->sink, &text->order, fiber, over);
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
	struct buffer *to = line_begin(text, fiber);

	buffer_add(to, fiber->kept.bytes, fiber->kept.size);
	buffer_add_char(to, '\n');
	call->held = false;
	held_remove(text, fiber);
	line_end(text, fiber, false);
}

/* What a fiber holds back: its innermost call, save for those that --count leaves out. */
static struct call *held_call(struct fiber *fiber)
{
	struct call *call = &fiber->calls[fiber->depth - 1];

	while (!call->held)
		call--;
	return call;
}

static bool is_holding(const struct text_sink *text, const struct fiber *fiber)
{
	return fiber && (fiber->held_before || text->held_first == fiber);
}

static void show_held(struct sink *sink, struct fiber *fiber)
{
	struct text_sink *text = (struct text_sink *)sink;

	if (is_holding(text, fiber))
		show_start(text, fiber, held_call(fiber));
}

/*
 * Before something else of the fiber is shown: what is held back and older than what it holds itself, or where it shows that
 * itself (keeps: false) also that. In order of threads only its own matters.
 */
static void show_older(struct text_sink *text, struct fiber *fiber, bool keeps)
{
	const struct fiber *than = keeps ? fiber : NULL;

	if (text->sink.style.by_thread && !keeps)
		show_held(&text->sink, fiber);
	if (text->sink.style.by_thread)
		return;
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
		show_older(text, fiber, true);
		show_start(text, fiber, &fiber->calls[fiber->depth - 1]);
	}
	order_note(&text->sink, &text->order, fiber);
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

static void text_end(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event, uint64_t duration_ns)
{
	struct text_sink *text = (struct text_sink *)sink;
	bool apart = !call->held;
	struct buffer *to;

	show_older(text, fiber, call->held);
	to = line_begin(text, fiber);
	if (call->held) {
		buffer_add(to, fiber->kept.bytes, fiber->kept.size);
		held_remove(text, fiber);
	} else {
		if (sink->style.start_times)
			buffer_add_spaces(to, 16);
		sink_text_indent(sink, to, fiber->depth);
		add_colored(sink, to, COLOR_NAME, call->method->shown);
	}
	sink_text_add_end(sink, to, fiber, call->method, apart, event->ending, &event->values, call->retries, duration_ns);
	line_end(text, fiber, fiber->depth == 0);
}

static void text_whole(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	struct text_sink *text = (struct text_sink *)sink;
	struct buffer *to;

	show_older(text, fiber, false);
	to = line_begin(text, fiber);
	add_begin(text, to, fiber, method, event);
	sink_text_add_end(sink, to, fiber, method, false, event->ending, &event->outcome, 0, event->duration_ns);
	line_end(text, fiber, fiber->depth == 0);
}

/* Of a mark. Where the process could not say: one that no stack has. */
static uint64_t stack_number(struct slice digits)
{
	return digits.bytes ? sink_text_number(digits) : UINT64_MAX;
}

static void text_mark(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	struct text_sink *text = (struct text_sink *)sink;
	struct buffer *to;

	show_older(text, fiber, false);
	to = line_begin(text, fiber);
	if (sink->style.start_times)
		sink_text_add_start_time(&text->second, to, fiber->stream, event->time_ns);
	sink_text_indent(sink, to, fiber->depth);
	sink_text_add_mark(sink, to, method->mark_kind, event->values);
	buffer_add_char(to, '\n');
	if (method->mark->stack && event->values.count > method->mark->stack)
		sink_text_add_stack(sink, to, fiber, stack_number(values_get(event->values, method->mark->stack)));
	line_end(text, fiber, fiber->depth == 0);
}

static void text_line(struct sink *sink, struct fiber *fiber, struct method *line, const struct event *event)
{
	struct text_sink *text = (struct text_sink *)sink;
	struct event shown = *event;
	struct measures measures = measures_take_stack(&shown.values, sink->style.flags);
	struct buffer *to;

	show_older(text, fiber, false);
	to = line_begin(text, fiber);
	add_begin(text, to, fiber, line, &shown);
	buffer_add_char(to, '\n');
	sink_text_add_stack(sink, to, fiber, measures_stack(&measures));
	line_end(text, fiber, fiber->depth == 0);
}

static void text_open(struct sink *sink, struct fiber *fiber, struct call *call)
{
	struct text_sink *text = (struct text_sink *)sink;

	if (!call->held)
		return;
	show_older(text, fiber, true);
	show_start(text, fiber, call);
}

static void text_forget(struct sink *sink, const struct fiber *fiber)
{
	order_forget(sink, &((struct text_sink *)sink)->order, (struct fiber *)fiber);
}

static void text_quiet(struct sink *sink)
{
	struct text_sink *text = (struct text_sink *)sink;

	if (sink->style.by_thread)
		show_held(sink, text->order.live);
	else
		show_older(text, NULL, false);
}

static bool text_holds(const struct sink *sink)
{
	const struct text_sink *text = (const struct text_sink *)sink;

	return sink->style.by_thread ? is_holding(text, text->order.live) : text->held_first != NULL;
}

static uint64_t text_wake_ns(const struct sink *sink)
{
	return order_wake_ns(&((const struct text_sink *)sink)->order);
}

static void text_wake(struct sink *sink, uint64_t now_ns)
{
	order_wake(sink, &((struct text_sink *)sink)->order, now_ns);
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
	order_show_all(sink, &((struct text_sink *)sink)->order);
	text_quiet(sink);
	sink_text_add_pid(sink, &sink->output->buffer, stream);
	sink_text_add_lost(sink, &sink->output->buffer, lost);
	buffer_add_char(&sink->output->buffer, '\n');
	output_commit(sink->output);
}

static void text_init(struct sink *sink)
{
	((struct text_sink *)sink)->order.show_held = show_held;
}

static void text_close(struct sink *sink)
{
	order_free(&((struct text_sink *)sink)->order);
}

const struct sink_ops sink_text = {
	.name = "text",
	.size = sizeof(struct text_sink),
	.init = text_init,
	.start = text_start,
	.end = text_end,
	.whole = text_whole,
	.mark = text_mark,
	.line = text_line,
	.open = text_open,
	.forget = text_forget,
	.lost = text_lost,
	.quiet = text_quiet,
	.holds = text_holds,
	.wake_ns = text_wake_ns,
	.wake = text_wake,
	.close = text_close,
};
