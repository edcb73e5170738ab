/*
 * What is measured of a call beside its time. See measure.h. Context: event, GVL held, but for opening and closing.
 *
 * Time in GC has a clock of its own, which hooks for GC_ENTER and GC_EXIT drive. The VM enters once for each piece of work: a
 * collection, an incremental step of marking, a step of lazy sweeping, compaction as a part of them (GC.compact of 2.7 is outside
 * of them). The events come in pairs and never nest (gc.c of 2.7.4, 3.1.2 and 3.3, gc/default/default.c of 3.4 to 4.1-dev). Both
 * are events of the VM's own that rewrite no code, and the hooks stay for as long as a session wants them. The clock is each
 * native thread's own: a collection that another thread pays for while this one waits is not in a call's time in GC.
 */

#define _GNU_SOURCE
#include "tracee/observe/measure.h"
#include "tracee/base/job_cpu.h"

#include "proto/clock.h"
#include "tracee/observe/callers.h"
#include "tracee/observe/decide.h"
#include "tracee/session/gc_hook.h"
#include "tracee/session/session.h"
#include "tracee/vm/fiber.h"
#include "tracee/vm/own_objects.h"

#include <ruby.h>
#include <ruby/debug.h>

static unsigned followers; /* sessions that want GC to be followed; under the GVL */

/* Of this native thread. */
static __thread struct {
	uint64_t entered_ns; /* 0: not in GC */
	uint64_t ns;
} gc;

/* In GC: runs no Ruby code, allocates nothing. */
static void on_gc(rb_event_flag_t event, VALUE data, VALUE self, ID id, VALUE class)
{
	(void)data;
	(void)self;
	(void)id;
	(void)class;
	if (event == RUBY_INTERNAL_EVENT_GC_ENTER) {
		gc.entered_ns = clock_now_ns();
	} else if (gc.entered_ns) {
		gc.ns += clock_now_ns() - gc.entered_ns;
		gc.entered_ns = 0;
	}
}

void measure_open(struct session *session)
{
	if (session->options.flags & TRACE_OBJECTS && !session->follows_objects) {
		own_objects_follow();
		session->follows_objects = true;
	}
	if (session->options.flags & TRACE_SPAN)
		application_span_init();
	if (!(session->options.flags & TRACE_GC) || session->follows_gc)
		return;
	if (!gc_hook_add(on_gc, RUBY_INTERNAL_EVENT_GC_ENTER | RUBY_INTERNAL_EVENT_GC_EXIT))
		session_note(session, NOTE_WARNING, "%s", GC_HOOK_WHY);
	followers++;
	session->follows_gc = true;
}

static void stop(struct session *session)
{
	if (session->follows_objects)
		own_objects_unfollow();
	session->follows_objects = false;
	if (!session->follows_gc)
		return;
	session->follows_gc = false;
	if (--followers == 0)
		gc_hook_remove(on_gc);
}

const struct session_part measure_part = {.stop = stop, .release = stop};

void measure_start(const struct fiber_state *fiber, struct open_call *call, uint32_t flags)
{
	call->measured_in = &gc;
	if (flags & TRACE_OBJECTS)
		call->objects = own_objects_without(fiber);
	call->gc_ns = gc.ns;
	if (flags & TRACE_CPU)
		call->cpu_ns = job_cpu_without_ns();
}

void measure_end(struct measured *measured, const struct fiber_state *fiber, const struct open_call *call, uint32_t flags)
{
	*measured = (struct measured){.moved = call->measured_in != &gc, .gc_unknown = flags & TRACE_GC && !gc_hook_is_on(on_gc)};
	if (flags & TRACE_CPU)
		measured->cpu_ns = job_cpu_without_ns() - call->cpu_ns;
	measured->gc_ns = gc.ns - call->gc_ns;
	if (flags & TRACE_OBJECTS)
		measured->objects = own_objects_without(fiber) - call->objects;
	if (flags & TRACE_SPAN)
		measured->has_span = application_span_read(&measured->span);
}

static size_t put_number(char *to, uint64_t number)
{
	to[0] = (char)0xcf; /* msgpack uint 64 */
	for (unsigned i = 0; i < 8; i++)
		to[1 + i] = (char)(number >> (56 - 8 * i));
	return 9;
}

static size_t put_if(bool known, char *to, uint64_t number)
{
	if (known)
		return put_number(to, number);
	to[0] = (char)0xc0; /* nil */
	return 1;
}

static size_t put_span(char *to, const struct measured *measured)
{
	const struct application_span *span = &measured->span;
	size_t size = put_if(measured->has_span, to, span->trace[0]);

	size += put_if(measured->has_span, to + size, span->trace[1]);
	return size + put_if(measured->has_span, to + size, span->id);
}

/* How many numbers they are. */
static unsigned count_of(uint32_t flags)
{
	return (unsigned)__builtin_popcount(flags & TRACE_MEASURES) + (flags & TRACE_SPAN ? 2 : 0);
}

size_t measure_append(const struct measured *measured, uint32_t flags, char *buffer, size_t size)
{
	if (size == 0) {
		buffer[0] = (char)0xdc; /* msgpack array 16 */
		buffer[1] = buffer[2] = 0;
		size = 3;
	}
	if (flags & TRACE_CPU)
		size += put_if(!measured->moved, buffer + size, measured->cpu_ns);
	if (flags & TRACE_OBJECTS)
		size += put_number(buffer + size, measured->objects);
	if (flags & TRACE_GC)
		size += put_if(!measured->moved && !measured->gc_unknown, buffer + size, measured->gc_ns);
	if (flags & TRACE_SPAN)
		size += put_span(buffer + size, measured);
	if (flags & TRACE_STACK && measured->stack == CALLERS_NONE)
		buffer[size++] = (char)0xc0;
	else if (flags & TRACE_STACK)
		size += put_number(buffer + size, measured->stack);
	buffer[2] = (char)((uint8_t)buffer[2] + count_of(flags)); /* an outcome has two texts at most */
	return size;
}
