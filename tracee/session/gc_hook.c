/* Hooks for GC. See gc_hook.h. Context: job; the event of a call of Ractor.new. */

#include "tracee/session/gc_hook.h"

#include "proto/clock.h"
#include "proto/marks.h"
#include "tracee/session/session.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/own.h"

#include <ruby/version.h>
#include <stddef.h>

#if RUBY_API_VERSION_MAJOR == 3 && RUBY_API_VERSION_MINOR < 2
#define RACTORS_CRASH 1
#else
#define RACTORS_CRASH 0
#endif

#define HOOKS_MAX 8

static rb_event_hook_func_t hooks[HOOKS_MAX];
static VALUE watch = Qfalse; /* TracePoint of Ractor.new */

static rb_event_hook_func_t *place_of(rb_event_hook_func_t function)
{
	for (size_t i = 0; i < HOOKS_MAX; i++)
		if (hooks[i] == function)
			return &hooks[i];
	return NULL;
}

static void tell(void)
{
	for (struct session *session = session_first(); session; session = session->next)
		if (session->follows_gc || session->marking & (1u << MARK_GC | 1u << MARK_ALLOCATION)) {
			session->gc_lost_ns = clock_now_ns();
			session_note(session, NOTE_WARNING, "the application makes a Ractor; %s from here on", GC_HOOK_WHY);
		}
}

static void on_ractor(VALUE tracepoint, void *data)
{
	bool any = false;

	(void)tracepoint;
	(void)data;
	for (size_t i = 0; i < HOOKS_MAX; i++)
		if (hooks[i]) {
			rb_remove_event_hook(hooks[i]);
			hooks[i] = NULL;
			any = true;
		}
	if (any)
		tell();
}

static VALUE watch_ractors(VALUE unused)
{
	VALUE class = rb_const_get(rb_cObject, rb_intern("Ractor"));

	if (!watch) {
		own_register(&watch);
		watch = rb_tracepoint_new(Qnil, RUBY_EVENT_CALL, on_ractor, NULL);
	}
	if (!RTEST(rb_tracepoint_enabled_p(watch)))
		builtin_enable_for(watch, builtin_find_method(rb_singleton_class(class), "new"));
	return unused;
}

static VALUE unwatch_ractors(VALUE unused)
{
	if (watch && RTEST(rb_tracepoint_enabled_p(watch)) && compat_target_may_be_disabled() && compat_target_survives_hooks())
		rb_tracepoint_disable(watch);
	return unused;
}

static bool done(VALUE (*function)(VALUE))
{
	int failed = 0;

	rb_protect(function, Qnil, &failed);
	if (failed)
		rb_set_errinfo(Qnil);
	return !failed;
}

bool gc_hook_is_on(rb_event_hook_func_t function)
{
	return place_of(function) != NULL;
}

static bool add(rb_event_hook_func_t function, rb_event_flag_t events, rb_event_hook_flag_t flags)
{
	rb_event_hook_func_t *place = place_of(function);

	if (place)
		return true;
	place = place_of(NULL);
	if (!place || (RACTORS_CRASH && (!compat_is_only_ractor() || !done(watch_ractors))))
		return false;
	*place = function;
	rb_add_event_hook2(function, events, Qnil, flags);
	return true;
}

bool gc_hook_add(rb_event_hook_func_t function, rb_event_flag_t events)
{
	return add(function, events, RUBY_EVENT_HOOK_FLAG_SAFE);
}

bool gc_hook_add_raw(rb_event_hook_func_t function, rb_event_flag_t events)
{
	return add(function, events, RUBY_EVENT_HOOK_FLAG_SAFE | RUBY_EVENT_HOOK_FLAG_RAW_ARG);
}

void gc_hook_remove(rb_event_hook_func_t function)
{
	rb_event_hook_func_t *place = place_of(function);

	if (!place)
		return;
	*place = NULL;
	rb_remove_event_hook(function);
	for (size_t i = 0; i < HOOKS_MAX; i++)
		if (hooks[i])
			return;
	if (RACTORS_CRASH)
		done(unwatch_ractors);
}
