/* Hooks for GC. See gc_hook.h. Context: job; the events of Ractor.new. */

#include "tracee/session/gc_hook.h"

#include "proto/clock.h"
#include "proto/marks.h"
#include "tracee/session/session.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/foreign_hooks.h"
#include "tracee/vm/own.h"
#include "tracee/vm/targeted.h"

#include <ruby/version.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#if RUBY_API_VERSION_MAJOR == 3 && RUBY_API_VERSION_MINOR < 2
#define RACTORS_CRASH 1
#else
#define RACTORS_CRASH 0
#endif

#define HOOKS_MAX 8
#define MAKING_MAX_NS (30 * NS_PER_S)

static rb_event_hook_func_t hooks[HOOKS_MAX];
static VALUE watch = Qfalse; /* TracePoint of Ractor.new */

/*
 * Calls of Ractor.new, of any Ractor: until one returns, the VM may not know the Ractor yet. One that ends for lack of stack is
 * not told to have returned (hook_before_rewind() of vm.c): so what began long ago, and made no Ractor, counts no more.
 */
static _Atomic unsigned making;
static _Atomic uint64_t making_since_ns; /* the last one */

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
		if (session->follows_gc || session->marking & (1u << MARK_GC | 1u << MARK_ALLOCATION | 1u << MARK_STATE)) {
			session->gc_lost_ns = clock_now_ns();
			session_note(session, NOTE_WARNING, "the application makes a Ractor; %s from here on", GC_HOOK_WHY);
		}
}

static void ractor_is_made(void)
{
	unsigned before = atomic_load(&making);

	while (before && !atomic_compare_exchange_weak(&making, &before, before - 1))
		;
}

/* Job context; compat_is_only_ractor(). */
static bool no_ractor_is_made(void)
{
	if (clock_now_ns() - atomic_load(&making_since_ns) > MAKING_MAX_NS)
		atomic_store(&making, 0);
	return atomic_load(&making) == 0;
}

static void on_ractor(VALUE tracepoint, void *data)
{
	bool any = false;

	(void)data;
	if (rb_tracearg_event_flag(rb_tracearg_from_tracepoint(tracepoint)) == RUBY_EVENT_RETURN) {
		ractor_is_made();
		return;
	}
	atomic_store(&making_since_ns, clock_now_ns());
	atomic_fetch_add(&making, 1);
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
		watch = rb_tracepoint_new(Qnil, RUBY_EVENT_CALL | RUBY_EVENT_RETURN, on_ractor, NULL);
	}
	foreign_hooks_known(); /* when it is disabled, whether one runs is asked */
	if (!RTEST(rb_tracepoint_enabled_p(watch)))
		builtin_enable_for(watch, builtin_find_method(rb_singleton_class(class), "new"));
	return unused;
}

static bool is_watched(void)
{
	return watch && RTEST(rb_tracepoint_enabled_p(watch));
}

static VALUE unwatch_ractors(VALUE unused)
{
	if (is_watched() && targeted_rest())
		targeted_disable(0, watch);
	return unused;
}

static bool done(VALUE (*function)(VALUE))
{
	int failed = 0;

	rb_protect(function, Qnil, &failed);
	if (failed)
		exception_drop(Qnil);
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
	if (!place || (RACTORS_CRASH && (!compat_is_only_ractor() || !no_ractor_is_made() || !done(watch_ractors))))
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
}

bool gc_hook_sweep(void)
{
	if (!is_watched() || session_first())
		return false;
	done(unwatch_ractors);
	return is_watched();
}

void gc_hook_fork_child(void)
{
	atomic_store(&making, 0);
}
