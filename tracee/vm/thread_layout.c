/*
 * Looking into the VM's threads. See thread_layout.h. Contexts: job; GC event of our own (context_find_in_event).
 *
 * - thread -> context: a hook for new objects, which no application's TracePoint can have, is given an argument that has the
 *   running context. One word of that context is the address of this argument while the hook runs, another one is the thread; and
 *   the thread has the context at a fixed place. Another thread's pointer at that place is its context if that points back at the
 *   thread.
 * - fiber -> context: a fiber's structure holds the context.
 * - Mutex -> owner: a Mutex that has just been locked holds the current fiber's structure (3.0 to 3.4) or the current thread's
 *   (2.7, 4.0) in one of its first words; that word (4.0: another one) is 0 when it is unlocked again.
 * - thread -> Mutex: a thread waits for at most one; it is the one word in its structure that is the address of an object of
 *   Mutex's type. The structure has the locked Mutexes of the thread behind it, and what follows that is not looked at: it says
 *   its own size with that of the thread's variables, so where it ends is not known.
 *
 * Seen right on 2.7, 3.1, 3.3, 3.4, 4.0 and 4.1.
 */

#include "tracee/vm/thread_layout.h"
#include "tracee/base/safe_read.h"

#include "tracee/vm/compat.h"
#include "tracee/vm/layout.h"

#include <pthread.h>
#include <ruby/debug.h>
#include <stdint.h>
#include <string.h>

#define ARGUMENT_WORDS 6
#define THREAD_WORDS 96
#define THREAD_WORDS_MIN 64 /* every Ruby's has so many */
#define CONTEXT_WORDS 64
#define FIBER_SIZE_MAX 4096 /* bytes; a context is somewhere within */
#define OBJECT_WORDS 5
#define MUTEX_WORDS 2
#define ATTEMPTS 3
#define WITHIN_WORDS 4

static struct {
	pthread_t looks; /* the thread that is in thread_layout_find() */
	unsigned attempts;
	bool mutex_tried;
	bool mutex_known;
	bool mutex_holds_thread; /* else the fiber */
	size_t thread_words;     /* how much of a thread's structure is looked at for the Mutex that it waits for */
	uintptr_t mutex_type;    /* what a Mutex has as its type */
} state;

static uintptr_t structure_of(VALUE object)
{
	return (uintptr_t)rb_check_typeddata(object, RTYPEDDATA_TYPE(object));
}

/* --- The context */

static bool word_find(const uintptr_t *words, size_t count, uintptr_t word, size_t *at)
{
	for (*at = 0; *at < count; (*at)++)
		if (words[*at] == word)
			return true;
	return false;
}

/* Within the VM's own allocation: nothing of Ruby's may be made. */
static void context_find_in_event(VALUE data, const rb_trace_arg_t *argument)
{
	uintptr_t thread = (uintptr_t)compat_data(rb_thread_current()), words[ARGUMENT_WORDS], of_thread[THREAD_WORDS_MIN],
		  context[CONTEXT_WORDS];
	size_t context_word, hook_word, thread_word;

	(void)data;
	if (!pthread_equal(pthread_self(), state.looks) || !safe_read_words((uintptr_t)argument, words, ARGUMENT_WORDS) ||
	    !safe_read_words(thread, of_thread, THREAD_WORDS_MIN))
		return;
	for (size_t i = 0; i < ARGUMENT_WORDS; i++) {
		if (!word_find(of_thread, THREAD_WORDS_MIN, words[i], &context_word) ||
		    !safe_read_words(words[i], context, CONTEXT_WORDS) ||
		    !word_find(context, CONTEXT_WORDS, (uintptr_t)argument, &hook_word) ||
		    !word_find(context, CONTEXT_WORDS, thread, &thread_word))
			continue;
		layout_found(LAYOUT_THREAD_CONTEXT, context_word);
		layout_found(LAYOUT_CONTEXT_HOOK, hook_word);
		layout_found(LAYOUT_CONTEXT_THREAD, thread_word);
		return;
	}
}

bool thread_layout_find(void)
{
	if (layout_is_known(LAYOUT_THREAD_CONTEXT) || state.attempts == ATTEMPTS)
		return layout_is_known(LAYOUT_THREAD_CONTEXT);
	state.attempts++;
	state.looks = pthread_self();
	rb_add_event_hook2((rb_event_hook_func_t)(void *)context_find_in_event, RUBY_INTERNAL_EVENT_NEWOBJ, Qnil,
	                   RUBY_EVENT_HOOK_FLAG_SAFE | RUBY_EVENT_HOOK_FLAG_RAW_ARG);
	rb_ary_new();
	rb_remove_event_hook((rb_event_hook_func_t)(void *)context_find_in_event);
	for (enum layout_row row = LAYOUT_THREAD_CONTEXT; row <= LAYOUT_CONTEXT_HOOK; row++)
		layout_not_found(row, "no word of a hook's argument is a context");
	return layout_is_known(LAYOUT_THREAD_CONTEXT);
}

static uintptr_t context_of(uintptr_t thread)
{
	uintptr_t context, back;

	if (!safe_read_words(thread + layout_value(LAYOUT_THREAD_CONTEXT) * sizeof(context), &context, 1) ||
	    !safe_read_words(context + layout_value(LAYOUT_CONTEXT_THREAD) * sizeof(back), &back, 1) || back != thread)
		return 0;
	return context;
}

uintptr_t *thread_running_context(VALUE thread)
{
	uintptr_t *const *structure = compat_data(thread);

	return layout_is_known(LAYOUT_THREAD_CONTEXT) ? structure[layout_value(LAYOUT_THREAD_CONTEXT)] : NULL;
}

void *thread_context(VALUE thread)
{
	return thread_layout_find() ? (void *)context_of(structure_of(thread)) : NULL;
}

uintptr_t thread_fiber_context(VALUE fiber)
{
	if (!layout_is_known(LAYOUT_FIBER_CONTEXT)) {
		VALUE current = rb_fiber_current();
		uintptr_t context = (uintptr_t)thread_context(rb_thread_current()), structure = structure_of(current);

		if (context <= structure || context >= structure + FIBER_SIZE_MAX) {
			layout_not_found(LAYOUT_FIBER_CONTEXT, "the running context is not within the running fiber");
			return 0;
		}
		layout_found(LAYOUT_FIBER_CONTEXT, context - structure);
		RB_GC_GUARD(current);
	}
	return (uintptr_t)compat_data(fiber) + layout_value(LAYOUT_FIBER_CONTEXT);
}

/* --- Mutexes */

static VALUE mutex_lock(VALUE mutex)
{
	return rb_mutex_trylock(mutex);
}

/* What its first words hold for the owner, and while it is locked. */
static bool mutex_words_find(const uintptr_t *locked, const uintptr_t *unlocked, uintptr_t thread, uintptr_t fiber)
{
	size_t owner = 0, lock = 0;

	while (owner < MUTEX_WORDS && locked[owner] != thread && locked[owner] != fiber)
		owner++;
	while (lock < MUTEX_WORDS && (!locked[lock] || unlocked[lock]))
		lock++;
	if (owner == MUTEX_WORDS || lock == MUTEX_WORDS)
		return false;
	state.mutex_holds_thread = locked[owner] == thread;
	layout_found(LAYOUT_MUTEX_OWNER, owner);
	layout_found(LAYOUT_MUTEX_LOCKED, lock);
	return true;
}

static bool mutex_type_find(VALUE mutex)
{
	uintptr_t object[OBJECT_WORDS] = {0}, type = (uintptr_t)RTYPEDDATA_TYPE(mutex);
	size_t word = 2;

	if (safe_read_some((uintptr_t)mutex, object, OBJECT_WORDS) < OBJECT_WORDS - 1)
		return false;
	while (word < OBJECT_WORDS && (object[word] & ~(uintptr_t)7) != type)
		word++;
	if (word == OBJECT_WORDS)
		return false;
	state.mutex_type = object[word];
	return layout_found(LAYOUT_OBJECT_TYPE, word);
}

/* Where the thread has the list of what it has locked: its first one is the Mutex. */
static bool thread_words_find(VALUE mutex, uintptr_t thread)
{
	uintptr_t words[THREAD_WORDS];

	return word_find(words, safe_read_some(thread, words, THREAD_WORDS), structure_of(mutex), &state.thread_words);
}

static bool mutex_find(VALUE mutex, uintptr_t thread, uintptr_t fiber)
{
	uintptr_t locked[MUTEX_WORDS], unlocked[MUTEX_WORDS];
	bool has_list;
	size_t words;

	if (!RTEST(mutex_lock(mutex)))
		return false;
	words = safe_read_some(structure_of(mutex), locked, MUTEX_WORDS);
	has_list = thread_words_find(mutex, thread);
	rb_mutex_unlock(mutex);
	return has_list && words == MUTEX_WORDS && safe_read_some(structure_of(mutex), unlocked, MUTEX_WORDS) == MUTEX_WORDS &&
	       mutex_words_find(locked, unlocked, thread, fiber) && mutex_type_find(mutex);
}

static void mutex_look(void)
{
	VALUE thread = rb_thread_current(), fiber = rb_fiber_current(), mutex;

	if (!thread_fiber_context(fiber))
		return;
	mutex = rb_mutex_new();
	state.mutex_known = mutex_find(mutex, structure_of(thread), structure_of(fiber));
	for (enum layout_row row = LAYOUT_MUTEX_OWNER; row <= LAYOUT_OBJECT_TYPE; row++)
		layout_not_found(row, "a Mutex that was locked did not show it");
	RB_GC_GUARD(thread);
	RB_GC_GUARD(fiber);
	RB_GC_GUARD(mutex);
}

bool thread_mutex_known(void)
{
	if (!state.mutex_tried) {
		state.mutex_tried = true;
		mutex_look();
	}
	return state.mutex_known;
}

static bool is_mutex(uintptr_t word)
{
	size_t type_word = layout_value(LAYOUT_OBJECT_TYPE);
	uintptr_t object[OBJECT_WORDS];

	return word % sizeof(word) == 0 && safe_read_some(word, object, OBJECT_WORDS) > type_word &&
	       (object[0] & RUBY_T_MASK) == RUBY_T_DATA && object[type_word] == state.mutex_type;
}

VALUE thread_mutex_owner(VALUE mutex, VALUE threads)
{
	uintptr_t words[MUTEX_WORDS], owner;

	if (!state.mutex_known || safe_read_some(structure_of(mutex), words, MUTEX_WORDS) != MUTEX_WORDS ||
	    words[layout_value(LAYOUT_MUTEX_LOCKED)] == 0)
		return Qnil;
	owner = words[layout_value(LAYOUT_MUTEX_OWNER)];
	for (long i = 0; i < RARRAY_LEN(threads); i++) {
		VALUE thread = RARRAY_AREF(threads, i);
		uintptr_t structure = structure_of(thread), context = context_of(structure);

		if (state.mutex_holds_thread ? owner == structure
		                             : context && owner == context - layout_value(LAYOUT_FIBER_CONTEXT))
			return thread;
	}
	return Qnil;
}

struct mutex_wait thread_mutex_wait(VALUE thread, VALUE threads)
{
	struct mutex_wait wait = {Qnil, Qnil};
	uintptr_t words[THREAD_WORDS];
	size_t count;

	if (!thread_mutex_known())
		return wait;
	count = safe_read_some(structure_of(thread), words, state.thread_words);
	for (size_t i = 0; i < count; i++) {
		if (words[i] < 4096 || !is_mutex(words[i]))
			continue;
		/* Released just now: the thread is about to have it. */
		wait.owner = thread_mutex_owner((VALUE)words[i], threads);
		wait.mutex = (VALUE)words[i];
		break;
	}
	return wait;
}

VALUE thread_mutex_within(VALUE object)
{
	uintptr_t words[WITHIN_WORDS];
	size_t count;

	if (!state.mutex_known || !RB_TYPE_P(object, T_DATA))
		return Qnil;
	count = safe_read_some((uintptr_t)compat_data(object), words, WITHIN_WORDS);
	for (size_t i = 0; i < count; i++)
		if (words[i] >= 4096 && is_mutex(words[i]))
			return (VALUE)words[i];
	return Qnil;
}
