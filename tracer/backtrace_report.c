/* Putting looks together. See backtrace_report.h. */

#include "backtrace_report.h"

#include "backtrace_native.h"
#include "backtrace_state.h"
#include "backtrace_text.h"
#include "target.h"
#include "value.h"

#include <stdlib.h>
#include <string.h>

static bool type_is(const msgpack_object *map, const char *key, const char *type)
{
	struct slice text = value_text(value_get(map, key));

	return text.size == strlen(type) && memcmp(text.bytes, type, text.size) == 0;
}

static bool same(const struct buffer *one, const struct buffer *other)
{
	return one->size == other->size && (one->size == 0 || memcmp(one->bytes, other->bytes, one->size) == 0);
}

void report_begin(struct report *report, pid_t pid, bool json)
{
	struct target target = {.pid = pid};

	memset(report, 0, sizeof(*report));
	report->pid = pid;
	report->json = json;
	target_command_line(&target, report->command, sizeof(report->command));
	tasks_read(&report->tasks, pid);
}

static struct stack *stack_find(const struct report *report, uint64_t id, bool fiber)
{
	for (size_t i = 0; i < report->count; i++)
		if (report->stacks[i].id == id && report->stacks[i].fiber == fiber)
			return &report->stacks[i];
	return NULL;
}

static bool was_asleep(const struct report *report, const msgpack_object *thread)
{
	const struct task *task = tasks_find(&report->tasks, (pid_t)value_uint(value_get(thread, "native_id")));

	return task && (task->state == 'S' || task->state == 'D');
}

/* As the target has sent it, with what only we know in front. */
static void add_json(struct report *report, const msgpack_object *map)
{
	struct buffer line = {0}, state = {0}, text = {0};

	buffer_add_format(&report->lines, "{\"pid\":%d,", (int)report->pid);
	if (type_is(map, "type", "thread")) {
		msgpack_object string = {.type = MSGPACK_OBJECT_STR};

		backtrace_state_add(&state, map, was_asleep(report, map));
		string.via.str.ptr = state.bytes;
		string.via.str.size = (uint32_t)state.size;
		value_add_json(&text, &string);
		buffer_add_text(&report->lines, "\"state\":");
		buffer_add(&report->lines, text.bytes, text.size);
		buffer_add_char(&report->lines, ',');
	}
	value_add_json(&line, map);
	buffer_add(&report->lines, line.bytes + 1, line.size - 1);
	buffer_add_char(&report->lines, '\n');
	buffer_free(&line);
	buffer_free(&state);
	buffer_free(&text);
}

static void push(struct report *report, struct stack stack)
{
	if ((report->count & (report->count - 1)) == 0)
		report->stacks = memory_resize(report->stacks, (report->count ? 2 * report->count : 1) * sizeof(*report->stacks));
	report->stacks[report->count++] = stack;
}

static void add_stack(struct report *report, const msgpack_object *map)
{
	struct stack stack = {.id = value_uint(value_get(map, "id")),
	                      .native_id = (pid_t)value_uint(value_get(map, "native_id")),
	                      .fiber = type_is(map, "type", "fiber")};
	bool asleep = was_asleep(report, map);

	backtrace_text_heading(&stack.heading, map, asleep);
	if (!stack.fiber)
		backtrace_state_add(&stack.state, map, asleep);
	backtrace_text_frames(&stack.frames, map);
	push(report, stack);
}

void report_add_native(struct report *report, const struct native_stacks *stacks, bool only_known)
{
	for (size_t i = 0; i < stacks->count; i++) {
		const struct native_thread *thread = &stacks->threads[i];
		struct stack *known = NULL;

		for (size_t k = 0; k < report->count && !known; k++)
			if (report->stacks[k].native_id == thread->task.own_tid)
				known = &report->stacks[k];
		if (report->json) {
			native_thread_json(&report->lines, (int)report->pid, thread);
		} else if (known) {
			native_frames_text(&known->frames, thread);
		} else if (!only_known) {
			struct stack stack = {.id = (uint64_t)thread->task.tid, .native_id = thread->task.own_tid};

			native_heading_text(&stack.heading, thread);
			native_frames_text(&stack.frames, thread);
			push(report, stack);
		}
	}
}

void report_add(struct report *report, const msgpack_object *map)
{
	if (!map || map->type != MSGPACK_OBJECT_MAP || map->via.map.size == 0)
		return;
	if (report->json) {
		add_json(report, map);
	} else if (type_is(map, "type", "process")) {
		backtrace_text_process(&report->head, (int)report->pid, map, report->command);
	} else if (type_is(map, "type", "thread") || type_is(map, "type", "fiber")) {
		add_stack(report, map);
	} else if (type_is(map, "type", "frames")) {
		struct stack *stack = stack_find(report, value_uint(value_get(map, "id")), type_is(map, "of", "fiber"));

		if (stack)
			backtrace_text_frames(&stack->frames, map);
	}
}

static bool is_as_before(const struct stack *stack, const struct report *before)
{
	const struct stack *old = before ? stack_find(before, stack->id, stack->fiber) : NULL;

	return old && same(&old->frames, &stack->frames) && same(&old->state, &stack->state);
}

/* What stands above the frames of all that have the same ones. Returns how many there are. */
static size_t write_group(const struct report *report, size_t first, bool *written, const struct report *before,
                          struct buffer *out)
{
	size_t count = 0;

	for (size_t i = first; i < report->count; i++) {
		const struct stack *stack = &report->stacks[i];

		if (written[i] || !same(&stack->frames, &report->stacks[first].frames) || is_as_before(stack, before))
			continue;
		written[i] = true;
		count++;
		buffer_add(out, stack->heading.bytes, stack->heading.size);
	}
	return count;
}

static void write_stacks(const struct report *report, const struct report *before, const struct report_style *style,
                         struct buffer *out)
{
	bool *written = memory_zeroed(report->count * sizeof(*written) + 1);
	size_t unchanged = 0;

	for (size_t i = 0; i < report->count; i++) {
		const struct stack *stack = &report->stacks[i];

		if (written[i])
			continue;
		if (is_as_before(stack, before)) {
			unchanged++;
			continue;
		}
		if (style->group)
			write_group(report, i, written, before, out);
		else
			buffer_add(out, stack->heading.bytes, stack->heading.size);
		buffer_add(out, stack->frames.bytes, stack->frames.size);
	}
	if (unchanged)
		buffer_add_format(out, "%zu as before\n", unchanged);
	free(written);
}

void report_write(const struct report *report, const struct report *before, const struct report_style *style, struct buffer *out)
{
	if (report->json) {
		buffer_add(out, report->lines.bytes, report->lines.size);
		return;
	}
	buffer_add(out, report->head.bytes, report->head.size);
	write_stacks(report, before, style, out);
	for (size_t i = 0; before && i < before->count; i++) {
		const struct stack *old = &before->stacks[i];

		if (stack_find(report, old->id, old->fiber))
			continue;
		buffer_add_text(out, "gone: ");
		buffer_add(out, old->heading.bytes, (size_t)(strchr(old->heading.bytes, '\n') + 1 - old->heading.bytes));
	}
}

void report_free(struct report *report)
{
	for (size_t i = 0; i < report->count; i++) {
		buffer_free(&report->stacks[i].heading);
		buffer_free(&report->stacks[i].state);
		buffer_free(&report->stacks[i].frames);
	}
	free(report->stacks);
	buffer_free(&report->head);
	buffer_free(&report->lines);
	tasks_free(&report->tasks);
	memset(report, 0, sizeof(*report));
}
