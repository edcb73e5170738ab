/* Writing a look: all threads, or what differs from the look before; groups of threads. See backtrace_report.h. */

#define _GNU_SOURCE
#include "tracer/backtrace/backtrace_report.h"
#include "tracer/backtrace/deadlock.h"
#include "tracer/backtrace/held_up.h"
#include "tracer/base/json.h"

#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 8 /* of threads in a line */

static int compare_text(const struct buffer *one, const struct buffer *other)
{
	if (one->size != other->size)
		return one->size < other->size ? -1 : 1;
	return one->size ? memcmp(one->bytes, other->bytes, one->size) : 0;
}

static int by_number(size_t one, size_t other)
{
	return one < other ? -1 : one > other;
}

static int by_frames(const void *one, const void *other, void *stacks)
{
	size_t a = *(const size_t *)one, b = *(const size_t *)other;
	int order = compare_text(&((const struct stack *)stacks)[a].frames, &((const struct stack *)stacks)[b].frames);

	return order ? order : by_number(a, b);
}

static int by_state(const void *one, const void *other, void *stacks)
{
	size_t a = *(const size_t *)one, b = *(const size_t *)other;
	int order = compare_text(&((const struct stack *)stacks)[a].state, &((const struct stack *)stacks)[b].state);

	return order ? order : by_number(a, b);
}

/* --- Groups: numbers of stacks, those with the same frames one after the other */

struct group {
	size_t *numbers, count;
};

static int by_first(const void *one, const void *other)
{
	return by_number(*((const struct group *)one)->numbers, *((const struct group *)other)->numbers);
}

/* Takes `numbers` apart. Returns how many groups there are, in the order of their first ones; the caller frees *groups. */
static size_t groups_make(const struct report *report, size_t *numbers, size_t count, struct group **groups)
{
	size_t made = 0;

	*groups = memory_zeroed((count + 1) * sizeof(**groups));
	qsort_r(numbers, count, sizeof(*numbers), by_frames, report->stacks);
	for (size_t i = 0; i < count; i++) {
		bool same =
			i > 0 && compare_text(&report->stacks[numbers[i - 1]].frames, &report->stacks[numbers[i]].frames) == 0;

		if (!same)
			(*groups)[made++].numbers = &numbers[i];
		(*groups)[made - 1].count++;
	}
	qsort(*groups, made, sizeof(**groups), by_first);
	return made;
}

/* "298 sleeping in Thread::Queue#pop, 2 running" */
static void add_states(struct buffer *out, const struct report *report, const struct group *group)
{
	size_t *numbers = memory_zeroed(group->count * sizeof(*numbers));
	size_t alike = 0;

	memcpy(numbers, group->numbers, group->count * sizeof(*numbers));
	qsort_r(numbers, group->count, sizeof(*numbers), by_state, report->stacks);
	for (size_t i = 0; i < group->count; i++) {
		const struct buffer *state = &report->stacks[numbers[i]].state;

		alike++;
		if (i + 1 < group->count && compare_text(state, &report->stacks[numbers[i + 1]].state) == 0)
			continue;
		if (i >= alike)
			buffer_add_text(out, ", ");
		if (alike < group->count)
			buffer_add_format(out, "%zu ", alike);
		buffer_add(out, state->bytes, state->size);
		alike = 0;
	}
	free(numbers);
}

static void add_more(struct buffer *out, size_t count)
{
	if (count > NAMES_MAX)
		buffer_add_format(out, " and %zu more", count - NAMES_MAX);
}

static void add_labels(struct buffer *out, const struct report *report, const size_t *numbers, size_t count)
{
	for (size_t i = 0; i < count && i < NAMES_MAX; i++) {
		buffer_add_text(out, i == 0 ? "" : ", ");
		buffer_add(out, report->stacks[numbers[i]].label.bytes, report->stacks[numbers[i]].label.size);
	}
	add_more(out, count);
}

/* Of all of them together, altogether and since the look before. */
struct cpu {
	uint64_t ns, since_ns;
	bool known, since_known;
};

static struct cpu cpu_of(const struct report *report, const struct report *before, const struct group *group)
{
	struct cpu cpu = {.known = true, .since_known = true};

	for (size_t i = 0; i < group->count; i++) {
		const struct stack *stack = &report->stacks[group->numbers[i]];
		uint64_t used_ns = 0;

		cpu.since_known = report_cpu_since(stack, before, &used_ns) && cpu.since_known;
		cpu.known = cpu.known && stack->cpu_known;
		cpu.ns += stack->cpu_ns;
		cpu.since_ns += used_ns;
	}
	return cpu;
}

static void add_cpu_since(struct buffer *out, struct cpu cpu)
{
	if (cpu.since_known)
		buffer_add_format(out, " (+%.3f s)", (double)cpu.since_ns / 1e9);
}

static void group_text(const struct report *report, const struct report *before, const struct group *group, struct buffer *out)
{
	const struct stack *first = &report->stacks[group->numbers[0]];
	struct cpu cpu = cpu_of(report, before, group);

	if (group->count == 1) {
		buffer_add(out, first->heading.bytes, first->cpu_end);
		if (first->cpu_end)
			add_cpu_since(out, cpu);
		buffer_add(out, first->heading.bytes + first->cpu_end, first->heading.size - first->cpu_end);
	} else {
		buffer_add_format(out, "x%zu ", group->count);
		add_states(out, report, group);
		if (cpu.known) {
			buffer_add_format(out, ", %.3f s CPU", (double)cpu.ns / 1e9);
			add_cpu_since(out, cpu);
		}
		buffer_add_text(out, ":\n   ");
		add_labels(out, report, group->numbers, group->count);
		buffer_add_char(out, '\n');
	}
	buffer_add(out, first->frames.bytes, first->frames.size);
}

/* How long it has been where it is, at least, and the CPU time that it has used since the look before. */
static void add_since_json(const struct report *report, const struct report *before, const struct stack *stack,
                           struct buffer *out)
{
	uint64_t used_ns;

	if (!before)
		return;
	json_member_uint(out, "unmoved_ns", report->time_ns > stack->since_ns ? report->time_ns - stack->since_ns : 0);
	if (report_cpu_since(stack, before, &used_ns))
		json_member_uint(out, "cpu_since_ns", used_ns);
}

static void group_json(const struct report *report, const struct report *before, const struct group *group, struct buffer *out)
{
	const struct stack *first = &report->stacks[group->numbers[0]];

	json_open_object(out);
	json_member_int(out, "pid", report->pid);
	json_member_string(out, "type", "group");
	json_member_uint(out, "count", group->count);
	json_open_array(json_key(out, "threads"));
	for (size_t i = 0; i < group->count; i++) {
		const struct stack *stack = &report->stacks[group->numbers[i]];

		json_open_object(out);
		json_member_uint(out, "id", stack->id);
		json_member_text(out, "label", (struct slice){stack->label.bytes, stack->label.size});
		json_member_text(out, "state", (struct slice){stack->state.bytes, stack->state.size});
		if (stack->cpu_known)
			json_member_uint(out, "cpu_ns", stack->cpu_ns);
		add_since_json(report, before, stack, out);
		json_close_object(out);
	}
	json_close_array(out);
	json_open_array(json_key(out, "frames"));
	json_add_members(out, &first->frames);
	json_close_array(out);
	json_close_line(out);
}

/* --- All of it */

/* Since when each stack is where it is, from the look before. */
static void carry_since(struct report *report, const struct report *before)
{
	for (size_t i = 0; i < report->count; i++) {
		const struct stack *old = report_unmoved(report, &report->stacks[i], before);

		report->stacks[i].since_ns = old ? old->since_ns : report->time_ns;
	}
}

static double seconds_since(const struct report *report, uint64_t since_ns)
{
	return report->time_ns > since_ns ? (double)(report->time_ns - since_ns) / 1e9 : 0.0;
}

static void add_unmoved(const struct report *report, const size_t *numbers, size_t count, struct buffer *out)
{
	uint64_t latest_ns = 0;

	if (!count)
		return;
	for (size_t i = 0; i < count; i++)
		if (report->stacks[numbers[i]].since_ns > latest_ns)
			latest_ns = report->stacks[numbers[i]].since_ns;
	buffer_add_format(out, "%zu as before, for %.1f s or longer: ", count, seconds_since(report, latest_ns));
	for (size_t i = 0; i < count && i < NAMES_MAX; i++) {
		const struct stack *stack = &report->stacks[numbers[i]];

		buffer_add_text(out, i == 0 ? "" : ", ");
		buffer_add(out, stack->label.bytes, stack->label.size);
		if (seconds_since(report, stack->since_ns) >= seconds_since(report, latest_ns) + 0.1)
			buffer_add_format(out, " (%.1f s)", seconds_since(report, stack->since_ns));
	}
	add_more(out, count);
	buffer_add_char(out, '\n');
}

static void write_stacks(const struct report *report, const struct report *before, const struct report_style *style,
                         struct buffer *out)
{
	size_t *moved = memory_zeroed((report->count + 1) * sizeof(*moved)),
	       *unmoved = memory_zeroed((report->count + 1) * sizeof(*moved));
	size_t moved_count = 0, unmoved_count = 0, groups_count = 0;
	struct group *groups = NULL;

	for (size_t i = 0; i < report->count; i++) {
		if (!report->json && report_unmoved(report, &report->stacks[i], before))
			unmoved[unmoved_count++] = i;
		else
			moved[moved_count++] = i;
	}
	if (style->group)
		groups_count = groups_make(report, moved, moved_count, &groups);
	for (size_t i = 0; i < (style->group ? groups_count : moved_count); i++) {
		const struct group one = {&moved[i], 1}, *group = style->group ? &groups[i] : &one;

		(report->json ? group_json : group_text)(report, before, group, out);
	}
	add_unmoved(report, unmoved, unmoved_count, out);
	free(groups);
	free(moved);
	free(unmoved);
}

static void write_gone(const struct report *report, const struct report *before, struct buffer *out)
{
	for (size_t i = 0; i < before->count; i++) {
		const struct stack *old = &before->stacks[i];

		if (report_find(report, old))
			continue;
		buffer_add_text(out, "gone: ");
		buffer_add(out, old->heading.bytes, (size_t)(strchr(old->heading.bytes, '\n') + 1 - old->heading.bytes));
	}
}

/* The lines of JSON, each thread's with what only two looks can tell. */
static void add_lines(const struct report *report, const struct report *before, struct buffer *out)
{
	size_t done = 0;

	for (size_t i = 0; i < report->count; i++) {
		const struct stack *stack = &report->stacks[i];

		if (!stack->json_end)
			continue;
		buffer_add(out, report->lines.bytes + done, stack->json_end - done);
		add_since_json(report, before, stack, out);
		done = stack->json_end;
	}
	buffer_add(out, report->lines.bytes + done, report->lines.size - done);
}

void report_write(struct report *report, const struct report *before, const struct report_style *style, struct buffer *out)
{
	carry_since(report, before);
	buffer_add(out, report->head.bytes, report->head.size);
	add_lines(report, before, out);
	deadlocks_write(report, out);
	held_up_write(report, out);
	if (!report->json || style->group)
		write_stacks(report, before, style, out);
	if (before && !report->json)
		write_gone(report, before, out);
}
