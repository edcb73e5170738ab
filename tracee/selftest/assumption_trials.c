/*
 * What compat.c decides by Ruby's version, because no function or method tells it, held against what this Ruby does. See
 * assumption_checks.h. Context: job; event for the callbacks.
 */

#include "tracee/selftest/assumption_checks.h"

#include "tracee/engine/engine.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/event_flags.h"
#include "tracee/vm/foreign_hooks.h"
#include "tracee/vm/scratch.h"

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

static bool is_meant(const struct trial *trial, rb_trace_arg_t *trace_arg)
{
	return trial && rb_tracearg_self(trace_arg) == trial->receiver && rb_tracearg_callee_id(trace_arg) == ID2SYM(trial->name);
}

static void on_event(VALUE tracepoint, void *nothing)
{
	struct trial *trial = scratch_watched(tracepoint);

	(void)nothing;
	if (is_meant(trial, rb_tracearg_from_tracepoint(tracepoint)))
		trial->seen++;
}

static VALUE call_lambda(VALUE lambda)
{
	return rb_proc_call(lambda, rb_ary_new());
}

/* Code is compiled for hooks that are on; so it has to be compiled here. */
static VALUE count_calls(VALUE argument)
{
	struct trial *trial = (struct trial *)argument;
	VALUE lambda = rb_proc_call(builtin_lambda(trial->source), rb_ary_new_from_args(1, trial->receiver));

	return scratch_watch(&(struct scratch_watch){
		.events = RUBY_EVENT_C_CALL, .event = on_event, .run = call_lambda, .argument = lambda, .data = trial});
}

static enum assumption_state compare(bool expected, enum outcome outcome, struct text *reason)
{
	bool is_so = outcome == IS_SO;

	if (expected == is_so)
		return FACT_OK;
	text_append_cstr(reason, is_so ? "this Ruby does, and was taken for one that does not"
	                               : "this Ruby does not, and was taken for one that does");
	return FACT_FAILED;
}

static enum assumption_state check_events(struct trial *trial, enum outcome *outcome, bool expected, struct text *reason)
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

enum assumption_state check_attribute_events(struct text *reason)
{
	static enum outcome outcome;
	struct trial trial = {.source = "->(o) { -> { o.scratch } }", .name = rb_intern("scratch")};
	struct scratch scratch;

	scratch_make(&scratch);
	rb_define_attr(scratch.module, "scratch", true, false);
	trial.receiver = scratch.object;
	return check_events(&trial, &outcome, compat_attribute_events(), reason);
}

enum assumption_state check_instruction_events(struct text *reason)
{
	static enum outcome outcome;
	struct trial trial = {.source = "->(m) { -> { m + 1 } }", .receiver = INT2FIX(2), .name = '+'};

	return check_events(&trial, &outcome, compat_instruction_events(), reason);
}

static void on_call(VALUE tracepoint, void *nothing)
{
	struct trial *trial = scratch_watched(tracepoint);
	rb_trace_arg_t *trace_arg = rb_tracearg_from_tracepoint(tracepoint);
	VALUE given = ID2SYM(rb_intern("given"));

	(void)nothing;
	if (!is_meant(trial, trace_arg))
		return;
	trial->seen++;
	trial->default_there =
		builtin_call(BUILTIN_BINDING_LOCAL_VARIABLE_GET, rb_tracearg_binding(trace_arg), 1, &given) == INT2FIX(1);
}

static VALUE call_scratch(VALUE scratch)
{
	return scratch_call((const struct scratch *)scratch, "scratch", 0, NULL);
}

enum assumption_state check_block_method_defaults(struct text *reason)
{
	static enum outcome outcome;
	struct trial trial = {.name = rb_intern("scratch")};
	struct scratch scratch;

	if (outcome != UNKNOWN)
		return compare(compat_block_method_defaults(), outcome, reason);
	if (foreign_hooks_on(FOREIGN_HOOKS_TRIAL)) {
		text_append_cstr(reason, FOREIGN_HOOKS_WHY);
		return FACT_NOT_TRIED;
	}
	scratch_make(&scratch);
	trial.receiver = scratch.object;
	scratch_define_block(&scratch, "scratch", builtin_lambda("->(given = 1) { given }"));
	scratch_watch(&(struct scratch_watch){.events = RUBY_EVENT_CALL,
	                                      .event = on_call,
	                                      .targets = {scratch_method(&scratch, "scratch")},
	                                      .run = call_scratch,
	                                      .argument = (VALUE)&scratch,
	                                      .data = &trial});
	if (trial.seen != 1) {
		text_append_cstr(reason, "hooks are suppressed at this moment");
		return FACT_NOT_TRIED;
	}
	outcome = trial.default_there ? IS_SO : IS_NOT_SO;
	return compare(compat_block_method_defaults(), outcome, reason);
}
