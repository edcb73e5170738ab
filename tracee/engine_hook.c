/*
 * Engine "hook": one global TracePoint per session, whose events are filtered by the session's table of methods. For methods written in C and
 * for the firehose. It makes every call in the process slower while it is on; and since the VM never writes back the instructions it
 * rewrote for it, the process stays slower until it restarts. Contexts: job (arm), event (callback).
 */

#include "engine.h"

#include "compat.h"
#include "definition.h"
#include "fiber.h"
#include "frame.h"
#include "observe.h"
#include "selection.h"
#include "selector.h"
#include "session.h"

#include <errno.h>
#include <ruby/debug.h>

#define HOOK_EVENTS (RUBY_EVENT_CALL | RUBY_EVENT_RETURN | RUBY_EVENT_C_CALL | RUBY_EVENT_C_RETURN)

/* attr_reader and attr_writer have a place in the source, but neither instructions nor a C function. */
static bool is_attribute(VALUE method)
{
	return !NIL_P(rb_funcall(method, rb_intern("source_location"), 0)) && NIL_P(definition_instructions(method));
}

static bool hook_can(const struct match *match, struct text *reason)
{
	if (compat_attribute_events() || !is_attribute(match->method))
		return true;
	text_append_cstr(reason, "; this Ruby gives no events for attr_reader and attr_writer");
	return false;
}

static void hook_event(VALUE tracepoint, void *data)
{
	const void *anchor = FRAME_ANCHOR();
	struct selection *selection = data;
	rb_trace_arg_t *trace_arg = rb_tracearg_from_tracepoint(tracepoint);
	rb_event_flag_t event = rb_tracearg_event_flag(trace_arg);
	VALUE owner = rb_tracearg_defined_class(trace_arg);
	/* While more is armed the hook may be on already, and what that calls is no call of the application's. */
	struct probe *probe =
		selection_is_arming() ? NULL : selection_hook_probe(selection, owner, rb_tracearg_callee_id(trace_arg));
	struct fiber_state *fiber = probe && probe->engine == &engine_hook ? fiber_current_state() : NULL;

	if (!fiber)
		return;
	if (event & (RUBY_EVENT_CALL | RUBY_EVENT_C_CALL))
		observe_call(probe, fiber, trace_arg, event, anchor);
	else
		observe_return(probe, fiber, trace_arg, event, anchor);
}

int engine_hook_start(struct selection *selection, VALUE *tracepoint, struct error *err)
{
	(void)err;
	if (!NIL_P(*tracepoint))
		return 0;
	frame_calibrate(FRAME_GLOBAL, NULL);
	compat_restore_global_events();
	*tracepoint = rb_tracepoint_new(Qnil, HOOK_EVENTS, hook_event, selection);
	rb_tracepoint_enable(*tracepoint);
	return 0;
}

void engine_hook_stop(VALUE *tracepoint)
{
	if (!NIL_P(*tracepoint) && RTEST(rb_tracepoint_enabled_p(*tracepoint)))
		rb_tracepoint_disable(*tracepoint);
	*tracepoint = Qnil;
}

static int hook_arm(struct probe *probe, VALUE method, struct error *err)
{
	(void)method;
	return selection_hook_start(probe->session->selection, err);
}

const struct engine engine_hook = {
	.id = ENGINE_HOOK,
	.can = hook_can,
	.arm = hook_arm,
};
