/* Putting looks together. See backtrace_report.h. */

#include "tracer/backtrace/backtrace_report.h"

#include "proto/clock.h"
#include "tracer/backtrace/backtrace_native.h"
#include "tracer/backtrace/backtrace_state.h"
#include "tracer/backtrace/backtrace_text.h"
#include "tracer/base/json.h"
#include "tracer/base/value.h"
#include "tracer/process/target.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define CPU_LEAST_NS (5 * NS_PER_MS) /* more than being looked at takes */

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

/* --- Finding one of many: a process may report a million, with whatever ids */

typedef bool same_stack(const struct stack *one, const struct stack *other);

/* Nobody knows it beforehand, so that nobody can have all in one place. */
static uint64_t secret(void)
{
	static uint64_t odd;

	if (!odd && getrandom(&odd, sizeof(odd), GRND_NONBLOCK) != (ssize_t)sizeof(odd))
		odd = 0x9e3779b97f4a7c15u;
	return odd |= 1;
}

/* The place of the one that is the same, or where it is to be put. */
static uint32_t *index_place(const struct stack_index *index, const struct stack *stacks, const struct stack *stack,
                             uint64_t hash, same_stack *is_same)
{
	size_t at = (hash * secret() >> 32) & (index->capacity - 1);

	while (index->places[at] && !is_same(&stacks[index->places[at] - 1], stack))
		at = (at + 1) & (index->capacity - 1);
	return &index->places[at];
}

static bool same_id(const struct stack *one, const struct stack *other)
{
	return one->id == other->id && one->fiber == other->fiber;
}

static void index_add(struct report *report, size_t number)
{
	struct stack_index *index = &report->by_id;
	const struct stack *stack = &report->stacks[number];
	uint32_t *place;

	if (2 * (number + 1) > index->capacity) {
		free(index->places);
		index->capacity = index->capacity ? 2 * index->capacity : 64;
		index->places = memory_zeroed(index->capacity * sizeof(*index->places));
		for (size_t i = 0; i < number; i++)
			index_add(report, i);
	}
	place = index_place(index, report->stacks, stack, stack->id, same_id);
	if (!*place)
		*place = (uint32_t)number + 1;
}

static struct stack *stack_find(const struct report *report, uint64_t id, bool fiber)
{
	const struct stack wanted = {.id = id, .fiber = fiber};
	uint32_t found = report->by_id.capacity ? *index_place(&report->by_id, report->stacks, &wanted, id, same_id) : 0;

	return found ? &report->stacks[found - 1] : NULL;
}

static bool was_asleep(const struct report *report, const msgpack_object *thread)
{
	const struct task *task = tasks_find(&report->tasks, (pid_t)value_uint(value_get(thread, "native_id")));

	return task && (task->state == 'S' || task->state == 'D');
}

/* As the target has sent it, after what only we know. */
static void add_json(struct report *report, const msgpack_object *map)
{
	struct buffer *to = &report->lines, state = {0};

	json_open_object(to);
	json_member_int(to, "pid", report->pid);
	if (type_is(map, "type", "thread")) {
		backtrace_state_add(&state, map, was_asleep(report, map));
		json_member_text(to, "state", (struct slice){state.bytes, state.size});
	}
	value_add_members(to, map);
	json_close_line(to);
	buffer_free(&state);
}

static void push(struct report *report, struct stack stack)
{
	if ((report->count & (report->count - 1)) == 0)
		report->stacks = memory_resize(report->stacks, (report->count ? 2 * report->count : 1) * sizeof(*report->stacks));
	report->stacks[report->count++] = stack;
	index_add(report, report->count - 1);
}

static void add_stack(struct report *report, const msgpack_object *map)
{
	struct stack stack = {.id = value_uint(value_get(map, "id")),
	                      .native_id = (pid_t)value_uint(value_get(map, "native_id")),
	                      .fiber = type_is(map, "type", "fiber"),
	                      .cpu_ns = value_uint(value_get(map, "cpu_ns")),
	                      .cpu_known = value_get(map, "cpu_ns") != NULL};
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
		report->time_ns = value_uint(value_get(map, "time_ns"));
		backtrace_text_process(&report->head, (int)report->pid, map, report->command);
	} else if (type_is(map, "type", "thread") || type_is(map, "type", "fiber")) {
		add_stack(report, map);
	} else if (type_is(map, "type", "frames")) {
		struct stack *stack = stack_find(report, value_uint(value_get(map, "id")), type_is(map, "of", "fiber"));

		if (stack)
			backtrace_text_frames(&stack->frames, map);
	}
}

/* A thread that uses a hundredth of a processor computes, though it is found where it was: that is what is looked for. */
static bool has_computed(const struct report *report, const struct report *before, const struct stack *old,
                         const struct stack *stack)
{
	uint64_t used_ns = stack->cpu_ns - old->cpu_ns;

	if (!stack->cpu_known || !old->cpu_known)
		return stack->state.size >= strlen("running") && memcmp(stack->state.bytes, "running", strlen("running")) == 0;
	return stack->cpu_ns > old->cpu_ns && used_ns > CPU_LEAST_NS && used_ns * 100 > report->time_ns - before->time_ns;
}

static bool is_as_before(const struct report *report, const struct stack *stack, const struct report *before)
{
	const struct stack *old = before ? stack_find(before, stack->id, stack->fiber) : NULL;

	return old && same(&old->frames, &stack->frames) && same(&old->state, &stack->state) &&
	       !has_computed(report, before, old, stack);
}

static bool same_frames(const struct stack *one, const struct stack *other)
{
	return same(&one->frames, &other->frames);
}

static uint64_t hash_of(const struct buffer *text)
{
	uint64_t hash = text->size;

	for (size_t i = 0; i < text->size; i++)
		hash = (hash ^ (unsigned char)text->bytes[i]) * secret() + (hash >> 29);
	return hash;
}

/*
 * Of each that has changed, 1 + the number of the next one with the same frames, or 0. Who is such a next one is marked
 * in `follows`.
 */
static uint32_t *groups_make(const struct report *report, const struct report *before, bool *follows)
{
	uint32_t *next = memory_zeroed(report->count * sizeof(*next)), *last = memory_zeroed(report->count * sizeof(*last));
	struct stack_index index = {.capacity = report->by_id.capacity};

	index.places = memory_zeroed(index.capacity * sizeof(*index.places));
	for (size_t i = 0; i < report->count; i++) {
		const struct stack *stack = &report->stacks[i];
		uint32_t *place;

		if (is_as_before(report, stack, before))
			continue;
		place = index_place(&index, report->stacks, stack, hash_of(&stack->frames), same_frames);
		if (*place) {
			next[last[*place - 1]] = (uint32_t)i + 1;
			follows[i] = true;
		} else {
			*place = (uint32_t)i + 1;
		}
		last[*place - 1] = (uint32_t)i;
	}
	free(index.places);
	free(last);
	return next;
}

static void write_stacks(const struct report *report, const struct report *before, const struct report_style *style,
                         struct buffer *out)
{
	bool *follows = memory_zeroed(report->count * sizeof(*follows));
	uint32_t *next = style->group && report->count ? groups_make(report, before, follows) : NULL;
	size_t unchanged = 0;

	for (size_t i = 0; i < report->count; i++) {
		const struct stack *stack = &report->stacks[i];

		if (follows[i])
			continue;
		if (is_as_before(report, stack, before)) {
			unchanged++;
			continue;
		}
		buffer_add(out, stack->heading.bytes, stack->heading.size);
		for (uint32_t other = next ? next[i] : 0; other; other = next[other - 1])
			buffer_add(out, report->stacks[other - 1].heading.bytes, report->stacks[other - 1].heading.size);
		buffer_add(out, stack->frames.bytes, stack->frames.size);
	}
	if (unchanged)
		buffer_add_format(out, "%zu as before\n", unchanged);
	free(next);
	free(follows);
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
	free(report->by_id.places);
	buffer_free(&report->head);
	buffer_free(&report->lines);
	tasks_free(&report->tasks);
	memset(report, 0, sizeof(*report));
}
