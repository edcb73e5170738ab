/*
 * Compilers that are switched on later. See compiler_watch.h. Contexts: job; event (on_return).
 *
 * The methods that do it are written in Ruby (yjit.rb of 3.3, 3.4, 4.0 and 4.1-dev, zjit.rb of the last two), so a TracePoint of
 * their own tells when they return: it costs nothing elsewhere.
 */

#include "tracee/select/compiler_watch.h"

#include "tracee/session/bell.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/own.h"

#include <ruby.h>
#include <ruby/debug.h>

static const char *const compilers[] = {"YJIT", "ZJIT"};

#define COMPILERS (sizeof(compilers) / sizeof(compilers[0]))

static struct {
	VALUE tracepoints[COMPILERS]; /* Qfalse: not made yet */
	bool seen;                    /* a call of one of the methods has ended */
} watch;

void compiler_watch_init(void)
{
	for (size_t i = 0; i < COMPILERS; i++)
		own_register(&watch.tracepoints[i]);
}

static void on_return(VALUE tracepoint, void *data)
{
	(void)tracepoint;
	(void)data;
	watch.seen = true;
	bell_trigger();
}

static bool is_on(VALUE tracepoint)
{
	return tracepoint && RTEST(rb_tracepoint_enabled_p(tracepoint));
}

static VALUE tracepoints_enable(VALUE unused)
{
	VALUE vm = rb_const_get(rb_cObject, rb_intern("RubyVM"));

	(void)unused;
	if (compat_compiler() != COMPAT_COMPILER_NONE)
		return Qnil;
	for (size_t i = 0; i < COMPILERS; i++) {
		VALUE name = ID2SYM(rb_intern("enable")), class;

		if (is_on(watch.tracepoints[i]) || !rb_const_defined(vm, rb_intern(compilers[i])))
			continue;
		class = rb_singleton_class(rb_const_get(vm, rb_intern(compilers[i])));
		if (!RTEST(builtin_call(BUILTIN_MODULE_METHOD_DEFINED, class, 1, &name)))
			continue;
		if (!watch.tracepoints[i])
			watch.tracepoints[i] = rb_tracepoint_new(Qnil, RUBY_EVENT_RETURN, on_return, NULL);
		builtin_enable_for(watch.tracepoints[i], builtin_call(BUILTIN_MODULE_INSTANCE_METHOD, class, 1, &name));
	}
	return Qnil;
}

void compiler_watch_begin(void)
{
	int failed = 0;

	rb_protect(tracepoints_enable, Qnil, &failed);
	if (failed)
		exception_drop(Qnil);
}

static VALUE tracepoints_disable(VALUE unused)
{
	(void)unused;
	for (size_t i = 0; i < COMPILERS; i++)
		if (is_on(watch.tracepoints[i]) && compat_target_may_be_disabled())
			rb_tracepoint_disable(watch.tracepoints[i]);
	return Qnil;
}

bool compiler_watch_end(void)
{
	bool left = false;
	int failed = 0;

	rb_protect(tracepoints_disable, Qnil, &failed);
	if (failed)
		exception_drop(Qnil);
	for (size_t i = 0; i < COMPILERS; i++)
		left = left || is_on(watch.tracepoints[i]);
	return left;
}

bool compiler_watch_take(void)
{
	bool seen = watch.seen;

	watch.seen = false;
	return seen;
}
