/* Scratch methods: the harness for trials. See scratch.h. Context: job; event for scratch_watched(). */

#include "tracee/vm/scratch.h"

#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/event_flags.h"

#include <stdbool.h>
#include <string.h>

void scratch_make(struct scratch *scratch)
{
	scratch->module = builtin_scratch_module();
	scratch->object = rb_obj_alloc(rb_cObject);
	rb_extend_object(scratch->object, scratch->module);
}

VALUE scratch_exec(const struct scratch *scratch, VALUE lambda)
{
	return builtin_call_with(BUILTIN_MODULE_MODULE_EXEC, scratch->module, 0, NULL, lambda);
}

VALUE scratch_run(const struct scratch *scratch, const char *lambda_source)
{
	return scratch_exec(scratch, builtin_lambda(lambda_source));
}

void scratch_define_block(const struct scratch *scratch, const char *name, VALUE lambda)
{
	builtin_define_method(scratch->module, name, lambda);
}

void scratch_define_c(const struct scratch *scratch, const char *name, VALUE (*function)(VALUE), int arity)
{
	/* In parentheses: the macro of that name wants each arity's own type. */
	(rb_define_method_id)(scratch->module, rb_intern(name), function, arity);
}

VALUE scratch_method(const struct scratch *scratch, const char *name)
{
	return builtin_find_method(scratch->module, name);
}

VALUE scratch_call(const struct scratch *scratch, const char *name, int argc, const VALUE *argv)
{
	return builtin_call_own(scratch->object, name, argc, argv);
}

/* --- Watching */

/* Those that run, each on its thread's stack. Another thread may begin one while a scratch method runs. Under the GVL. */
static struct scratch_watch *running;

void *scratch_watched(VALUE tracepoint)
{
	for (const struct scratch_watch *watch = running; watch; watch = watch->next)
		for (size_t i = 0; i < SCRATCH_TARGETS; i++)
			if (watch->tracepoints[i] == tracepoint)
				return watch->data;
	return NULL;
}

static VALUE enable_and_run(VALUE argument)
{
	struct scratch_watch *watch = (struct scratch_watch *)argument;

	if (!compat_tracing_is_safe())
		rb_raise(rb_eRuntimeError, COMPAT_TRACING_UNSAFE);
	if (!watch->targets[0])
		rb_tracepoint_enable(watch->tracepoints[0]);
	for (size_t i = 0; i < SCRATCH_TARGETS && watch->targets[i]; i++)
		builtin_enable_for(watch->tracepoints[i], watch->targets[i]);
	watch->heard = quiet_pause();
	return watch->run(watch->argument);
}

static VALUE disable(VALUE tracepoint)
{
	if (!RTEST(rb_tracepoint_enabled_p(tracepoint)))
		return Qnil;
	rb_tracepoint_disable(tracepoint);
	event_flags_restore_global();
	return Qnil;
}

static void forget(const struct scratch_watch *watch)
{
	struct scratch_watch **place = &running;

	while (*place != watch)
		place = &(*place)->next;
	*place = watch->next;
}

VALUE scratch_watch(struct scratch_watch *watch)
{
	VALUE value;
	int failed = 0;

	for (size_t i = 0; i < SCRATCH_TARGETS && (i == 0 || watch->targets[i]); i++)
		watch->tracepoints[i] = rb_tracepoint_new(Qnil, watch->events, watch->event, NULL);
	watch->next = running;
	running = watch;
	value = rb_protect(enable_and_run, (VALUE)watch, &failed);
	quiet_end(watch->heard);
	forget(watch);
	for (size_t i = 0; i < SCRATCH_TARGETS && watch->tracepoints[i]; i++)
		rb_protect(disable, watch->tracepoints[i], failed ? NULL : &failed);
	/* What lies on a stack counts as used long after it is. */
	memset(watch->tracepoints, 0, sizeof(watch->tracepoints));
	if (failed)
		rb_jump_tag(failed);
	return value;
}
