/*
 * What waits for a thread. See interrupts_queue.h.
 *
 * The place (thread.interrupts) is the one word of the running thread that is an Array without a class which holds an exception
 * that was sent just now. Fields and their use read in vm_core.h and thread.c of 2.7 to 4.0.
 */

#include "tracee/vm/interrupts_queue.h"

#include "tracee/base/safe_read.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/layout.h"

#include <ruby/thread.h>

#define THREAD_WORDS 96
#define OBJECT_WORDS 2 /* flags, class */

static VALUE queue_at(size_t word)
{
	return ((const VALUE *)compat_data(rb_thread_current()))[word];
}

static bool is_hidden_array(VALUE word)
{
	uintptr_t object[OBJECT_WORDS];

	return !RB_SPECIAL_CONST_P(word) && safe_read_words(word, object, OBJECT_WORDS) &&
	       (object[0] & RUBY_T_MASK) == RUBY_T_ARRAY && object[1] == 0;
}

/* Takes what was sent out of the Array; false: it is not in there. */
static bool take_out(VALUE queue, VALUE sent)
{
	for (long i = 0; i < RARRAY_LEN(queue); i++) {
		if (RARRAY_AREF(queue, i) != sent)
			continue;
		rb_ary_delete_at(queue, i);
		return true;
	}
	return false;
}

VALUE interrupts_queue_at(long position)
{
	return RARRAY_AREF(queue_at(layout_value(LAYOUT_THREAD_INTERRUPTS)), position);
}

bool interrupts_queue_take(VALUE sent)
{
	return take_out(queue_at(layout_value(LAYOUT_THREAD_INTERRUPTS)), sent);
}

static VALUE look(VALUE exception_class)
{
	VALUE sent = builtin_exception(exception_class, "rbprobe"), thread = rb_thread_current();
	uintptr_t words[THREAD_WORDS];
	size_t count;

	builtin_call1(BUILTIN_THREAD_RAISE, thread, sent);
	count = safe_read_some((uintptr_t)compat_data(thread), words, THREAD_WORDS);
	for (size_t i = 0; i < count && !layout_is_known(LAYOUT_THREAD_INTERRUPTS); i++)
		if (is_hidden_array(words[i]) && take_out(words[i], sent))
			layout_found(LAYOUT_THREAD_INTERRUPTS, i);
	RB_GC_GUARD(sent);
	return Qnil;
}

bool interrupts_queue_find(VALUE exception_class)
{
	static bool tried;
	int failed = 0;

	if (tried)
		return true;
	tried = true;
	rb_protect(look, exception_class, &failed);
	if (failed)
		exception_drop(Qnil);
	layout_not_found(LAYOUT_THREAD_INTERRUPTS, "no Array of a thread held the exception that was sent to it");
	return layout_is_known(LAYOUT_THREAD_INTERRUPTS);
}

long interrupts_queue_length(void)
{
	return layout_is_known(LAYOUT_THREAD_INTERRUPTS) ? RARRAY_LEN(queue_at(layout_value(LAYOUT_THREAD_INTERRUPTS))) : -1;
}

/* pending_interrupt_mask_stack is behind pending_interrupt_queue (vm_core.h). Qfalse: not here. */
static VALUE masks(void)
{
	VALUE word = layout_is_known(LAYOUT_THREAD_INTERRUPTS) ? queue_at(layout_value(LAYOUT_THREAD_INTERRUPTS) + 1) : Qfalse;

	return is_hidden_array(word) ? word : Qfalse;
}

VALUE interrupts_queue_innermost_mask(void)
{
	VALUE list = masks(), mask = list && RARRAY_LEN(list) > 0 ? RARRAY_AREF(list, RARRAY_LEN(list) - 1) : Qnil;

	return RB_SPECIAL_CONST_P(mask) || RB_BUILTIN_TYPE(mask) != RUBY_T_HASH ? Qnil : mask;
}

void interrupts_queue_drop_mask(VALUE mask)
{
	VALUE list = masks();

	if (list)
		take_out(list, mask);
}

/* The VM has frozen it. */
void interrupts_queue_empty_mask(VALUE mask)
{
	if (NIL_P(mask))
		return;
	RB_FL_UNSET_RAW(mask, RUBY_FL_FREEZE);
	rb_hash_clear(mask);
	rb_obj_freeze(mask);
}

VALUE interrupts_queue_take_kills(void)
{
	VALUE queue, taken;
	bool kill = false;

	if (!layout_is_known(LAYOUT_THREAD_INTERRUPTS))
		return Qnil;
	/* What wants to run does so now: whoever leaves handle_interrupt with kills held back has them delivered. */
	rb_thread_check_ints();
	queue = queue_at(layout_value(LAYOUT_THREAD_INTERRUPTS));
	for (long i = 0; i < RARRAY_LEN(queue) && !kill; i++)
		kill = RB_SPECIAL_CONST_P(RARRAY_AREF(queue, i));
	if (!kill)
		return Qnil;
	taken = rb_obj_hide(rb_ary_new());
	for (long i = 0; i < RARRAY_LEN(queue); i++)
		rb_ary_push(taken, RARRAY_AREF(queue, i));
	rb_ary_clear(queue);
	return taken;
}

struct sending {
	VALUE thread, interrupt;
};

static VALUE send_one(VALUE argument)
{
	const struct sending *sending = (const struct sending *)argument;

	if (RB_SPECIAL_CONST_P(sending->interrupt))
		return builtin_call0(BUILTIN_THREAD_KILL, sending->thread);
	return builtin_call1(BUILTIN_THREAD_RAISE, sending->thread, sending->interrupt);
}

void interrupts_queue_send(VALUE thread, VALUE taken)
{
	for (long i = 0; i < RARRAY_LEN(taken); i++) {
		struct sending sending = {thread, RARRAY_AREF(taken, i)};
		int failed = 0;

		rb_protect(send_one, (VALUE)&sending, &failed);
		if (failed)
			exception_drop(Qnil);
	}
}
