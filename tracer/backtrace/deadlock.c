/* Looks for circles of threads that wait for each other. See deadlock.h. */

#include "tracer/backtrace/deadlock.h"

#include "tracer/base/json.h"

#include <stdlib.h>
#include <string.h>

enum { NEW, ON_THE_WAY, DONE };

static void circle_give(const struct report *report, size_t first, void (*each)(void *, const size_t *, size_t), void *context)
{
	size_t *circle = memory_zeroed(report->count * sizeof(*circle)), count = 0, at = first;

	do {
		circle[count++] = at;
		at = report_waits_for(report, at);
	} while (at != first);
	each(context, circle, count);
	free(circle);
}

void deadlocks_find(const struct report *report, void (*each)(void *context, const size_t *circle, size_t count), void *context)
{
	unsigned char *state = memory_zeroed(report->count + 1);

	for (size_t start = 0; start < report->count; start++) {
		size_t at = start;

		/* Each waits for one at most: along that way until it ends, or comes to where it has been. */
		while (at < report->count && state[at] == NEW) {
			state[at] = ON_THE_WAY;
			at = report_waits_for(report, at);
		}
		if (at < report->count && state[at] == ON_THE_WAY)
			circle_give(report, at, each, context);
		for (at = start; at < report->count && state[at] == ON_THE_WAY; at = report_waits_for(report, at))
			state[at] = DONE;
	}
	free(state);
}

struct writing {
	const struct report *report;
	struct buffer *out;
};

/* A join with a limit ends, and with it the circle. */
static bool is_timed(const struct report *report, const size_t *circle, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (report->stacks[circle[i]].timed)
			return true;
	return false;
}

static void write_text(void *context, const size_t *circle, size_t count)
{
	const struct writing *writing = context;
	const struct stack *stacks = writing->report->stacks;

	buffer_add_format(writing->out, "deadlock of %zu thread%s%s:\n", count, count == 1 ? "" : "s",
	                  is_timed(writing->report, circle, count) ? ", until the time limit of a join" : "");
	for (size_t i = 0; i < count; i++) {
		const struct stack *stack = &stacks[circle[i]];

		buffer_add_text(writing->out, i == 0 ? "   " : "   -> ");
		buffer_add(writing->out, stack->label.bytes, stack->label.size);
		if (stack->mutex)
			buffer_add_format(writing->out, " waits for %s 0x%llx, held by\n", stack->monitor ? "Monitor" : "Mutex",
			                  (unsigned long long)(stack->monitor ? stack->monitor : stack->mutex));
		else
			buffer_add_text(writing->out, " waits in Thread#join for the end of\n");
	}
	buffer_add_text(writing->out, "   -> ");
	buffer_add(writing->out, stacks[circle[0]].label.bytes, stacks[circle[0]].label.size);
	buffer_add_char(writing->out, '\n');
}

static void write_json(void *context, const size_t *circle, size_t count)
{
	const struct writing *writing = context;
	struct buffer *out = writing->out;

	json_open_object(out);
	json_member_text(out, "type", (struct slice){"deadlock", strlen("deadlock")});
	json_member_int(out, "pid", writing->report->pid);
	if (is_timed(writing->report, circle, count))
		json_member_bool(out, "timed", true);
	json_open_array(json_key(out, "threads"));
	for (size_t i = 0; i < count; i++) {
		const struct stack *stack = &writing->report->stacks[circle[i]];

		json_open_object(out);
		json_member_uint(out, "id", stack->id);
		if (stack->mutex)
			json_member_uint(out, "mutex", stack->mutex);
		if (stack->monitor)
			json_member_uint(out, "monitor", stack->monitor);
		if (!stack->mutex)
			json_member_uint(out, "joins", stack->owner);
		json_close_object(out);
	}
	json_close_array(out);
	json_close_line(out);
}

void deadlocks_write(const struct report *report, struct buffer *out)
{
	struct writing writing = {report, out};

	deadlocks_find(report, report->json ? write_json : write_text, &writing);
}
