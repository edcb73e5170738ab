/*
 * Where objects are made. Context: in the allocation, on the thread that makes the object, but for on(), off() and the functions
 * for jobs. Here nothing may be allocated, no Ruby code run, and nothing raised: the VM does not expect it.
 *
 * NEWOBJ is one of the VM's internal events, for which it rewrites no code. The object has its class and nothing else yet. What
 * is read of the frames is there already: the String of a file's name and of a method's (as StackProf does it, too). While the
 * hook is on, the VM makes every object, of any class, in its slower way. Like the other hooks of GC, a Ractor's own up to 3.4:
 * what others make is not seen.
 */

#define _GNU_SOURCE
#include "tracee/observe/marks.h"

#include "proto/clock.h"
#include "tracee/base/value_texts.h"
#include "tracee/frame/frame.h"
#include "tracee/frame/frame_label.h"
#include "tracee/observe/callers.h"
#include "tracee/session/gc_hook.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/constant.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/fiber.h"

#include <errno.h>
#include <ruby.h>
#include <ruby/debug.h>
#include <stdio.h>
#include <string.h>

#define PATH_MAX_SHOWN 500u /* bytes of its end */
#define LABEL_MAX_SHOWN 250u
#define FRAMES_MAX 12 /* what is between the object and the Ruby code: Class#new, allocate, ... */

static bool is_meant(const struct allocation_watch *watch, VALUE class)
{
	if (class == watch->class || !watch->below)
		return class == watch->class;
	/* What modules it includes stands between the classes. */
	while ((class = rb_class_get_superclass(class)))
		if (class == watch->class)
			return true;
	return false;
}

static void add_string(struct value_texts *values, VALUE string, size_t max)
{
	const char *bytes;
	size_t size;

	if (!RB_TYPE_P(string, T_STRING)) {
		value_texts_leave_out(values);
		return;
	}
	bytes = RSTRING_PTR(string);
	size = (size_t)RSTRING_LEN(string);
	if (size > max) {
		bytes += size - max;
		size = max;
	}
	value_texts_add(values, bytes, size);
}

/* The innermost method or block that is written in Ruby. */
static void add_label(struct value_texts *values)
{
	struct text text;

	VALUE frames[FRAMES_MAX];
	int lines[FRAMES_MAX];
	int count = rb_profile_frames(0, FRAMES_MAX, frames, lines);

	for (int i = 0; i < count; i++) {
		if (!lines[i] || !value_texts_open(values, &text))
			continue;
		if (text.size > LABEL_MAX_SHOWN)
			text.size = LABEL_MAX_SHOWN;
		frame_label_add(&text, frames[i]);
		if (text.used) {
			value_texts_close(values, &text);
			return;
		}
	}
	value_texts_leave_out(values);
}

static void tell(struct session *session, const struct fiber_state *fiber, VALUE class, rb_trace_arg_t *trace_arg)
{
	char buffer[MARK_KEPT_SIZE];
	struct value_texts values;
	VALUE line;

	value_texts_begin(&values, buffer, sizeof(buffer));
	add_string(&values, rb_mod_name(class), 200);
	add_string(&values, rb_tracearg_path(trace_arg), PATH_MAX_SHOWN);
	line = rb_tracearg_lineno(trace_arg);
	if (RB_FIXNUM_P(line) && FIX2LONG(line))
		value_texts_add_int(&values, FIX2LONG(line));
	else
		value_texts_leave_out(&values);
	add_label(&values);
	if (session->options.flags & TRACE_STACK)
		marks_add_stack(&values, callers_take_silently(session));
	marks_push_or_keep(session, fiber, MARK_ALLOCATION, buffer, value_texts_end(&values));
}

static void look(struct session *session, VALUE class, rb_trace_arg_t *trace_arg)
{
	const struct fiber_state *fiber = NULL;
	enum mark_verdict verdict = MARK_SHOWN, counted = MARK_SHOWN;
	bool met = false, sampled = false;

	for (uint32_t i = 0; i < session->mark_state->allocation_count; i++) {
		struct allocation_watch *watch = &session->mark_state->allocations[i];

		if (!is_meant(watch, class))
			continue;
		if (!met) {
			bool known;

			fiber = fiber_met_state_or_not(&known);
			if (fiber && fiber->suppress_depth)
				return;
			verdict = mark_verdict_allocation(session, fiber, known, trace_arg);
			if (verdict != MARK_SHOWN)
				mark_count_unshown(session, verdict);
			met = true;
		}
		watch->made++;
		if (verdict != MARK_SHOWN || watch->fitting++ % watch->every)
			continue;
		/* One object, one line, and one of those that --every and --rate count. */
		if (!sampled) {
			sampled = true;
			counted = mark_verdict_counted(session, MARK_ALLOCATION);
			if (counted == MARK_SHOWN)
				tell(session, fiber, class, trace_arg);
			else
				mark_count_unshown(session, counted);
		}
		watch->shown += counted == MARK_SHOWN;
	}
}

static void on_newobj(VALUE unused, const rb_trace_arg_t *trace_arg)
{
	VALUE object, class;

	(void)unused;
	if (!compat_in_main_ractor())
		return;
	object = rb_tracearg_object((rb_trace_arg_t *)trace_arg);
	class = RBASIC_CLASS(object);
	/* What the VM makes for itself. */
	if (!class || RB_BUILTIN_TYPE(object) == T_IMEMO || RB_BUILTIN_TYPE(object) == T_ICLASS)
		return;
	for (struct session *session = session_first(); session; session = session->next)
		if (marks_are_on(session, MARK_ALLOCATION))
			look(session, class, (rb_trace_arg_t *)trace_arg);
}

static rb_event_hook_func_t hook(void)
{
	return (rb_event_hook_func_t)(void (*)(void))on_newobj;
}

static void on(void)
{
	/* Where method entries have their owners. Without that, methods are shown without their classes. */
	frame_calibrate_on_demand(FRAME_TARGETED);
	if (!gc_hook_add_raw(hook(), RUBY_INTERNAL_EVENT_NEWOBJ))
		rb_raise(rb_eRuntimeError, "%s", GC_HOOK_WHY);
}

static void off(void)
{
	gc_hook_remove(hook());
}

const struct mark_source mark_allocation = {.kind = MARK_ALLOCATION, .on = on, .off = off};

/* --- For jobs */

static VALUE find(VALUE name)
{
	return constant_module(*(const struct slice *)name);
}

int mark_allocation_find(const struct mark_options *options, struct marks *marks, struct error *err)
{
	for (uint32_t i = 0; i < options->allocation_count; i++) {
		const struct mark_allocation *wanted = &options->allocations[i];
		int failed = 0;
		char *name;
		VALUE class = rb_protect(find, (VALUE)&wanted->class, &failed);

		if (failed)
			exception_drop(Qnil);
		if (failed || !RB_TYPE_P(class, T_CLASS))
			return error_set(err, -ENOENT, "--allocations: there is no class %.*s in the process so far",
			                 (int)wanted->class.size, wanted->class.bytes);
		if (!marks)
			continue;
		if (asprintf(&name, "%.*s%s", (int)wanted->class.size, wanted->class.bytes, wanted->below ? "+" : "") < 0)
			return error_set(err, -ENOMEM, "no memory for events");
		marks->allocations[i] =
			(struct allocation_watch){.class = class, .name = name, .below = wanted->below, .every = wanted->every};
		marks->allocation_count = i + 1;
	}
	return 0;
}

void mark_allocation_tell(struct session *session)
{
	const struct marks *marks = session->mark_state;

	for (uint32_t i = 0; i < marks->allocation_count; i++) {
		const struct allocation_watch *watch = &marks->allocations[i];
		struct record record = {
			.kind = RECORD_TOTALS,
			.totals = {.mark = MARK_ALLOCATION,
		                   .thread_name = {watch->name, strlen(watch->name)},
		                   .elapsed_ns = (session->gc_lost_ns ? session->gc_lost_ns : clock_now_ns()) - marks->began_ns,
		                   .count = 2,
		                   .numbers = {watch->made, watch->shown}},
		};

		session_send(session, &record);
	}
}
