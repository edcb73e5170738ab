/*
 * Timeouts that come too late. See timeouts.h.
 *
 * `Timeout.timeout` makes an exception first of all, sends that, and has it in its frames until its block is over: as an argument
 * or a local variable. So one that is on no fiber's VM stack is of a block that is over. (From Ruby 3.2 on it is a
 * Timeout::ExitException, before a Timeout::Error, which is copied as it is sent from 3.1 on, and refers to the first one.) Read
 * in timeout.rb of 2.7 to 4.1. Where the places on the stack are not known, nothing is taken away.
 */

#include "tracee/vm/timeouts.h"

#include "tracee/base/safe_read.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/heap_list.h"
#include "tracee/vm/interrupts_queue.h"
#include "tracee/vm/layout.h"
#include "tracee/vm/thread_layout.h"

#include <stdint.h>
#include <string.h>

/* The exception that Timeout.timeout made; Qnil: it has not sent this. */
static VALUE made_by_timeout(VALUE sent)
{
	const char *name;
	VALUE first;

	if (RB_SPECIAL_CONST_P(sent) || RB_BUILTIN_TYPE(sent) != RUBY_T_OBJECT)
		return Qnil;
	name = rb_obj_classname(sent);
	if (strcmp(name, "Timeout::ExitException") == 0)
		return sent;
	if (strcmp(name, "Timeout::Error") != 0)
		return Qnil;
	first = rb_attr_get(sent, rb_intern("@catch_value"));
	return NIL_P(first) && !NIL_P(rb_attr_get(sent, rb_intern("@thread"))) ? sent : first;
}

/*
 * A fiber that works for us, or waits, is in a call of C code. The environment of that one's frame is behind what its callers
 * have on the stack, unless it has left the stack. A fiber that has ended has no stack.
 */
static bool is_on_stack(const uintptr_t *context, VALUE object)
{
	const uintptr_t *word = (const uintptr_t *)context[layout_value(LAYOUT_CONTEXT_STACK)];
	const uintptr_t *end = (const uintptr_t *)context[layout_value(LAYOUT_CONTEXT_FRAME)];
	uintptr_t environment;

	if (!word)
		return false;
	if (safe_read_words((uintptr_t)(end + layout_value(LAYOUT_FRAME_ENVIRONMENT)), &environment, 1) &&
	    environment > (uintptr_t)word && environment < (uintptr_t)end)
		end = (const uintptr_t *)environment;
	while (word < end)
		if (*word++ == object)
			return true;
	return false;
}

/* Nil: what is on a stack cannot be told, as ZJIT keeps values in registers, and on the native stack. */
static VALUE list_fibers(VALUE unused)
{
	(void)unused;
	if (compat_compiler() == COMPAT_COMPILER_OTHER)
		return Qnil;
	return heap_list_fibers();
}

/* The block may have called into another fiber, or have left its own for the time being. */
static bool is_on_any_stack(VALUE object)
{
	VALUE fibers;
	int failed = 0;

	if (is_on_stack(thread_running_context(rb_thread_current()), object))
		return true;
	fibers = rb_protect(list_fibers, Qnil, &failed);
	if (failed)
		exception_drop(Qnil);
	if (failed || NIL_P(fibers))
		return true;
	for (long i = 0; i < RARRAY_LEN(fibers); i++) {
		const uintptr_t *context = (const uintptr_t *)thread_fiber_context(RARRAY_AREF(fibers, i));

		if (!context || is_on_stack(context, object))
			return true;
	}
	RB_GC_GUARD(fibers);
	return false;
}

void timeouts_forget_ended(long first)
{
	if (!layout_is_known(LAYOUT_CONTEXT_FRAME) || !layout_is_known(LAYOUT_CONTEXT_STACK) ||
	    !layout_is_known(LAYOUT_FRAME_ENVIRONMENT))
		return;
	for (long i = first; i < interrupts_queue_length(); i++) {
		VALUE sent = interrupts_queue_at(i), made = made_by_timeout(sent);

		if (!NIL_P(made) && !is_on_any_stack(made) && interrupts_queue_take(sent))
			i--;
	}
}

/* Up to Ruby 3.1 it throws, with the exception for the tag. */
bool timeouts_is_older(VALUE error)
{
	if (RB_SPECIAL_CONST_P(error))
		return false;
	if (RB_BUILTIN_TYPE(error) == RUBY_T_OBJECT)
		return strcmp(rb_obj_classname(error), "Timeout::ExitException") == 0;
	return RB_BUILTIN_TYPE(error) == RUBY_T_IMEMO && layout_is_known(LAYOUT_JUMP_VALUE) &&
	       !NIL_P(made_by_timeout(((const VALUE *)error)[layout_value(LAYOUT_JUMP_VALUE)]));
}
