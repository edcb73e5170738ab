/*
 * Objects of a profile that are still alive. See profile_retained.h.
 *
 * They are in a table by their addresses. FREEOBJ, an event of the VM's own that rewrites no code, comes before a slot is used
 * again. Compaction moves objects: then all are put into a second table by their new addresses. Nothing is allocated in GC.
 *
 * Context: on_free() in GC, on the thread that collects; all else as the header says.
 */

#include "tracee/requests/profile_retained.h"

#include "tracee/base/safe_read.h"
#include "tracee/session/gc_hook.h"
#include "tracee/vm/compat.h"

#include <ruby/debug.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS (1u << 16) /* half of them are used */
#define PAGE_BITS 14     /* of the smallest page of the VM's heap */
#define PAGE_ANSWERS 256u
#define GONE 1 /* in place of an object: look on behind it */

struct table {
	struct profile_retained_object items[SLOTS];
	uint32_t used; /* those that are gone, too */
};

struct profile_retained {
	struct table tables[2], *now;
	uint64_t unwatched;
	bool alone; /* there has been one Ractor: asking calls Ruby, which a collection must not, so jobs do */
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

/* Which pages of the heap are there, as far as was asked in one collection. */
struct page_answers {
	uintptr_t numbers[PAGE_ANSWERS]; /* 0: none */
	bool there[PAGE_ANSWERS];
};

static bool is_there(struct page_answers *answers, VALUE object)
{
	uintptr_t number = (uintptr_t)object >> PAGE_BITS, at = number % PAGE_ANSWERS;
	uintptr_t flags;

	if (answers->numbers[at] != number) {
		answers->numbers[at] = number;
		answers->there[at] = safe_read_words((uintptr_t)object, &flags, 1);
	}
	return answers->there[at];
}

/*
 * Into the other table, without those that are gone. A Ractor that came and went between two jobs may have freed an object
 * unheard, and its page with it: where that is, nothing is.
 */
static void renew(struct profile_retained *retained, bool moved)
{
	struct page_answers answers = {0};
	struct table *before = retained->now,
		     *after = before == &retained->tables[0] ? &retained->tables[1] : &retained->tables[0];

	memset(after, 0, sizeof(*after));
	for (uint32_t i = 0; i < SLOTS; i++) {
		struct profile_retained_object object = before->items[i];

		if (object.object <= GONE)
			continue;
		if (moved && !is_there(&answers, object.object)) {
			retained->unwatched += object.stands_for;
			continue;
		}
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
	retained->alone = compat_is_only_ractor();
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

/* Which of them have been freed since the hook went is not known, nor what is at their addresses. */
static void forget(struct profile_retained *retained)
{
	for (uint32_t i = 0; i < SLOTS; i++)
		retained->unwatched += retained->now->items[i].object > GONE ? retained->now->items[i].stands_for : 0;
	memset(retained->now, 0, sizeof(*retained->now));
}

void profile_retained_moved(struct profile_retained *retained)
{
	/* A collection that was not heard, another Ractor's up to 3.4 for one, may have freed an object and its page. */
	if (retained->alone && compat_in_main_ractor() && gc_hook_is_on(hook()))
		renew(retained, true);
	else
		forget(retained);
}

void profile_retained_look(struct profile_retained *retained)
{
	bool alone = retained->alone;

	retained->alone = false; /* where the question raises */
	retained->alone = alone && compat_is_only_ractor();
}

bool profile_retained_add(struct profile_retained *retained, const struct profile_retained_object *object)
{
	if (put(retained->now, object))
		return true;
	renew(retained, false);
	return put(retained->now, object);
}

bool profile_retained_watch(struct profile_retained *retained)
{
	if (gc_hook_is_on(hook()))
		return true;
	forget(retained);
	return gc_hook_add_raw(hook(), RUBY_INTERNAL_EVENT_FREEOBJ);
}

uint64_t profile_retained_unwatched(const struct profile_retained *retained)
{
	return retained->unwatched;
}

/* --- At the end */

struct page {
	uintptr_t start, end;
	size_t stride;
};

struct pages {
	struct page *items;
	size_t count, room;
	bool complete;
};

static int note_page(void *start, void *end, size_t stride, void *data)
{
	struct pages *pages = data;

	if (pages->count == pages->room) {
		size_t room = pages->room ? 2 * pages->room : 1024;
		struct page *larger = realloc(pages->items, room * sizeof(*larger));

		if (!larger) {
			pages->complete = false;
			return 1;
		}
		pages->items = larger;
		pages->room = room;
	}
	pages->items[pages->count++] = (struct page){(uintptr_t)start, (uintptr_t)end, stride};
	return 0;
}

static int compare_pages(const void *one, const void *other)
{
	uintptr_t a = ((const struct page *)one)->start, b = ((const struct page *)other)->start;

	return (a > b) - (a < b);
}

static bool is_object(const struct pages *pages, VALUE object)
{
	size_t from = 0, to = pages->count;

	while (from < to) {
		size_t middle = (from + to) / 2;
		const struct page *page = &pages->items[middle];

		if ((uintptr_t)object < page->start)
			to = middle;
		else if ((uintptr_t)object >= page->end)
			from = middle + 1;
		else
			return ((uintptr_t)object - page->start) % page->stride == 0 && !compat_slot_is_free(object);
	}
	return false;
}

void profile_retained_settle(struct profile_retained *retained)
{
	struct pages pages = {.complete = true};

	if (!profile_retained_watch(retained))
		return;
	if (!compat_each_page(note_page, &pages) || !pages.complete) {
		free(pages.items);
		forget(retained);
		return;
	}
	qsort(pages.items, pages.count, sizeof(*pages.items), compare_pages);
	for (uint32_t i = 0; i < SLOTS; i++)
		if (retained->now->items[i].object > GONE && !is_object(&pages, retained->now->items[i].object))
			retained->now->items[i].object = GONE;
	free(pages.items);
}

const struct profile_retained_object *profile_retained_next(const struct profile_retained *retained, uint32_t *at)
{
	while (*at < SLOTS && retained->now->items[*at].object <= GONE)
		++*at;
	return *at < SLOTS ? &retained->now->items[(*at)++] : NULL;
}
