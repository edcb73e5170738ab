/*
 * The heap dump, seen from the copy that writes it. See heap_dump_copy.h. Context: a copy, GVL held.
 *
 * Nothing of the application may run here. No GC is under way (heap_dump.c sees to that) and none begins, so nothing is freed;
 * finalizers, which are postponed jobs, have to wait for the one that we are in; the other threads are not here; and the end is
 * _exit().
 */

#define _GNU_SOURCE
#include "tracee/requests/heap_dump_copy.h"

#include "tracee/requests/silent_fork.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/objspace.h"

#include <errno.h>
#include <ruby.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct line {
	char *bytes;
	size_t size;
	size_t capacity;
	VALUE fiber_class;
	VALUE fiber; /* the one that was met last, Qnil: none */
};

static void add(struct line *line, const char *text)
{
	size_t size = strlen(text);

	if (line->size + size > line->capacity) {
		size_t capacity = 2 * line->capacity + 4096;
		char *bytes = realloc(line->bytes, capacity);

		if (!bytes)
			return;
		line->bytes = bytes;
		line->capacity = capacity;
	}
	memcpy(line->bytes + line->size, text, size);
	line->size += size;
}

static void add_reference(VALUE object, void *argument)
{
	struct line *line = argument;
	char text[32];

	if (!line->size)
		return; /* no memory */
	snprintf(text, sizeof(text), "%s\"%#lx\"", line->bytes[line->size - 1] == '[' ? "" : ", ", (unsigned long)object);
	add(line, text);
	if (!RB_SPECIAL_CONST_P(object) && RB_BUILTIN_TYPE(object) == RUBY_T_DATA && rb_obj_class(object) == line->fiber_class)
		line->fiber = object;
}

static void add_threads(struct line *line, VALUE threads)
{
	for (long i = 0; i < RARRAY_LEN(threads); i++) {
		VALUE thread = rb_ary_entry(threads, i);
		char text[96];

		snprintf(text, sizeof(text), "{\"type\":\"ROOT\", \"root\":\"thread %#lx\", \"references\":[",
		         (unsigned long)thread);
		add(line, text);
		line->fiber = Qnil;
		compat_each_reference(thread, add_reference, line);
		/* Where a thread's own fiber has been made an object (always on 4.1), it is that which refers to the stack. */
		if (!NIL_P(line->fiber))
			compat_each_reference(line->fiber, add_reference, line);
		add(line, "]}\n");
	}
}

/*
 * What the threads' stacks hold. Ruby's own dump would leave it out: here it takes all threads but this one for dead. As roots,
 * so that whatever reads dumps finds what keeps an object. No method may be called here: with the other threads still on its
 * books, Ruby might switch to one of them.
 */
static void write_threads(int descriptor, const struct heap_dump_order *order)
{
	struct line line = {.fiber_class = order->fiber_class};

	add_threads(&line, order->threads);
	for (size_t written = 0; written < line.size;) {
		ssize_t size = write(descriptor, line.bytes + written, line.size - written);

		if (size < 0)
			break;
		written += (size_t)size;
	}
	free(line.bytes);
}

void heap_dump_in_copy(void *argument)
{
	const struct heap_dump_order *order = argument;
	struct heap_dump_report *report = order->report;
	int descriptor = silent_fork_settle(SILENT_FORK_SERVANT, "rbprobe-dump", order->descriptor);

	sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0}); /* whoever wakes up in the application goes first */
	rb_gc_disable();
	write_threads(descriptor, order);
	rb_thread_atfork();
	if (objspace_load(order->library, &report->error) == 0 &&
	    objspace_dump(descriptor, order->threads, &report->own, &report->error) == 0)
		report->complete = true;
	_exit(report->complete ? 0 : 1);
}
