/* Which methods are hot. See top_hot.h. */

#define _GNU_SOURCE
#include "tracer/top/top_hot.h"

#include "proto/fnv.h"
#include "tracer/base/buffer.h"
#include "tracer/base/value.h"
#include "tracer/top/top_select.h"

#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 10000
#define CPU_LEAST_NS 1000000u /* less is what being looked at takes */
#define NAME_MAX_SIZE 500

/* --- Threads */

static struct top_hot_thread *thread_of(struct top_hot *hot, pid_t pid, uint64_t id)
{
	for (size_t i = 0; i < hot->thread_count; i++)
		if (hot->threads[i].pid == pid && hot->threads[i].id == id)
			return &hot->threads[i];
	if (hot->thread_count == THREADS_MAX)
		return NULL;
	if ((hot->thread_count & (hot->thread_count - 1)) == 0)
		hot->threads =
			memory_resize(hot->threads, (hot->thread_count ? 2 * hot->thread_count : 1) * sizeof(*hot->threads));
	hot->threads[hot->thread_count] = (struct top_hot_thread){.pid = pid, .id = id};
	return &hot->threads[hot->thread_count++];
}

/* Whether it has done something since the look before; a thread that is seen for the first time is not known to have. */
static bool has_moved(struct top_hot *hot, pid_t pid, const msgpack_object *map, const msgpack_object *frames)
{
	struct top_hot_thread *thread = thread_of(hot, pid, value_uint(value_get(map, "id")));
	uint64_t cpu_ns = value_uint(value_get(map, "cpu_ns")), hash = FNV64_BEGIN;
	bool moved;

	for (uint32_t i = 0; i < value_count(frames); i++) {
		const msgpack_object *frame = value_at(frames, i);

		hash = fnv64_add(hash, value_text(value_get(frame, "label")));
		hash = fnv64_step(hash, (uint64_t)value_line(value_get(frame, "line")));
	}
	if (!thread)
		return false;
	moved = thread->hash && (thread->hash != hash || cpu_ns > thread->cpu_ns + CPU_LEAST_NS);
	thread->hash = hash;
	thread->cpu_ns = cpu_ns;
	return moved;
}

/* --- Methods */

/* A method's name, without what a label says beside it; {NULL, 0}: the label is of none. */
static struct slice name_in(struct slice label, bool *selectable)
{
	struct slice name = top_select_in_label(label);

	*selectable = name.bytes != NULL;
	if (*selectable)
		return name;
	/* "<main>", "<top (required)>", "<class:Order>" */
	if (!label.size || label.bytes[label.size - 1] == '>')
		return (struct slice){NULL, 0};
	return label;
}

static struct top_hot_method *method_of(struct top_hot *hot, struct slice name, bool selectable)
{
	size_t at = fnv64_add(FNV64_BEGIN, name) & (TOP_HOT_SLOTS - 1);
	struct top_hot_method *method;

	if (!hot->slots) {
		hot->slots = memory_zeroed(TOP_HOT_SLOTS * sizeof(*hot->slots));
		hot->methods = memory_zeroed(TOP_HOT_METHODS_MAX * sizeof(*hot->methods));
	}
	for (; hot->slots[at]; at = (at + 1) & (TOP_HOT_SLOTS - 1)) {
		method = &hot->methods[hot->slots[at] - 1];
		if (strlen(method->name) == name.size && memcmp(method->name, name.bytes, name.size) == 0)
			return method;
	}
	if (hot->count == TOP_HOT_METHODS_MAX || name.size > NAME_MAX_SIZE || memchr(name.bytes, '\0', name.size))
		return NULL;
	method = &hot->methods[hot->count++];
	method->name = memory_zeroed(name.size + 1);
	memcpy(method->name, name.bytes, name.size);
	method->selectable = selectable;
	hot->slots[at] = (uint32_t)hot->count;
	return method;
}

void top_hot_add(struct top_hot *hot, pid_t pid, const msgpack_object *map)
{
	const msgpack_object *frames = value_get(map, "frames");
	struct slice type = value_text(value_get(map, "type"));

	if (type.size != strlen("thread") || memcmp(type.bytes, "thread", type.size) != 0 || !has_moved(hot, pid, map, frames))
		return;
	hot->stacks++;
	for (uint32_t i = 0; i < value_count(frames); i++) {
		bool selectable;
		struct slice name = name_in(value_text(value_get(value_at(frames, i), "label")), &selectable);
		struct top_hot_method *method = name.bytes ? method_of(hot, name, selectable) : NULL;

		if (!method || method->stack == hot->stacks)
			continue;
		method->stack = hot->stacks;
		method->weight += 1.0 / (1 + i);
	}
}

static int compare(const void *one, const void *other)
{
	const struct top_hot_method *a = one, *b = other;
	int order = (a->weight < b->weight) - (a->weight > b->weight);

	return order ? order : strcmp(a->name, b->name);
}

size_t top_hot_take(struct top_hot *hot, char **names, size_t max, size_t *unnamed)
{
	size_t taken = 0;

	*unnamed = 0;
	if (hot->count)
		qsort(hot->methods, hot->count, sizeof(*hot->methods), compare);
	for (size_t i = 0; i < hot->count && taken < max; i++) {
		*unnamed += !hot->methods[i].selectable;
		if (!hot->methods[i].selectable)
			continue;
		names[taken++] = hot->methods[i].name;
		hot->methods[i].name = NULL;
	}
	return taken;
}

void top_hot_free(struct top_hot *hot)
{
	for (size_t i = 0; i < hot->count; i++)
		free(hot->methods[i].name);
	free(hot->methods);
	free(hot->slots);
	free(hot->threads);
	*hot = (struct top_hot){0};
}
