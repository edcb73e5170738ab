/*
 * What compat.c decides by Ruby's version, because no function or method tells it, held against what this Ruby does. See fact_checks.h. Context: job; event for
 * the callbacks.
 */

#include "fact_checks.h"

#include "compat.h"
#include "core.h"
#include "engine.h"
#include "event_flags.h"
#include "foreign_hooks.h"
#include "quiet.h"
#include "targeted.h"

#include <ruby/debug.h>

struct trial {
	const char *source; /* of a lambda that is given the receiver, and returns one that calls it */
	VALUE receiver;
	ID name;
	unsigned seen; /* events of a call of that name of that receiver */
	bool default_there;
};

/* What came of a trial. It is made once: with YJIT, all that was compiled is compiled anew after it. */
enum outcome {
	UNKNOWN,
	IS_SO,
	IS_NOT_SO,
};

/* Somebody might find a TracePoint of ours later, in ObjectSpace. */
static struct trial *active;

static bool is_meant(const struct trial *trial, rb_trace_arg_t *trace_arg)
{
	return trial && rb_tracearg_self(trace_arg) == trial->receiver && rb_tracearg_callee_id(trace_arg) == ID2SYM(trial->name);
}

static void on_event(VALUE tracepoint, void *data)
{
	(void)data;
	if (is_meant(active, rb_tracearg_from_tracepoint(tracepoint)))
		active->seen++;
}

static VALUE watched(VALUE lambda)
{
	return rb_proc_call(lambda, rb_ary_new());
}

static void watch(struct trial *trial, VALUE tracepoint, VALUE lambda)
{
	struct quiet heard;
	int failed = 0;

	heard = quiet_pause();
	active = trial;
	rb_protect(watched, lambda, &failed);
	active = NULL;
	quiet_end(heard);
	targeted_disable_own(tracepoint);
	if (failed)
		rb_jump_tag(failed);
}

/* Code is compiled for hooks that are on; so it has to be compiled here. */
static VALUE count_calls(VALUE argument)
{
	struct trial *trial = (struct trial *)argument;
	VALUE tracepoint = rb_tracepoint_new(Qnil, RUBY_EVENT_C_CALL, on_event, NULL);
	VALUE lambda = rb_proc_call(core_run(trial->source), rb_ary_new_from_args(1, trial->receiver));

	rb_tracepoint_enable(tracepoint);
	watch(trial, tracepoint, lambda);
	return Qnil;
}

static enum fact_state compare(bool expected, enum outcome outcome, struct text *reason)
{
	bool is_so = outcome == IS_SO;

	if (expected == is_so)
		return FACT_OK;
	text_append_cstr(reason, is_so ? "this Ruby does, and was taken for one that does not"
	                               : "this Ruby does not, and was taken for one that does");
	return FACT_FAILED;
}

static enum fact_state check_events(struct trial *trial, enum outcome *outcome, bool expected, struct text *reason)
{
	int failed = 0;

	if (*outcome != UNKNOWN)
		return compare(expected, *outcome, reason);
	if (!event_flags_ready()) {
		text_append_cstr(reason, "it stands on hook.flags");
		return FACT_NOT_TRIED;
	}
	if (!compat_is_only_ractor()) {
		text_append_cstr(reason, "several Ractors run, and the trial takes a hook that all would meet");
		return FACT_NOT_TRIED;
	}
	engine_hook_protect(count_calls, (VALUE)trial, &failed);
	if (failed)
		rb_jump_tag(failed);
	*outcome = trial->seen ? IS_SO : IS_NOT_SO;
	return compare(expected, *outcome, reason);
}

enum fact_state check_attribute_events(struct text *reason)
{
	static enum outcome outcome;
	struct trial trial = {.source = "->(m) { class << m; attr_reader :scratch; end; -> { m.scratch } }",
	                      .receiver = core_scratch_module(),
	                      .name = rb_intern("scratch")};

	return check_events(&trial, &outcome, compat_attribute_events(), reason);
}

enum fact_state check_instruction_events(struct text *reason)
{
	static enum outcome outcome;
	struct trial trial = {.source = "->(m) { -> { m + 1 } }", .receiver = INT2FIX(2), .name = '+'};

	return check_events(&trial, &outcome, compat_instruction_events(), reason);
}

static void on_call(VALUE tracepoint, void *data)
{
	rb_trace_arg_t *trace_arg = rb_tracearg_from_tracepoint(tracepoint);
	VALUE given = ID2SYM(rb_intern("given"));

	(void)data;
	if (!is_meant(active, trace_arg))
		return;
	active->seen++;
	active->default_there =
		core_call(CORE_BINDING_LOCAL_VARIABLE_GET, rb_tracearg_binding(trace_arg), 1, &given) == INT2FIX(1);
}

enum fact_state check_block_method_defaults(struct text *reason)
{
	static enum outcome outcome;
	struct trial trial = {.receiver = core_scratch_module(), .name = rb_intern("scratch")};
	VALUE tracepoint, method;

	if (outcome != UNKNOWN)
		return compare(compat_block_method_defaults(), outcome, reason);
	if (foreign_hooks_on(FOREIGN_HOOKS_TRIAL)) {
		text_append_cstr(reason, FOREIGN_HOOKS_WHY);
		return FACT_NOT_TRIED;
	}
	tracepoint = rb_tracepoint_new(Qnil, RUBY_EVENT_CALL, on_call, NULL);
	core_define_method(rb_singleton_class(trial.receiver), "scratch", core_run("->(given = 1) { given }"));
	method = rb_obj_method(trial.receiver, ID2SYM(trial.name));
	core_enable_for(tracepoint, method);
	watch(&trial, tracepoint, core_call0(CORE_METHOD_TO_PROC, method));
	if (trial.seen != 1) {
		text_append_cstr(reason, "hooks are suppressed at this moment");
		return FACT_NOT_TRIED;
	}
	outcome = trial.default_there ? IS_SO : IS_NOT_SO;
	return compare(compat_block_method_defaults(), outcome, reason);
}
