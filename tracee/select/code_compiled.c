/*
 * Code that is compiled later. See code_compiled.h. Contexts: job; event (on_compiled).
 *
 * The VM has an event for it, SCRIPT_COMPILED, from 2.6 on: for the program, each file that is loaded, also where a library such
 * as bootsnap has a cache of compiled code (InstructionSequence.load_iseq), and each eval of a String. It comes when all the code
 * is there, and none has run. Code that is made and evaluated as an InstructionSequence has no event. A hook for it rewrites no
 * code (doc/vm-facts.md).
 */

#include "tracee/select/code_compiled.h"

#include "tracee/engine/arming.h"
#include "tracee/select/selection.h"
#include "tracee/vm/aside.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/event_flags.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/own.h"

#include <ruby.h>
#include <ruby/debug.h>

static VALUE watch; /* a TracePoint; Qfalse: none */

void code_compiled_init(void)
{
	own_register(&watch);
}

static VALUE look(VALUE tracepoint)
{
	VALUE script = builtin_call0(BUILTIN_TRACEPOINT_EVAL_SCRIPT, tracepoint);

	selection_code_compiled(builtin_call0(BUILTIN_TRACEPOINT_CODE, tracepoint), !NIL_P(script));
	return Qnil;
}

static void on_compiled(VALUE tracepoint, void *data)
{
	int jump;

	(void)data;
	if (!compat_in_main_ractor() || !selection_watches_lines() || arming_is_under_way())
		return;
	jump = aside_protect(look, tracepoint);
	if (jump)
		rb_jump_tag(jump);
}

static VALUE begin(VALUE unused)
{
	VALUE tracepoint = rb_tracepoint_new(Qnil, RUBY_EVENT_SCRIPT_COMPILED, on_compiled, NULL);

	(void)unused;
	event_flags_hold_light();
	rb_tracepoint_enable(tracepoint);
	event_flags_release_light();
	watch = tracepoint;
	return Qnil;
}

void code_compiled_begin(void)
{
	int failed = 0;

	if (watch)
		return;
	rb_protect(begin, Qnil, &failed);
	if (failed)
		exception_drop(Qnil);
}

static VALUE end(VALUE tracepoint)
{
	event_flags_hold_light();
	rb_tracepoint_disable(tracepoint);
	event_flags_release_light();
	return Qnil;
}

void code_compiled_end(void)
{
	VALUE tracepoint = watch;
	int failed = 0;

	if (!tracepoint)
		return;
	watch = Qfalse;
	rb_protect(end, tracepoint, &failed);
	if (failed)
		exception_drop(Qnil);
}
