/*
 * Objects of a profile that are still alive. See profile_retained.h.
 *
 * They are in a table by their addresses. FREEOBJ, an event of the VM's own that rewrites no code, comes before a slot is used
 * again. Compaction moves objects: then all are put into a second table by their new addresses. Nothing is allocated in GC.
 *
 * Context: on_free() in GC, on the thread that collects; all else as the header says.
 */

#include "tracee/requests/profile_retained.h"

#include "tracee/session/gc_hook.h"

#include <ruby/debug.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS (1u << 16) /* half of them are used */
#define GONE 1           /* in place of an object: look on behind it */

struct table {
	struct profile_retained_object items[SLOTS];
	uint32_t used; /* those that are gone, too */
};

struct profile_retained {
	struct table tables[2], *now;
};

static struct profile_retained *active;

static uint32_t slot_of(VALUE object)
{
	return (uint32_t)(((uint64_t)object >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 40);
}

static bool put(struct table *table, const struct profile_retained_object *object)
{
	if (table->used >= SLOTS / 2)
		return false;
	for (uint32_t at = slot_of(object->object);; at++) {
		struct profile_retained_object *place = &table->items[at & (SLOTS - 1)];

		if (place->object > GONE)
			continue;
		table->used += place->object == 0;
		*place = *object;
		return true;
	}
}

/* Into the other table, without those that are gone. */
static void renew(struct profile_retained *retained, bool moved)
{
	struct table *before = retained->now,
		     *after = before == &retained->tables[0] ? &retained->tables[1] : &retained->tables[0];

	memset(after, 0, sizeof(*after));
	for (uint32_t i = 0; i < SLOTS; i++) {
		struct profile_retained_object object = before->items[i];

		if (object.object <= GONE)
			continue;
		if (moved)
			object.object = rb_gc_location(object.object);
		put(after, &object);
	}
	retained->now = after;
}

static void on_free(VALUE unused, const rb_trace_arg_t *trace_arg)
{
	VALUE object;

	(void)unused;
	if (!active || !active->now->used)
		return;
	object = rb_tracearg_object((rb_trace_arg_t *)trace_arg);
	for (uint32_t at = slot_of(object);; at++) {
		struct profile_retained_object *place = &active->now->items[at & (SLOTS - 1)];

		if (!place->object)
			return;
		if (place->object != object)
			continue;
		place->object = GONE;
		return;
	}
}

static rb_event_hook_func_t hook(void)
{
	return (rb_event_hook_func_t)(void (*)(void))on_free;
}

struct profile_retained *profile_retained_start(void)
{
	struct profile_retained *retained = calloc(1, sizeof(*retained));

	if (!retained || !gc_hook_add_raw(hook(), RUBY_INTERNAL_EVENT_FREEOBJ)) {
		free(retained);
		return NULL;
	}
	retained->now = &retained->tables[0];
	active = retained;
	return retained;
}

void profile_retained_stop(struct profile_retained *retained)
{
	if (active == retained)
		active = NULL;
	gc_hook_remove(hook());
}

void profile_retained_free(struct profile_retained *retained)
{
	if (active == retained)
		active = NULL;
	free(retained);
}

void profile_retained_abandon(void)
{
	active = NULL;
}

void profile_retained_moved(struct profile_retained *retained)
{
	renew(retained, true);
}

bool profile_retained_add(struct profile_retained *retained, const struct profile_retained_object *object)
{
	/* Before Ruby 3.2 the hook goes where the application makes a Ractor. */
	if (!gc_hook_is_on(hook()))
		return false;
	if (put(retained->now, object))
		return true;
	renew(retained, false);
	return put(retained->now, object);
}

const struct profile_retained_object *profile_retained_next(const struct profile_retained *retained, uint32_t *at)
{
	while (*at < SLOTS && retained->now->items[*at].object <= GONE)
		++*at;
	return *at < SLOTS && gc_hook_is_on(hook()) ? &retained->now->items[(*at)++] : NULL;
}
