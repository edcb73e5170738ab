/*
 * Every object of a class. See heap_list.h.
 *
 * Facts that this relies on, seen on 2.7, 3.1, 3.3, 3.4, 4.0 and 4.1:
 * - rb_objspace_each_objects() shows the heap page by page. Told to stop, it shows no more pages of that size of slots, but goes
 *   on with the next size. A collection that is under way is finished first.
 * - Some classes are the VM's own (RubyVM::FrozenCore): on 4.0 whoever calls a method of it crashes. Another function knows them.
 * - Nothing but a compaction moves an object to another page; GC.stat counts these.
 *
 * So a page has to be looked at but once. One that is freed and comes again has objects that are newer than the walk. After a
 * compaction the walk begins anew.
 */

#include "tracee/vm/heap_list.h"

#include "proto/clock.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"

#include <string.h>

#define PIECE_NS (2 * NS_PER_MS)
#define PIECE_PAGES 1024u /* at most */
#define FOUND_MAX 2048u   /* in a piece; no page of Ruby's own heap has as many slots */
#define SLOTS_MIN 8u
#define ATTEMPTS_MAX 5u /* then all at once */
#define TABLE_FIRST (4 * PIECE_PAGES)

struct piece {
	struct heap_list *list;
	uintptr_t *table;
	size_t size; /* of the table */
	uint64_t until_ns;
	size_t pages; /* looked at */
	size_t found_count;
	bool stopped;
	bool large;             /* a page has too many slots */
	VALUE found[FOUND_MAX]; /* on the machine's stack, where the GC sees them */
};

static uintptr_t *place_of(uintptr_t *table, size_t size, uintptr_t page)
{
	size_t at = (size_t)(((uint64_t)page >> 12) * UINT64_C(0x9e3779b97f4a7c15) >> 32);

	while (table[at & (size - 1)] && table[at & (size - 1)] != page)
		at++;
	return &table[at & (size - 1)];
}

#ifdef HAVE_RB_OBJSPACE_INTERNAL_OBJECT_P

/* Exported for the objspace extension, in no header. The same from 2.7 to 4.1. */
int rb_objspace_internal_object_p(VALUE object);

/* As ObjectSpace.each_object() has it. A VM that is built with a sanitizer poisons its free slots. */
__attribute__((no_sanitize("address"))) static bool is_wanted(VALUE slot, VALUE class)
{
	VALUE type = RBASIC(slot)->flags & RUBY_T_MASK;

	if (class == rb_cModule)
		return (type == RUBY_T_CLASS || type == RUBY_T_MODULE) && !rb_objspace_internal_object_p(slot);
	return type == RUBY_T_DATA && !rb_objspace_internal_object_p(slot) && RTEST(rb_obj_is_kind_of(slot, class));
}

static bool walk_pages(int (*page)(void *start, void *end, size_t stride, void *data), void *data)
{
	return compat_each_page(page, data);
}

#else

static bool is_wanted(VALUE slot, VALUE class)
{
	(void)slot;
	(void)class;
	return false;
}

static bool walk_pages(int (*page)(void *start, void *end, size_t stride, void *data), void *data)
{
	(void)page;
	(void)data;
	return false;
}

#endif

/* Allocates nothing. */
static int look_at_page(void *start, void *end, size_t stride, void *data)
{
	struct piece *piece = data;
	uintptr_t *place = place_of(piece->table, piece->size, (uintptr_t)start);
	size_t slots = (size_t)((char *)end - (char *)start) / stride;

	if (piece->stopped || *place)
		return piece->stopped;
	/* Few: a collector of another kind, which has no pages. */
	piece->large = slots > FOUND_MAX || slots < SLOTS_MIN;
	if (piece->large || slots > FOUND_MAX - piece->found_count || piece->pages == PIECE_PAGES ||
	    (piece->pages && clock_now_ns() > piece->until_ns)) {
		piece->stopped = true;
		return 1;
	}
	*place = (uintptr_t)start;
	piece->pages++;
	for (char *slot = start; slot < (char *)end; slot += stride)
		if (is_wanted((VALUE)slot, piece->list->class))
			piece->found[piece->found_count++] = (VALUE)slot;
	return 0;
}

static size_t compactions(void)
{
	return rb_gc_stat(ID2SYM(rb_intern("compact_count")));
}

static VALUE new_table(size_t size)
{
	VALUE table = rb_str_new(NULL, (long)(size * sizeof(uintptr_t)));

	memset(RSTRING_PTR(table), 0, size * sizeof(uintptr_t));
	return table;
}

static size_t size_of(VALUE table)
{
	return (size_t)RSTRING_LEN(table) / sizeof(uintptr_t);
}

/* Half of it stays empty. */
static void make_room(struct heap_list *list)
{
	size_t size = size_of(list->pages);
	VALUE larger;

	if (2 * (list->page_count + PIECE_PAGES) <= size)
		return;
	larger = new_table(2 * size);
	for (size_t i = 0; i < size; i++) {
		uintptr_t page = ((const uintptr_t *)RSTRING_PTR(list->pages))[i];

		if (page)
			*place_of((uintptr_t *)RSTRING_PTR(larger), 2 * size, page) = page;
	}
	list->pages = larger;
}

static VALUE collect(RB_BLOCK_CALL_FUNC_ARGLIST(object, objects))
{
	(void)argc;
	(void)argv;
	(void)blockarg;
	return rb_ary_push(objects, object);
}

VALUE heap_list_all(VALUE class)
{
	VALUE objects = rb_ary_new();

	builtin_iterate(BUILTIN_EACH_OBJECT, rb_path2class("ObjectSpace"), 1, &class, collect, objects);
	return objects;
}

static void take_all(struct heap_list *list)
{
	list->objects = heap_list_all(list->class);
	list->pages = Qnil;
}

static void begin_anew(struct heap_list *list)
{
	list->attempts++;
	list->page_count = 0;
	list->compactions = compactions();
	list->objects = rb_ary_new();
	list->pages = new_table(TABLE_FIRST);
}

void heap_list_begin(struct heap_list *list, VALUE class)
{
	list->class = class;
	list->attempts = 0;
	list->pages = Qnil;
	begin_anew(list);
}

bool heap_list_next(struct heap_list *list)
{
	struct piece piece;

	if (NIL_P(list->pages))
		return false;
	if (list->compactions != compactions())
		begin_anew(list);
	make_room(list);
	piece.list = list;
	piece.table = (uintptr_t *)RSTRING_PTR(list->pages);
	piece.size = size_of(list->pages);
	piece.until_ns = clock_now_ns() + PIECE_NS;
	piece.pages = piece.found_count = 0;
	piece.stopped = piece.large = false;
	if (list->attempts > ATTEMPTS_MAX || !walk_pages(look_at_page, &piece) || piece.large) {
		take_all(list);
		return true;
	}
	list->page_count += piece.pages;
	for (size_t i = 0; i < piece.found_count; i++)
		rb_ary_push(list->objects, piece.found[i]);
	/* What the last pages have given may have been moved there meanwhile. */
	if (!piece.stopped && list->compactions == compactions())
		list->pages = Qnil;
	return true;
}

/* The running one may be of a class of the application's. */
static VALUE fiber_class(VALUE fiber)
{
	VALUE class = rb_obj_class(fiber), above;

	while ((above = rb_class_superclass(class)) != rb_cObject)
		class = above;
	return class;
}

VALUE heap_list_fibers(void)
{
	VALUE current = rb_fiber_current();
	struct heap_list list;

	if (!compat_is_only_ractor())
		return Qnil;
	heap_list_begin(&list, fiber_class(current));
	while (heap_list_next(&list))
		;
	for (long i = 0; i < RARRAY_LEN(list.objects); i++)
		if (RARRAY_AREF(list.objects, i) == current)
			return list.objects;
	return Qnil;
}

void heap_list_mark(const struct heap_list *list)
{
	rb_gc_mark(list->objects);
	rb_gc_mark(list->pages);
}
