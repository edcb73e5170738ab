/* Threads held up by one that waits to be woken. See held_up.h. */

#include "tracer/backtrace/held_up.h"

#include "tracer/base/json.h"

#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 8  /* of threads in a line */
#define STEPS_MAX 64 /* from one thread to the next; a process may report a million, in whatever way */
#define ENDS_MAX 16

/*
 * The last one of those that `number` waits for, each for the next: it waits for an object that nobody owns, and there is a lock
 * on the way; report->count: there is none. Threads that are only joined are as often idle workers.
 */
static size_t end_of(const struct report *report, size_t number)
{
	size_t at = number, steps = 0;
	bool lock = false;

	/* A circle has no end. */
	while (at < report->count && report->stacks[at].owner && steps++ < STEPS_MAX) {
		lock = lock || report->stacks[at].mutex;
		at = report_waits_for(report, at);
	}
	return at < report->count && !report->stacks[at].owner && lock && report->stacks[at].waits_for ? at : report->count;
}

static void add_label(struct buffer *out, const struct stack *stack)
{
	buffer_add(out, stack->label.bytes, stack->label.size);
}

static void add_step(struct buffer *out, const struct stack *stack)
{
	add_label(out, stack);
	if (stack->mutex)
		buffer_add_format(out, " waits for %s 0x%llx, held by\n", stack->monitor ? "Monitor" : "Mutex",
		                  (unsigned long long)(stack->monitor ? stack->monitor : stack->mutex));
	else
		buffer_add_text(out, " waits in Thread#join for the end of\n");
}

/* ends: of each stack. */
static void write_text(const struct report *report, const size_t *ends, size_t end, struct buffer *out)
{
	const struct stack *last = &report->stacks[end];
	size_t count = 0, named = 0, far = end, longest = 0;

	for (size_t i = 0; i < report->count; i++) {
		size_t steps = 0;

		if (ends[i] != end)
			continue;
		count++;
		for (size_t at = i; at != end; at = report_waits_for(report, at))
			steps++;
		if (steps > longest) {
			longest = steps;
			far = i;
		}
	}
	buffer_add_format(out, "%zu thread%s for one that waits to be woken:\n", count, count == 1 ? " waits" : "s wait");
	for (size_t at = far; at != end; at = report_waits_for(report, at)) {
		buffer_add_text(out, at == far ? "   " : "   -> ");
		add_step(out, &report->stacks[at]);
	}
	buffer_add_text(out, "   -> ");
	add_label(out, last);
	buffer_add_text(out, ", ");
	buffer_add(out, last->state.bytes, last->state.size);
	buffer_add_format(out, " on 0x%llx\n", (unsigned long long)last->waits_for);
	if (count == longest)
		return;
	buffer_add_text(out, "   and so do");
	for (size_t i = 0; i < report->count; i++) {
		bool drawn = false;

		for (size_t at = far; at != end && !drawn; at = report_waits_for(report, at))
			drawn = at == i;
		if (ends[i] != end || drawn || named++ >= NAMES_MAX)
			continue;
		buffer_add_text(out, named == 1 ? " " : ", ");
		add_label(out, &report->stacks[i]);
	}
	if (named > NAMES_MAX)
		buffer_add_format(out, " and %zu more", named - NAMES_MAX);
	buffer_add_char(out, '\n');
}

static void write_json(const struct report *report, const size_t *ends, size_t end, struct buffer *out)
{
	const struct stack *last = &report->stacks[end];

	json_open_object(out);
	json_member_string(out, "type", "held_up");
	json_member_int(out, "pid", report->pid);
	json_member_uint(out, "by", last->id);
	json_member_uint(out, "waits_for", last->waits_for);
	json_open_array(json_key(out, "threads"));
	for (size_t i = 0; i < report->count; i++)
		if (ends[i] == end)
			json_add_uint(out, report->stacks[i].id);
	json_close_array(out);
	json_close_line(out);
}

static void write_ends(const struct report *report, struct buffer *out)
{
	size_t *ends = memory_zeroed((report->count + 1) * sizeof(*ends));
	bool *is_end = memory_zeroed((report->count + 1) * sizeof(*is_end));
	size_t written = 0;

	for (size_t i = 0; i < report->count; i++) {
		ends[i] = end_of(report, i);
		is_end[ends[i]] = true;
	}
	for (size_t i = 0; i < report->count && written < ENDS_MAX; i++)
		if (is_end[i] && ++written)
			(report->json ? write_json : write_text)(report, ends, i, out);
	free(ends);
	free(is_end);
}

/* Of a process whose threads are all shown. Other Ractors may wake one, and fibers have no state of their own. */
static bool nobody_wakes(const struct report *report)
{
	size_t endless = 0;

	for (size_t i = 0; i < report->count; i++) {
		if (report->stacks[i].fiber)
			continue;
		if (!report->stacks[i].endless)
			return false;
		endless++;
	}
	return !report->ractors && endless == report->threads && endless > 1;
}

static void write_nobody(const struct report *report, struct buffer *out)
{
	if (!report->json) {
		buffer_add_format(
			out,
			"all %llu threads wait without a limit, and none can wake another: only the handler of a signal "
			"(trap) or C code could\n",
			(unsigned long long)report->threads);
		return;
	}
	json_open_object(out);
	json_member_string(out, "type", "nobody_wakes");
	json_member_int(out, "pid", report->pid);
	json_member_uint(out, "threads", report->threads);
	json_close_line(out);
}

void held_up_write(const struct report *report, struct buffer *out)
{
	write_ends(report, out);
	if (nobody_wakes(report))
		write_nobody(report, out);
}
