/*
 * Silence for our own work. See quiet.h. Contexts: job (quiet_init); job, event and own threads (the rest); GC event of our own (find_in_event).
 *
 * While a hook runs, an execution context points to what the hook is about, and rb_exec_event_hooks() of vm_trace.c (2.7 to 4.1-dev) fires no other event
 * in it, but for the VM's internal ones. rb_suppress_tracing(), which the parser calls, puts a dummy there whose event is 0, and is not exported. So the place is looked
 * for: a hook for new objects, which no application's TracePoint can have, is given an argument that has the context, and one word of that context is the
 * address of this argument. The thread that runs has the context at a fixed place, too. Outside of the hook that word is 0. The trial after it raises
 * an exception, under a hook of ours for that: events of this kind rewrite no code.
 */

#define _GNU_SOURCE
#include "quiet.h"

#include "compat.h"
#include "core.h"

#include <pthread.h>
#include <ruby.h>
#include <ruby/debug.h>
#include <stdbool.h>
#include <sys/uio.h>
#include <unistd.h>

#define ARGUMENT_WORDS 6
#define THREAD_WORDS 64
#define CONTEXT_WORDS 64
#define ATTEMPTS 3

/* What the VM finds instead of an argument: event 0, and nothing else. */
static uintptr_t nothing[32];

static struct {
	bool works;
	unsigned attempts;
	pthread_t looks;     /* the thread that runs quiet_init() */
	size_t context_word; /* of a thread */
	size_t thread_word;  /* of a context: the way back */
	size_t running_word; /* of a context: what its hook is about */
	unsigned seen;       /* events of the trial */
} place;

static bool read_words(uintptr_t from, uintptr_t *words, size_t count)
{
	struct iovec local = {words, count * sizeof(*words)};
	struct iovec remote = {(void *)from, count * sizeof(*words)};

	return from % sizeof(*words) == 0 && from >= 4096 &&
	       process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)(count * sizeof(*words));
}

static bool word_find(const uintptr_t *words, size_t count, uintptr_t word, size_t *at)
{
	for (*at = 0; *at < count; (*at)++)
		if (words[*at] == word)
			return true;
	return false;
}

static const uintptr_t *structure_of(VALUE thread)
{
	return compat_data(thread);
}

/* Within the VM's own allocation: nothing of Ruby's may be made. */
static void find_in_event(VALUE data, const rb_trace_arg_t *argument)
{
	const uintptr_t *thread = structure_of(rb_thread_current());
	uintptr_t words[ARGUMENT_WORDS], of_thread[THREAD_WORDS], context[CONTEXT_WORDS];

	(void)data;
	if (!pthread_equal(pthread_self(), place.looks) || !read_words((uintptr_t)argument, words, ARGUMENT_WORDS) ||
	    !read_words((uintptr_t)thread, of_thread, THREAD_WORDS))
		return;
	for (size_t i = 0; i < ARGUMENT_WORDS && !place.works; i++)
		place.works = word_find(of_thread, THREAD_WORDS, words[i], &place.context_word) &&
		              read_words(words[i], context, CONTEXT_WORDS) &&
		              word_find(context, CONTEXT_WORDS, (uintptr_t)argument, &place.running_word) &&
		              word_find(context, CONTEXT_WORDS, (uintptr_t)thread, &place.thread_word);
}

/* Where the current fiber's context says what its hook is about; NULL: not known. */
static volatile uintptr_t *running_place(VALUE thread)
{
	const uintptr_t *structure = structure_of(thread);
	uintptr_t *context = (uintptr_t *)structure[place.context_word];

	return context && context[place.thread_word] == (uintptr_t)structure ? &context[place.running_word] : NULL;
}

static void on_raise(rb_event_flag_t event, VALUE data, VALUE self, ID id, VALUE class)
{
	(void)event;
	(void)data;
	(void)self;
	(void)id;
	(void)class;
	place.seen += pthread_equal(pthread_self(), place.looks) != 0;
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
	VALUE exception = core_exception(rb_eException, "rbprobe"), error = rb_errinfo();
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
	place.looks = pthread_self();
	rb_add_event_hook2((rb_event_hook_func_t)(void *)find_in_event, RUBY_INTERNAL_EVENT_NEWOBJ, Qnil,
	                   RUBY_EVENT_HOOK_FLAG_SAFE | RUBY_EVENT_HOOK_FLAG_RAW_ARG);
	rb_ary_new();
	rb_remove_event_hook((rb_event_hook_func_t)(void *)find_in_event);
	if (!place.works)
		return;
	running = running_place(rb_thread_current());
	place.works = running && *running != (uintptr_t)nothing;
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
	return set(running && *running == 0 ? running : NULL, (uintptr_t)nothing);
}

struct quiet quiet_pause(void)
{
	volatile uintptr_t *running = place.works ? running_place(rb_thread_current()) : NULL;

	return set(running && *running == (uintptr_t)nothing ? running : NULL, 0);
}

void quiet_end(struct quiet quiet)
{
	if (quiet.place)
		*quiet.place = quiet.before;
}

void quiet_thread(VALUE thread)
{
	if (place.works)
		set(running_place(thread), (uintptr_t)nothing);
}

bool quiet_hook_runs(void)
{
	bool runs = false;
	VALUE threads;

	if (!place.works || core_missing(CORE_THREAD_LIST))
		return false;
	threads = core_call0(CORE_THREAD_LIST, rb_cThread);
	for (long i = 0; i < RARRAY_LEN(threads) && !runs; i++) {
		const volatile uintptr_t *running = running_place(RARRAY_AREF(threads, i));

		runs = running && *running != 0 && *running != (uintptr_t)nothing;
	}
	RB_GC_GUARD(threads);
	return runs;
}
