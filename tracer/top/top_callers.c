/* Who calls a method. See top_callers.h. */

#include "tracer/top/top_callers.h"

#include "tracer/stream/measures.h"

#include <stdlib.h>
#include <string.h>

#define LEAST_PERCENT 0.5

static struct top_caller *branch(struct top_callers *callers, struct top_caller *inner, const struct caller *caller)
{
	struct buffer text = {0};
	struct top_caller *found;

	buffer_add_printable(&text, caller->label.bytes, caller->label.size);
	buffer_add_text(&text, "  ");
	buffer_add_printable(&text, caller->file.bytes, caller->file.size);
	buffer_add_format(&text, ":%d", caller->line);
	for (found = inner->first; found; found = found->beside)
		if (found->text.size == text.size && memcmp(found->text.bytes, text.bytes, text.size) == 0)
			break;
	if (found || callers->count == TOP_CALLERS_MAX) {
		buffer_free(&text);
		return found;
	}
	found = memory_zeroed(sizeof(*found));
	*found = (struct top_caller){.text = text, .inner = inner, .beside = inner->first};
	inner->first = found;
	callers->count++;
	return found;
}

void top_callers_add(struct top_callers *callers, const struct caller *caller)
{
	struct top_caller *at = &callers->root;

	at->calls++;
	callers->unknown += !caller;
	for (; caller && (at = branch(callers, at, caller)); caller = caller->parent)
		at->calls++;
}

/* The next one with the most calls after those that were written: fewer calls, or as many and further on. */
static struct top_caller *next_of(struct top_caller *inner, const struct top_caller *after)
{
	struct top_caller *best = NULL;
	bool passed = false;

	for (struct top_caller *one = inner->first; one; one = one->beside) {
		bool follows = !after || one->calls < after->calls || (one->calls == after->calls && passed);

		passed = passed || one == after;
		if (follows && (!best || one->calls > best->calls))
			best = one;
	}
	return best;
}

static void write_branch(const struct top_callers *callers, struct top_caller *inner, size_t depth, struct buffer *to)
{
	struct top_caller *one = NULL;

	while ((one = next_of(inner, one))) {
		double percent = 100 * (double)one->calls / (double)callers->root.calls;
		/* Where there is but one caller it stands below, and not to the right. */
		bool alone = one->calls == inner->calls && inner != &callers->root;
		size_t own = alone ? depth : depth + 1;

		if (percent < LEAST_PERCENT)
			return;
		buffer_add_format(to, "%6.1f %% ", percent);
		buffer_add_spaces(to, 2 * own);
		buffer_add(to, one->text.bytes, one->text.size);
		buffer_add_char(to, '\n');
		write_branch(callers, one, own, to);
	}
}

void top_callers_write(struct top_callers *callers, struct buffer *to)
{
	if (!callers->root.calls) {
		buffer_add_text(to, "no calls so far\n");
		return;
	}
	write_branch(callers, &callers->root, 0, to);
	if (callers->unknown)
		buffer_add_format(to, "%6.1f %%   not known\n", 100 * (double)callers->unknown / (double)callers->root.calls);
}

void top_callers_free(struct top_callers *callers)
{
	struct top_caller *at = callers->root.first;

	/* The innermost first; then the one beside it, then the one that they are callers of. */
	while (at) {
		struct top_caller *next;

		if (at->first) {
			next = at->first;
			at->first = NULL;
		} else {
			next = at->beside ? at->beside : at->inner == &callers->root ? NULL : at->inner;
			buffer_free(&at->text);
			free(at);
		}
		at = next;
	}
	*callers = (struct top_callers){0};
}

/* --- The sink */

static void add(struct sink *sink, const struct fiber *fiber, struct values values)
{
	struct top_callers_sink *own = (struct top_callers_sink *)sink;
	struct measures measures = measures_take(&values, sink->style.flags);

	top_callers_add(&own->callers, callers_get(fiber->stream, measures_stack(&measures)));
}

static void on_start(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event)
{
	(void)sink;
	(void)fiber;
	(void)call;
	(void)event;
}

static void on_end(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event, uint64_t duration_ns)
{
	(void)call;
	(void)duration_ns;
	add(sink, fiber, event->values);
}

static void on_whole(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	(void)method;
	add(sink, fiber, event->outcome);
}

static void on_other(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	(void)method;
	on_start(sink, fiber, NULL, event);
}

static void on_open(struct sink *sink, struct fiber *fiber, struct call *call)
{
	on_start(sink, fiber, call, NULL);
}

static void on_lost(struct sink *sink, struct stream *stream, const struct record_lost *lost)
{
	(void)stream;
	(void)lost;
	on_start(sink, NULL, NULL, NULL);
}

static void on_close(struct sink *sink)
{
	top_callers_free(&((struct top_callers_sink *)sink)->callers);
}

const struct sink_ops sink_top_callers = {
	.name = "callers",
	.size = sizeof(struct top_callers_sink),
	.start = on_start,
	.end = on_end,
	.whole = on_whole,
	.mark = on_other,
	.line = on_other,
	.open = on_open,
	.lost = on_lost,
	.close = on_close,
};
