/* Whose lines come when, in the text format. See sink_text_order.h. */

#include "tracer/stream/sink_text_order.h"

#include <stdlib.h>
#include <string.h>

struct text_part {
	struct fiber *fiber;
	struct buffer lines;
	size_t whole; /* so many bytes of them are of outermost calls that have ended */
	uint64_t since_ns;
	struct text_part *before, *after;
};

void sink_text_add_pid(const struct sink *sink, struct buffer *to, const struct stream *stream)
{
	if (sink->style.many_pids) {
		buffer_add_uint(to, (uint64_t)stream->pid);
		buffer_add(to, ": ", 2);
	}
}

/* Without a header, lines are the main thread's: where its number is known, and no other was seen yet. */
static bool is_expected(const struct fiber *fiber)
{
	return !fiber->stream->main_native_id || !fiber->native_id ||
	       (fiber->root && fiber->native_id == fiber->stream->main_native_id);
}

void sink_text_header(struct sink *sink, struct fiber *fiber)
{
	struct stream *stream = fiber->stream;
	struct buffer *to = &sink->output->buffer;
	bool names_first = sink->ops == &sink_text; /* rbtrace's lines stay as its users know them */

	if (stream->shown_fiber == fiber)
		return;
	stream->shown_fiber = fiber;
	if (stream->fiber_count < 2 && (!names_first || is_expected(fiber)))
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
	if (fiber->parted)
		buffer_add_text(to, ", continued");
	buffer_add_char(to, ']');
	sink_text_color(sink, to, COLOR_NONE);
	buffer_add_char(to, '\n');
}

static void part_remove(struct text_order *order, struct text_part *part)
{
	if (part->before)
		part->before->after = part->after;
	else
		order->first = part->after;
	if (part->after)
		part->after->before = part->before;
	else
		order->last = part->before;
	order->size -= part->lines.size;
	part->fiber->part = NULL;
	buffer_free(&part->lines);
	*part = (struct text_part){.after = order->spare};
	order->spare = part;
}

static struct text_part *part_of(struct text_order *order, struct fiber *fiber)
{
	struct text_part *part = fiber->part;

	if (part)
		return part;
	part = order->spare;
	if (part)
		order->spare = part->after;
	else
		part = memory_zeroed(sizeof(*part));
	*part = (struct text_part){.fiber = fiber, .since_ns = clock_now_ns(), .before = order->last};
	if (order->last)
		order->last->after = part;
	else
		order->first = part;
	order->last = part;
	fiber->part = part;
	return part;
}

/* Shows that many bytes of what waits, which are lines. */
static void part_show(struct sink *sink, struct text_order *order, struct text_part *part, size_t size)
{
	if (!size)
		return;
	sink_text_header(sink, part->fiber);
	buffer_add(&sink->output->buffer, part->lines.bytes, size);
	output_commit(sink->output);
	memmove(part->lines.bytes, part->lines.bytes + size, part->lines.size - size);
	part->lines.size -= size;
	order->size -= size;
	part->fiber->parted = size > part->whole;
	part->whole -= size < part->whole ? size : part->whole;
}

static void show_held(struct sink *sink, struct text_order *order, struct fiber *fiber)
{
	bool before = order->showing;

	order->showing = true;
	order->show_held(sink, fiber);
	order->showing = before;
}

/* All of it, also what is held back. */
static void part_show_all(struct sink *sink, struct text_order *order, struct text_part *part)
{
	part_show(sink, order, part, part->whole);
	show_held(sink, order, part->fiber);
	part_show(sink, order, part, part->lines.size);
	part_remove(order, part);
}

/* What is over is shown. Then, if nobody is live, the one that has waited longest is. */
static void go_on(struct sink *sink, struct text_order *order)
{
	struct text_part *next;

	for (struct text_part *part = order->first; part; part = next) {
		next = part->after;
		part_show(sink, order, part, part->whole);
		if (!part->lines.size && !part->fiber->depth)
			part_remove(order, part);
	}
	if (order->live || !order->first)
		return;
	order->live = order->first->fiber;
	part_show(sink, order, order->first, order->first->lines.size);
	part_remove(order, order->first);
}

/* The live one has shown enough for now. */
static void give_way(struct sink *sink, struct text_order *order)
{
	struct fiber *fiber = order->live;

	if (!fiber)
		return;
	show_held(sink, order, fiber);
	fiber->parted = fiber->depth > 0;
	order->live = NULL;
}

void order_note(struct sink *sink, struct text_order *order, struct fiber *fiber)
{
	if (!sink->style.by_thread || order->live == fiber)
		return;
	if (order->live)
		part_of(order, fiber);
	else
		order->live = fiber;
}

struct buffer *order_line_begin(struct sink *sink, struct text_order *order, struct fiber *fiber)
{
	struct buffer *to = &sink->output->buffer;

	order_note(sink, order, fiber);
	if (fiber->part)
		to = &fiber->part->lines;
	else
		sink_text_header(sink, fiber);
	order->size -= fiber->part ? to->size : 0;
	sink_text_add_pid(sink, to, fiber->stream);
	return to;
}

void order_line_end(struct sink *sink, struct text_order *order, struct fiber *fiber, bool over)
{
	struct text_part *part = fiber->part;

	if (part) {
		order->size += part->lines.size;
		if (over)
			part->whole = part->lines.size;
		if (order->size > ORDER_SIZE_MAX && !order->showing)
			order_show_all(sink, order);
		return;
	}
	if (over && sink->style.by_thread) {
		fiber->parted = false;
		order->live = NULL;
		go_on(sink, order);
	}
	output_commit(sink->output);
}

void order_forget(struct sink *sink, struct text_order *order, struct fiber *fiber)
{
	if (fiber->part)
		part_show_all(sink, order, fiber->part);
	fiber->parted = false;
	if (order->live != fiber)
		return;
	order->live = NULL;
	go_on(sink, order);
}

void order_show_all(struct sink *sink, struct text_order *order)
{
	give_way(sink, order);
	while (order->first)
		part_show_all(sink, order, order->first);
}

uint64_t order_wake_ns(const struct text_order *order)
{
	return order->first ? order->first->since_ns + ORDER_WAIT_NS : UINT64_MAX;
}

void order_wake(struct sink *sink, struct text_order *order, uint64_t now_ns)
{
	if (now_ns < order_wake_ns(order))
		return;
	give_way(sink, order);
	while (order->first && now_ns >= order_wake_ns(order))
		part_show_all(sink, order, order->first);
	go_on(sink, order);
}

static void parts_free(struct text_part *part)
{
	while (part) {
		struct text_part *after = part->after;

		buffer_free(&part->lines);
		free(part);
		part = after;
	}
}

void order_free(struct text_order *order)
{
	parts_free(order->first);
	parts_free(order->spare);
}
