/*
 * Engine "hook": one global TracePoint per session, whose events are filtered by the session's table of methods. It makes every
 * call in the process slower while it is on. Contexts: job (arm), event (callback).
 *
 * There are two of it. The whole hook, for the firehose, methods written in Ruby, and what the VM has instructions for, sees
 * every call; since the VM never writes back the instructions it rewrites for it, the process stays slower until it restarts. The
 * light one, for the rest (attr_reader, ...), has the events of C calls alone, and the VM is kept from rewriting anything
 * (event_flags.h): nothing of it stays. Where the application enables or disables a global TracePoint of its own while a light
 * one is on, the VM does rewrite: for both.
 */

#include "tracee/engine/engine.h"
#include "tracee/vm/builtin_methods.h"

#include "tracee/engine/arming.h"
#include "tracee/engine/match.h"
#include "tracee/engine/patch.h"
#include "tracee/frame/frame.h"
#include "tracee/observe/observe.h"
#include "tracee/observe/overhead.h"
#include "tracee/session/session.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/event_flags.h"
#include "tracee/vm/fiber.h"
#include "tracee/vm/method_definition.h"

#include <errno.h>
#include <ruby/debug.h>
#include <string.h>

#define C_EVENTS EVENT_FLAGS_LIGHT
#define HOOK_EVENTS (RUBY_EVENT_CALL | RUBY_EVENT_RETURN | C_EVENTS)

/* attr_reader and attr_writer have a place in the source, but neither instructions nor a C function. */
bool engine_hook_is_attribute(VALUE method)
{
	return !NIL_P(builtin_call0(BUILTIN_UNBOUND_METHOD_SOURCE_LOCATION, method)) &&
	       NIL_P(method_definition_instructions(method));
}

/* One that is made by Struct.new: named as a member, and written in nothing. */
static bool is_struct_accessor(const struct match *match)
{
	VALUE name = rb_sym2str(match->name), members;

	if (rb_class_inherited_p(match->owner, rb_cStruct) != Qtrue || match->owner == rb_cStruct ||
	    !NIL_P(method_definition_instructions(match->method)))
		return false;
	members = rb_struct_s_members(match->owner);
	for (long i = 0; i < RARRAY_LEN(members); i++) {
		VALUE member = rb_sym2str(RARRAY_AREF(members, i));
		long size = RSTRING_LEN(member);

		if (RSTRING_LEN(name) >= size && RSTRING_LEN(name) <= size + 1 &&
		    memcmp(RSTRING_PTR(name), RSTRING_PTR(member), (size_t)size) == 0 &&
		    (RSTRING_LEN(name) == size || RSTRING_END(name)[-1] == '='))
			return true;
	}
	return false;
}

static bool hook_can(const struct match *match, struct text *reason)
{
	if (!compat_tracing_is_safe()) {
		text_append_cstr(reason, "; " COMPAT_TRACING_UNSAFE);
		return false;
	}
	if (!compat_instruction_events() && patch_bypassed(match->owner, match->name, false)) {
		text_append_cstr(reason, "; this Ruby gives no events for what it has instructions for");
		return false;
	}
	if (!compat_struct_events() && is_struct_accessor(match)) {
		text_append_cstr(reason, "; this Ruby gives no events for the accessors of a Struct");
		return false;
	}
	if (compat_attribute_events() || !engine_hook_is_attribute(match->method))
		return true;
	text_append_cstr(reason, "; this Ruby gives no events for attr_reader and attr_writer");
	return false;
}

/*
 * `alias` in a class finds the original where calls find it: in a module that the class has prepended. A call of such an alias is
 * then, for the VM, one of the module's method by the alias's name.
 */
static struct probe *probe_of_alias(const struct engine_hook_state *hook, VALUE callee, VALUE receiver)
{
	struct probe *probe = hook->aliases;

	while (probe && (probe->callee != callee || !RTEST(rb_obj_is_kind_of(receiver, probe->owner))))
		probe = probe->next_alias;
	return probe;
}

static void hook_event(VALUE tracepoint, void *data)
{
	const void *anchor = FRAME_ANCHOR();
	struct engine_hook_state *hook = data;
	rb_trace_arg_t *trace_arg = rb_tracearg_from_tracepoint(tracepoint);
	rb_event_flag_t event = rb_tracearg_event_flag(trace_arg);
	VALUE owner = rb_tracearg_defined_class(trace_arg);
	/* While more is armed the hook may be on already, and what that calls is no call of the application's. */
	int jump = 0;
	struct probe *probe = arming_is_under_way() ? NULL : hook->find(hook, owner, rb_tracearg_callee_id(trace_arg), &jump);
	bool is_call = event & (RUBY_EVENT_CALL | RUBY_EVENT_C_CALL);
	struct fiber_state *fiber;
	struct overhead_sample sample;
	bool sampled = overhead_sampled();

	/* What another thread has sent ends the call before its first instruction. Of C_CALL none has begun yet. */
	if (jump) {
		if (probe && event == RUBY_EVENT_CALL)
			observe_call_lost(probe);
		rb_jump_tag(jump);
	}
	if (!probe && !arming_is_under_way())
		probe = probe_of_alias(hook, rb_tracearg_callee_id(trace_arg), rb_tracearg_self(trace_arg));
	/* A call may have begun with a definition that another engine's has replaced since. */
	while (!is_call && probe && probe->engine != &engine_hook)
		probe = probe->former;
	fiber = probe && probe->engine == &engine_hook ? fiber_current_state() : NULL;
	if (!fiber)
		return;
	sample = overhead_sample_begin(sampled);
	if (is_call)
		observe_call(probe, fiber, trace_arg, event, anchor);
	else
		observe_return(probe, fiber, trace_arg, event, anchor);
	overhead_sample_end(sample);
}

bool engine_hook_stays(VALUE method, VALUE owner, VALUE name)
{
	return !NIL_P(method_definition_instructions(method)) || patch_bypassed(owner, name, true) || !event_flags_ready();
}

int engine_hook_calibrate(struct error *err)
{
	int status;

	/* Its own code has to be made for all events, other code not to be rewritten. */
	event_flags_hold(HOOK_EVENTS);
	status = frame_calibrate(FRAME_GLOBAL, err);
	event_flags_release();
	return status;
}

VALUE engine_hook_protect(VALUE (*run)(VALUE), VALUE argument, int *failed)
{
	VALUE result;

	event_flags_hold(HOOK_EVENTS);
	result = rb_protect(run, argument, failed);
	event_flags_release();
	return result;
}

static void stop(VALUE tracepoint, bool whole)
{
	if (NIL_P(tracepoint) || !RTEST(rb_tracepoint_enabled_p(tracepoint)))
		return;
	event_flags_hold_light();
	rb_tracepoint_disable(tracepoint);
	event_flags_release_light();
	event_flags_light_hooks -= !whole;
}

static bool is_on(const struct engine_hook_state *hook, bool whole)
{
	return !NIL_P(hook->tracepoint) && (hook->whole || !whole);
}

void engine_hook_start(struct engine_hook_state *hook, bool whole)
{
	struct engine_hook_state before;
	VALUE tracepoint;

	if (is_on(hook, whole))
		return;
	event_flags_restore_global();
	if (whole)
		frame_calibrate(FRAME_GLOBAL, NULL);
	else
		engine_hook_calibrate(NULL);
	tracepoint = rb_tracepoint_new(Qnil, whole ? HOOK_EVENTS : C_EVENTS, hook_event, hook);
	/* That ran Ruby code: another thread may have started the hook, or a job have ended the trace. From here on none runs. */
	if (is_on(hook, whole) || hook->over)
		return;
	before = *hook;
	hook->tracepoint = tracepoint;
	hook->whole = whole;
	event_flags_light_hooks += !whole;
	if (!whole)
		event_flags_hold_light();
	rb_tracepoint_enable(tracepoint);
	if (!whole)
		event_flags_release_light();
	stop(before.tracepoint, before.whole);
	RB_GC_GUARD(before.tracepoint);
}

void engine_hook_stop(struct engine_hook_state *hook)
{
	stop(hook->tracepoint, hook->whole);
	hook->tracepoint = Qnil;
}

static bool is_in(const struct probe *aliases, const struct probe *probe)
{
	while (aliases && aliases != probe)
		aliases = aliases->next_alias;
	return aliases != NULL;
}

static bool has_prepended(VALUE module)
{
	return rb_ary_entry(rb_mod_ancestors(module), 0) != module;
}

static int hook_arm(struct probe *probe, VALUE method, struct error *err)
{
	struct engine_hook_state *hook = probe->session->hook;

	(void)err;
	if (builtin_call0(BUILTIN_UNBOUND_METHOD_ORIGINAL_NAME, method) != probe->callee && has_prepended(probe->owner) &&
	    !is_in(hook->aliases, probe)) {
		probe->next_alias = hook->aliases;
		hook->aliases = probe;
	}
	engine_hook_start(hook, engine_hook_stays(method, probe->owner, probe->callee));
	return 0;
}

const struct engine engine_hook = {
	.id = ENGINE_HOOK,
	.can = hook_can,
	.arm = hook_arm,
};
