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
	return slice_is(value_text(value_get(map, key)), type);
}

static bool same(const struct buffer *one, const struct buffer *other)
{
	return one->size == other->size && (one->size == 0 || memcmp(one->bytes, other->bytes, one->size) == 0);
}

static bool is_asleep(const struct task *task)
{
	return task->state == 'S' || task->state == 'D';
}

void report_begin(struct report *report, pid_t pid, bool json, const struct report_style *style)
{
	struct target target = {.pid = pid};

	memset(report, 0, sizeof(*report));
	report->pid = pid;
	report->json = json;
	report->style = style;
	target_command_line(&target, report->command, sizeof(report->command));
	tasks_read(&report->tasks, pid);
	report->descriptors = memory_zeroed((report->tasks.count + 1) * sizeof(*report->descriptors));
	for (size_t i = 0; i < report->tasks.count; i++)
		report->descriptors[i] =
			is_asleep(&report->tasks.items[i]) ? waits_on_descriptor(pid, report->tasks.items[i].tid) : -1;
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

/* text: what native->waits_on is in. */
static struct native_state native_state_of(struct report *report, const msgpack_object *thread, struct buffer *text)
{
	const struct task *task = tasks_find(&report->tasks, (pid_t)value_uint(value_get(thread, "native_id")));
	struct native_state native = {.was_asleep = task && is_asleep(task)};
	int descriptor;

	backtrace_waits_on_add(text, thread);
	native.waits_on = (struct slice){text->bytes, text->size};
	if (!native.was_asleep || native.waits_on.size)
		return native;
	descriptor = report->descriptors[task - report->tasks.items];
	native.on_descriptor = descriptor >= 0;
	/* One that was not woken still waits for the same, or it has gone on. */
	if (descriptor < 0 ||
	    (!value_bool(value_get(thread, "current")) && waits_on_descriptor(report->pid, task->tid) != descriptor))
		return native;
	if (waits_on_describe(text, report->pid, descriptor, &report->sockets))
		native.waits_on = (struct slice){text->bytes, text->size};
	return native;
}

/* Without the socket, which is another one for each of many threads that do the same. */
static void state_add(struct buffer *to, const msgpack_object *thread, struct native_state native)
{
	native.waits_on = (struct slice){"", 0};
	backtrace_state_add(to, thread, &native);
}

/* As the target has sent it, after what only we know. */
static void add_json(struct report *report, const msgpack_object *map)
{
	struct buffer *to = &report->lines, state = {0}, text = {0};

	json_open_object(to);
	json_member_int(to, "pid", report->pid);
	if (type_is(map, "type", "thread")) {
		struct native_state native = native_state_of(report, map, &text);

		state_add(&state, map, native);
		json_member_text(to, "state", (struct slice){state.bytes, state.size});
		if (native.waits_on.size)
			json_member_text(to, "waits_on", native.waits_on);
	}
	value_add_members(to, map);
	report->json_end = to->size;
	json_close_line(to);
	buffer_free(&state);
	buffer_free(&text);
}

static bool has_frames(const msgpack_object *map)
{
	return type_is(map, "type", "thread") || type_is(map, "type", "fiber") || type_is(map, "type", "frames");
}

static void add_frames(const struct report *report, struct buffer *to, const msgpack_object *map)
{
	const msgpack_object *frames = value_get(map, "frames");

	if (!report->json) {
		backtrace_text_frames(to, map, report->style->app);
		return;
	}
	for (uint32_t i = 0; report->style->group && i < value_count(frames); i++)
		value_add_json(to, value_at(frames, i));
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
	const msgpack_object *joins = value_get(map, "joins"), *mutex = value_get(map, "mutex");
	struct stack stack = {.id = value_uint(value_get(map, "id")),
	                      .native_id = (pid_t)value_uint(value_get(map, "native_id")),
	                      .fiber = type_is(map, "type", "fiber"),
	                      .json_end = report->style->group ? 0 : report->json_end,
	                      .cpu_ns = value_uint(value_get(map, "cpu_ns")),
	                      .cpu_known = value_get(map, "cpu_ns") != NULL,
	                      .mutex = value_uint(value_get(mutex, "id")),
	                      .monitor = value_uint(value_get(mutex, "monitor")),
	                      .owner = value_uint(mutex ? value_get(mutex, "owner") : value_get(joins, "thread")),
	                      .timed = value_bool(value_get(joins, "timed")),
	                      .waits_for = value_uint(value_get(map, "waits_for"))};
	struct buffer text = {0};
	struct native_state native = native_state_of(report, map, &text);

	stack.endless = backtrace_state_is_endless(map, &native);
	backtrace_text_heading(&stack.heading, map, &native, &stack.cpu_end);
	backtrace_text_label(&stack.label, map);
	if (!stack.fiber)
		state_add(&stack.state, map, native);
	buffer_free(&text);
	add_frames(report, &stack.frames, map);
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
	if (report->json && !(report->style->group && has_frames(map)))
		add_json(report, map);
	if (type_is(map, "type", "process")) {
		report->time_ns = value_uint(value_get(map, "time_ns"));
		report->threads = value_uint(value_get(map, "threads"));
		report->ractors = value_uint(value_get(map, "other_ractors")) > 0;
		report->compiler = type_is(map, "waits_missing", "compiler");
		if (!report->json)
			backtrace_text_process(&report->head, (int)report->pid, map, report->command);
	} else if (type_is(map, "type", "thread") || type_is(map, "type", "fiber")) {
		add_stack(report, map);
	} else if (type_is(map, "type", "frames")) {
		struct stack *stack = stack_find(report, value_uint(value_get(map, "id")), type_is(map, "of", "fiber"));

		if (stack)
			add_frames(report, &stack->frames, map);
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

const struct stack *report_unmoved(const struct report *report, const struct stack *stack, const struct report *before)
{
	const struct stack *old = before ? stack_find(before, stack->id, stack->fiber) : NULL;

	return old && same(&old->frames, &stack->frames) && same(&old->state, &stack->state) &&
	                       !has_computed(report, before, old, stack)
	               ? old
	               : NULL;
}

const struct stack *report_find(const struct report *report, const struct stack *stack)
{
	return stack_find(report, stack->id, stack->fiber);
}

bool report_cpu_since(const struct stack *stack, const struct report *before, uint64_t *used_ns)
{
	const struct stack *old = before ? report_find(before, stack) : NULL;

	if (!old || !old->cpu_known || !stack->cpu_known || stack->cpu_ns < old->cpu_ns)
		return false;
	*used_ns = stack->cpu_ns - old->cpu_ns;
	return true;
}

size_t report_waits_for(const struct report *report, size_t number)
{
	const struct stack *stack = &report->stacks[number], *owner;

	if (!stack->owner)
		return report->count;
	owner = stack_find(report, stack->owner, false);
	return owner ? (size_t)(owner - report->stacks) : report->count;
}

void report_free(struct report *report)
{
	for (size_t i = 0; i < report->count; i++) {
		buffer_free(&report->stacks[i].heading);
		buffer_free(&report->stacks[i].label);
		buffer_free(&report->stacks[i].state);
		buffer_free(&report->stacks[i].frames);
	}
	free(report->stacks);
	free(report->by_id.places);
	buffer_free(&report->head);
	buffer_free(&report->lines);
	tasks_free(&report->tasks);
	free(report->descriptors);
	socket_table_free(&report->sockets);
	memset(report, 0, sizeof(*report));
}
