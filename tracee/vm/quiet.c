/*
 * Silence for our own work. See quiet.h. Contexts: job (quiet_init); job, event and own threads (the rest).
 *
 * While a hook runs, an execution context points to what the hook is about, and rb_exec_event_hooks() of vm_trace.c (2.7 to
 * 4.1-dev) fires no other event in it, but for the VM's internal ones. rb_suppress_tracing(), which the parser calls, puts a
 * dummy there, and is not exported. thread_layout.c finds the place. Outside of a hook that word is 0. The trial
 * raises an exception, under a hook of ours for that: events of this kind rewrite no code.
 */

#include "tracee/vm/quiet.h"

#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/layout.h"
#include "tracee/vm/thread_layout.h"

#include <pthread.h>
#include <ruby.h>
#include <ruby/debug.h>
#include <stdbool.h>

#define ATTEMPTS 3

/* For the VM a context without a stack. */
static uintptr_t no_context[64];

/*
 * What the VM finds instead of an argument: as rb_trace_arg_t of vm_core.h (2.7 to 4.1-dev). Code of the user's may run within
 * the silence, and ask a TracePoint what it is about (`inspect`, `path`, `method_id`, `binding`). So there is an event, with all
 * that the VM would otherwise look for in its frame.
 */
static const struct {
	rb_event_flag_t event;
	uintptr_t *context, *frame;
	VALUE self;
	ID id, called_id;
	VALUE class, data;
	int class_is_known, line;
	VALUE path;
} nothing = {.event = RUBY_EVENT_C_CALL,
             .context = no_context,
             .self = RUBY_Qnil,
             .class = RUBY_Qnil,
             .data = RUBY_Qnil,
             .class_is_known = 1,
             .path = RUBY_Qnil};

static struct {
	bool works;
	unsigned attempts;
	pthread_t tries; /* the thread that runs quiet_init() */
	unsigned seen;   /* events of the trial */
} place;

/* Where the current fiber's context says what its hook is about; NULL: not known. */
static volatile uintptr_t *running_place(VALUE thread)
{
	uintptr_t *context = thread_running_context(thread);

	return context && context[layout_value(LAYOUT_CONTEXT_THREAD)] == (uintptr_t)compat_data(thread)
	               ? &context[layout_value(LAYOUT_CONTEXT_HOOK)]
	               : NULL;
}

static void on_raise(rb_event_flag_t event, VALUE data, VALUE self, ID id, VALUE class)
{
	(void)event;
	(void)data;
	(void)self;
	(void)id;
	(void)class;
	place.seen += pthread_equal(pthread_self(), place.tries) != 0;
}

static VALUE raise_one(VALUE exception)
{
	rb_exc_raise(exception);
	return Qnil;
}

bool quiet_raise(VALUE exception)
{
	VALUE debug = *rb_ruby_debug_ptr();
	struct quiet quiet;
	int failed = 0;

	*rb_ruby_debug_ptr() = Qfalse; /* under -d each exception is told of */
	quiet = quiet_begin();
	rb_protect(raise_one, exception, &failed);
	quiet_end(quiet);
	*rb_ruby_debug_ptr() = debug;
	return failed != 0;
}

/* Nothing is heard of an exception that is raised in silence. */
static bool try(void)
{
	VALUE exception = builtin_exception(rb_eException, "rbprobe"), error = rb_errinfo();
	bool failed;

	rb_add_event_hook(on_raise, RUBY_EVENT_RAISE, Qnil);
	failed = quiet_raise(exception);
	rb_remove_event_hook(on_raise);
	rb_set_errinfo(RTEST(rb_obj_is_kind_of(error, rb_eException)) ? error : Qnil);
	return failed && place.seen == 0;
}

void quiet_init(void)
{
	volatile uintptr_t *running;

	if (place.works || place.attempts == ATTEMPTS)
		return;
	place.attempts++;
	place.tries = pthread_self();
	if (!thread_layout_find())
		return;
	running = running_place(rb_thread_current());
	place.works = running && *running != (uintptr_t)&nothing;
	/* In a hook of the application's all is quiet already: another time. */
	if (place.works && *running == 0)
		place.works = try();
}

bool quiet_works(void)
{
	quiet_init();
	return place.works;
}

static struct quiet set(volatile uintptr_t *running, uintptr_t word)
{
	struct quiet quiet = {.place = running};

	if (running) {
		quiet.before = *running;
		*running = word;
	}
	return quiet;
}

struct quiet quiet_begin(void)
{
	volatile uintptr_t *running = place.works ? running_place(rb_thread_current()) : NULL;

	/* In a hook it is quiet. */
	return set(running && *running == 0 ? running : NULL, (uintptr_t)&nothing);
}

struct quiet quiet_pause(void)
{
	volatile uintptr_t *running = place.works ? running_place(rb_thread_current()) : NULL;

	return set(running && *running == (uintptr_t)&nothing ? running : NULL, 0);
}

void quiet_end(struct quiet quiet)
{
	if (quiet.place)
		*quiet.place = quiet.before;
}

bool quiet_is_others(void)
{
	const volatile uintptr_t *running = place.works ? running_place(rb_thread_current()) : NULL;

	return running && *running != 0 && *running != (uintptr_t)&nothing;
}

void quiet_thread(VALUE thread)
{
	if (place.works)
		set(running_place(thread), (uintptr_t)&nothing);
}

bool quiet_hook_runs(void)
{
	bool runs = false;
	VALUE threads;

	if (!place.works || builtin_missing(BUILTIN_THREAD_LIST))
		return false;
	threads = builtin_call0(BUILTIN_THREAD_LIST, rb_cThread);
	for (long i = 0; i < RARRAY_LEN(threads) && !runs; i++) {
		const volatile uintptr_t *running = running_place(RARRAY_AREF(threads, i));

		runs = running && *running != 0 && *running != (uintptr_t)&nothing;
	}
	RB_GC_GUARD(threads);
	return runs;
}
