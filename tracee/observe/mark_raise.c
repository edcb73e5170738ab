/*
 * Where exceptions are raised. Context: event, GVL held, but for on() and off().
 *
 * RAISE is an event for which the VM rewrites no code: it looks whether a hook is on where it raises (setup_exception() of
 * eval.c), and nowhere else. (Ruby 3.1 drops what YJIT has compiled when any hook is switched on, as for each traced method.)
 * RESCUE, since 3.3, is an event of instructions: for it the VM would rewrite all code, for good. So nobody is told who rescues.
 *
 * While the hook runs the VM counts as raising. Another exception that is raised meanwhile, even one that is rescued at once,
 * becomes "exception reentered (fatal)". So no code of the application's runs here, not even with --inspect, and nothing lets in
 * what other threads send to this one. SystemStackError and NoMemoryError are raised without an event.
 */

#include "tracee/observe/marks.h"

#include "tracee/base/ticks.h"
#include "tracee/base/value_texts.h"
#include "tracee/observe/callers.h"
#include "tracee/observe/decide.h"
#include "tracee/observe/kept.h"
#include "tracee/observe/observe.h"
#include "tracee/vm/capture.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/fiber.h"
#include "tracee/vm/interrupts_mask.h"
#include "tracee/vm/quiet.h"

#include <ruby.h>
#include <ruby/debug.h>
#include <stdlib.h>

struct raising {
	struct session *session;
	struct fiber_state *fiber;
	rb_trace_arg_t *trace_arg;
	VALUE exception;
	struct value_texts *values;
	bool meant;
	enum mark_verdict verdict;
};

static void add_class(struct raising *raising)
{
	struct text text;

	if (!value_texts_open(raising->values, &text))
		return;
	class_name_add(&text, rb_obj_class(raising->exception));
	value_texts_close(raising->values, &text);
}

static void add_message(struct raising *raising)
{
	struct text text;

	if (!value_texts_open(raising->values, &text))
		return;
	capture_message(&text, raising->exception, &raising->session->options);
	value_texts_close(raising->values, &text);
}

static VALUE look(VALUE argument)
{
	struct raising *raising = (struct raising *)argument;
	struct slice pattern = raising->session->mark_state->options.raise;
	VALUE path;

	raising->meant = pattern.size == 0 || decide_is_of_class(raising->exception, pattern.bytes);
	if (!raising->meant)
		return Qnil;
	raising->verdict = mark_verdict_raise(raising->session, raising->fiber, raising->trace_arg);
	if (raising->verdict != MARK_SHOWN)
		return Qnil;
	add_class(raising);
	add_message(raising);
	path = rb_tracearg_path(raising->trace_arg);
	if (!RB_TYPE_P(path, T_STRING)) {
		value_texts_leave_out(raising->values);
		value_texts_leave_out(raising->values);
		return Qnil;
	}
	value_texts_add(raising->values, RSTRING_PTR(path), (size_t)RSTRING_LEN(path));
	value_texts_add_int(raising->values, NUM2INT(rb_tracearg_lineno(raising->trace_arg)));
	return Qnil;
}

/* The number of the stack, from where it is raised outwards; left out, where it cannot be kept. */
static void add_stack(struct session *session, struct value_texts *values)
{
	if (session->options.flags & TRACE_STACK && values->count == MARK_RAISE_STACK)
		marks_add_stack(values, callers_take(session, 0));
}

/* Into the tree that waits for its end, or into the ring. */
static void push(struct session *session, struct fiber_state *fiber, const void *values, size_t size)
{
	if (fiber->stacks[session->slot].defined && kept_mark(session, fiber, MARK_REF(MARK_RAISE), ticks_now(), values, size)) {
		session->mark_count++;
		return;
	}
	if (session->options.overflow == OVERFLOW_BLOCK)
		observe_wait_for_room(session, size);
	marks_push(session, fiber, MARK_RAISE, values, size);
}

/* What was made of the values before something failed is shown. */
static void tell(struct session *session, struct fiber_state *fiber, rb_trace_arg_t *trace_arg)
{
	bool own = session->scratch_used;
	char *buffer = own ? malloc(VALUES_SIZE_MAX) : session->scratch;
	struct value_texts values;
	struct raising raising = {.session = session,
	                          .fiber = fiber,
	                          .trace_arg = trace_arg,
	                          .values = &values,
	                          .meant = true,
	                          .verdict = session->mark_state->asks ? MARK_UNKNOWN : MARK_SHOWN};
	struct quiet quiet;
	int failed = 0;

	if (!buffer) {
		marks_push(session, NULL, MARK_RAISE, NULL, 0);
		return;
	}
	session->scratch_used = true;
	raising.exception = rb_tracearg_raised_exception(trace_arg);
	value_texts_begin(&values, buffer, VALUES_SIZE_MAX);
	quiet = quiet_begin();
	fiber->suppress_depth++;
	interrupts_mask_protect(look, (VALUE)&raising, &failed);
	if (raising.meant && raising.verdict == MARK_SHOWN)
		add_stack(session, &values);
	fiber->suppress_depth--;
	quiet_end(quiet);
	if (failed)
		exception_drop(Qnil);
	if (raising.meant && raising.verdict != MARK_SHOWN) {
		mark_count_unshown(session, raising.verdict);
	} else if (raising.meant) {
		size_t size = value_texts_end(&values);

		observe_introduce(session, fiber);
		push(session, fiber, buffer, size);
	}
	session->scratch_used = own;
	if (own)
		free(buffer);
	RB_GC_GUARD(raising.exception);
}

static void on_raise(VALUE unused, const rb_trace_arg_t *trace_arg)
{
	struct fiber_state *fiber = compat_in_main_ractor() ? fiber_current_state() : NULL;

	(void)unused;
	if (!fiber || fiber->suppress_depth)
		return;
	for (struct session *session = session_hold_next(NULL); session; session = session_hold_next(session))
		if (marks_are_on(session, MARK_RAISE))
			tell(session, fiber, (rb_trace_arg_t *)trace_arg);
}

static rb_event_hook_func_t hook(void)
{
	return (rb_event_hook_func_t)(void (*)(void))on_raise;
}

static void on(void)
{
	rb_add_event_hook2(hook(), RUBY_EVENT_RAISE, Qtrue, RUBY_EVENT_HOOK_FLAG_SAFE | RUBY_EVENT_HOOK_FLAG_RAW_ARG);
}

static void off(void)
{
	rb_remove_event_hook(hook());
}

const struct mark_source mark_raise = {.kind = MARK_RAISE, .on = on, .off = off};
