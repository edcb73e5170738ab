/*
 * Engine "target": a TracePoint of the method's own instruction sequence, with a C callback. Costs nothing elsewhere, and nothing once
 * it is disabled. For everything that has instructions of its own: def, and define_method with a block. Contexts: job (arm), event (callback).
 *
 * The TracePoint also reports what else runs these instructions, or is written inside of them: an alias, a copy by module_function, a method
 * defined within the method. So each call is compared with the selected name and owner.
 */

#include "engine.h"

#include "compat.h"
#include "frame.h"
#include "observe.h"
#include "selection.h"

#include <errno.h>
#include <ruby/debug.h>
#include <string.h>

static VALUE instructions_of(VALUE method)
{
	VALUE vm = rb_const_get(rb_cObject, rb_intern("RubyVM"));
	VALUE class = rb_const_get(vm, rb_intern("InstructionSequence"));

	return rb_funcall(class, rb_intern("of"), 1, method);
}

static bool target_can(VALUE method, struct text *reason)
{
	if (!NIL_P(instructions_of(method)))
		return true;
	text_append_cstr(reason, "not written in Ruby");
	return false;
}

static void target_event(VALUE tracepoint, void *data)
{
	const void *anchor = FRAME_ANCHOR();
	struct probe *probe = data;
	rb_trace_arg_t *trace_arg = rb_tracearg_from_tracepoint(tracepoint);

	if (rb_tracearg_event_flag(trace_arg) == RUBY_EVENT_RETURN)
		observe_return(probe, trace_arg, RUBY_EVENT_RETURN, anchor);
	else if (rb_tracearg_callee_id(trace_arg) == probe->callee && rb_tracearg_defined_class(trace_arg) == probe->owner)
		observe_call(probe, trace_arg, RUBY_EVENT_CALL, anchor);
}

static int target_arm(struct probe *probe, VALUE method, struct error *err)
{
	VALUE tracepoint, options;

	(void)err;
	frame_calibrate(FRAME_TARGETED, NULL);
	tracepoint = rb_tracepoint_new(Qnil, RUBY_EVENT_CALL | RUBY_EVENT_RETURN, target_event, probe);
	/* Earlier ones stay: a call of the method's former definition may be under way, and its end is to be seen. */
	rb_ary_push(probe->tracepoints, tracepoint);
	options = rb_hash_new();
	rb_hash_aset(options, ID2SYM(rb_intern("target")), method);
	rb_funcallv_kw(tracepoint, rb_intern("enable"), 1, &options, RB_PASS_KEYWORDS);
	RB_GC_GUARD(options);
	return 0;
}

static void target_disarm(struct probe *probe)
{
	while (RARRAY_LEN(probe->tracepoints) > 0) {
		VALUE tracepoint = rb_ary_pop(probe->tracepoints);

		if (RTEST(rb_tracepoint_enabled_p(tracepoint)))
			rb_tracepoint_disable(tracepoint);
	}
}

const struct engine engine_target = {
	.id = ENGINE_TARGET,
	.can = target_can,
	.arm = target_arm,
	.disarm = target_disarm,
};
