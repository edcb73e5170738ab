/*
 * The threads that the sampler looks at. See thread_table.h. Context: on_begin(): event, in a new thread, GVL held; mark(): GC.
 *
 * The object that marks them has no write barrier: the GC looks at such objects again at the end of each of its rounds
 * (gc_marks_wb_unprotected_objects() of gc.c).
 */

#define _GNU_SOURCE
#include "tracee/observe/thread_table.h"

#include "proto/states.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/event_flags.h"
#include "tracee/vm/gvl_layout.h"
#include "tracee/vm/native_id.h"
#include "tracee/vm/own.h"

#include <ruby/debug.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
	struct sampled_thread threads[THREAD_TABLE_MAX];
	_Atomic uint32_t end;
	_Atomic uint64_t left_out;
	VALUE keeper;
	bool hooked;
} table;

static void mark(void *unused)
{
	(void)unused;
	for (uint32_t i = 0; i < table.end; i++)
		if (table.threads[i].used)
			rb_gc_mark(table.threads[i].thread);
}

static const rb_data_type_t keeper_type = {.wrap_struct_name = "rbprobe threads", .function = {.dmark = mark}};

struct sampled_thread *thread_table_at(uint32_t place)
{
	return &table.threads[place];
}

uint32_t thread_table_end(void)
{
	return table.end;
}

uint64_t thread_table_left_out(void)
{
	return table.left_out;
}

struct sampled_thread *thread_table_find(uintptr_t structure)
{
	for (uint32_t i = 0; i < table.end; i++)
		if (table.threads[i].used && table.threads[i].structure == structure)
			return &table.threads[i];
	return NULL;
}

/* Allocates nothing. */
static void add(VALUE thread, uint32_t native_id)
{
	uintptr_t structure = gvl_layout_thread(thread);
	struct sampled_thread *known = thread_table_find(structure);
	uint32_t place = 0;

	/* Up to now it had not begun, and had none. */
	if (known && native_id)
		known->native_id = native_id;
	if (known)
		return;
	while (place < table.end && table.threads[place].used)
		place++;
	if (place == THREAD_TABLE_MAX) {
		table.left_out++;
		return;
	}
	table.threads[place].thread = thread;
	table.threads[place].structure = structure;
	table.threads[place].native_id = native_id;
	table.threads[place].last = STATE_EVENTS;
	table.threads[place].collections = 0;
	table.threads[place].has_cpu = false;
	table.threads[place].used = true;
	if (place == table.end)
		table.end = place + 1;
}

static void on_begin(rb_event_flag_t event, VALUE data, VALUE self, ID id, VALUE class)
{
	(void)event;
	(void)data;
	(void)self;
	(void)id;
	(void)class;
	add(rb_thread_current(), (uint32_t)syscall(SYS_gettid));
}

void thread_table_list(void)
{
	VALUE list = builtin_call0(BUILTIN_THREAD_LIST, rb_cThread);

	for (long i = 0; i < RARRAY_LEN(list); i++) {
		VALUE thread = RARRAY_AREF(list, i);
		uint32_t native_id = 0;

		if (!native_id_of(thread, &native_id))
			native_id = gvl_layout_native_id(gvl_layout_thread(thread));
		add(thread, native_id);
	}
	RB_GC_GUARD(list);
}

void thread_table_open(void)
{
	if (!table.keeper) {
		own_register(&table.keeper);
		table.keeper = TypedData_Wrap_Struct(0, &keeper_type, &table);
	}
	thread_table_list();
	if (table.hooked)
		return;
	event_flags_look();
	rb_add_event_hook(on_begin, RUBY_EVENT_THREAD_BEGIN, Qnil);
	table.hooked = true;
}

void thread_table_close(void)
{
	if (table.hooked)
		rb_remove_event_hook(on_begin);
	table.hooked = false;
	thread_table_fork_child();
}

void thread_table_fork_child(void)
{
	for (uint32_t i = 0; i < table.end; i++)
		table.threads[i].used = false;
	table.end = 0;
	table.left_out = 0;
}
