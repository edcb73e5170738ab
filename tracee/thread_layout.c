/*
 * Looking into the VM's threads. See thread_layout.h.
 *
 * - thread -> context: the thread that runs this has a pointer into the current fiber's structure, which holds the context. Another
 *   thread's pointer at that place is its context if that points back at the thread.
 * - Mutex -> owner: a Mutex that has just been locked holds the current fiber's structure (3.0 to 3.4) or the current thread's (2.7, 4.0) in one of its first
 *   words; that word (4.0: another one) is 0 when it is unlocked again.
 * - thread -> Mutex: a thread waits for at most one; it is the one word in its structure that is the address of an object of Mutex's type.
 *
 * Seen right on 2.7, 3.1, 3.3, 3.4, 4.0 and 4.1.
 */

#define _GNU_SOURCE
#include "thread_layout.h"

#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define THREAD_WORDS 96
#define CONTEXT_WORDS 64
#define FIBER_SIZE_MAX 2048 /* bytes; a context is somewhere within */
#define OBJECT_WORDS 5
#define MUTEX_WORDS 2

static struct {
	bool tried, found;
	size_t thread_words;          /* how much of a thread's structure may be looked at */
	size_t context_word;          /* in a thread */
	size_t thread_word;           /* in a context */
	ptrdiff_t context_from_fiber; /* of the context in the fiber's structure */
	bool mutex_found;
	bool mutex_holds_thread; /* else the fiber */
	size_t owner_word;       /* in a Mutex's structure */
	size_t locked_word;      /* 0 when it is not locked */
	size_t type_word;        /* in a typed object */
	uintptr_t mutex_type;    /* what a Mutex has there */
} layout;

static size_t read_some(uintptr_t from, uintptr_t *words, size_t count)
{
	struct iovec local = {words, count * sizeof(*words)};
	struct iovec remote = {(void *)from, count * sizeof(*words)};
	ssize_t got = from % sizeof(*words) == 0 && from >= 4096 ? process_vm_readv(getpid(), &local, 1, &remote, 1, 0) : -1;

	return got > 0 ? (size_t)got / sizeof(*words) : 0;
}

static uintptr_t structure_of(VALUE object)
{
	return (uintptr_t)rb_check_typeddata(object, RTYPEDDATA_TYPE(object));
}

/* --- The context */

/*
 * Behind the fiber's structure lie others that the thread may point to, which is why the nearest pointer is taken; it must point back at the thread.
 */
static bool context_find(uintptr_t thread, uintptr_t fiber)
{
	uintptr_t words[THREAD_WORDS], context[CONTEXT_WORDS], nearest = fiber + FIBER_SIZE_MAX;
	size_t count = read_some(thread, words, layout.thread_words);

	for (size_t i = 0; i < count; i++)
		if (words[i] > fiber && words[i] < nearest && words[i] % sizeof(*words) == 0) {
			nearest = words[i];
			layout.context_word = i;
		}
	layout.context_from_fiber = (ptrdiff_t)(nearest - fiber);
	count = nearest < fiber + FIBER_SIZE_MAX ? read_some(nearest, context, CONTEXT_WORDS) : 0;
	for (size_t i = 0; i < count; i++)
		if (context[i] == thread) {
			layout.thread_word = i;
			return true;
		}
	return false;
}

static uintptr_t context_of(uintptr_t thread)
{
	uintptr_t context, back;

	if (read_some(thread + layout.context_word * sizeof(context), &context, 1) != 1 ||
	    read_some(context + layout.thread_word * sizeof(back), &back, 1) != 1 || back != thread)
		return 0;
	return context;
}

/* --- Mutexes */

static VALUE mutex_lock(VALUE mutex)
{
	return rb_mutex_trylock(mutex);
}

static void mutex_find(uintptr_t thread, uintptr_t fiber)
{
	VALUE mutex = rb_mutex_new();
	uintptr_t object[OBJECT_WORDS] = {0}, locked[MUTEX_WORDS], unlocked[MUTEX_WORDS],
		  type = (uintptr_t)RTYPEDDATA_TYPE(mutex);
	size_t words;

	if (!RTEST(mutex_lock(mutex)))
		return;
	words = read_some(structure_of(mutex), locked, MUTEX_WORDS);
	rb_mutex_unlock(mutex);
	if (words != MUTEX_WORDS || read_some(structure_of(mutex), unlocked, MUTEX_WORDS) != MUTEX_WORDS)
		return;
	for (size_t i = 0; i < MUTEX_WORDS && !layout.mutex_found; i++)
		if (locked[i] == thread || locked[i] == fiber) {
			layout.owner_word = i;
			layout.mutex_holds_thread = locked[i] == thread;
			layout.mutex_found = true;
		}
	for (layout.locked_word = 0; layout.locked_word < MUTEX_WORDS; layout.locked_word++)
		if (locked[layout.locked_word] && !unlocked[layout.locked_word])
			break;
	if (!layout.mutex_found || read_some((uintptr_t)mutex, object, OBJECT_WORDS) < OBJECT_WORDS - 1)
		layout.mutex_found = false;
	for (layout.type_word = 2; layout.type_word < OBJECT_WORDS; layout.type_word++)
		if ((object[layout.type_word] & ~(uintptr_t)7) == type) {
			layout.mutex_type = object[layout.type_word];
			break;
		}
	layout.mutex_found = layout.mutex_found && layout.locked_word < MUTEX_WORDS && layout.type_word < OBJECT_WORDS;
	RB_GC_GUARD(mutex);
}

static bool layout_find(void)
{
	VALUE thread = rb_thread_current(), fiber = rb_fiber_current();
	const rb_data_type_t *type = RTYPEDDATA_TYPE(thread);
	size_t size;

	if (layout.tried)
		return layout.found;
	layout.tried = true;
	if (!type->function.dsize)
		return false;
	size = type->function.dsize((const void *)structure_of(thread)) / sizeof(uintptr_t);
	layout.thread_words = size < THREAD_WORDS ? size : THREAD_WORDS;
	layout.found = context_find(structure_of(thread), structure_of(fiber));
	if (layout.found)
		mutex_find(structure_of(thread), structure_of(fiber));
	RB_GC_GUARD(thread);
	RB_GC_GUARD(fiber);
	return layout.found;
}

void *thread_context(VALUE thread)
{
	return layout_find() ? (void *)context_of(structure_of(thread)) : NULL;
}

static bool is_mutex(uintptr_t word)
{
	uintptr_t object[OBJECT_WORDS];

	return word % sizeof(word) == 0 && read_some(word, object, OBJECT_WORDS) > layout.type_word &&
	       (object[0] & RUBY_T_MASK) == RUBY_T_DATA && object[layout.type_word] == layout.mutex_type;
}

static VALUE owner_of(VALUE mutex, VALUE threads)
{
	uintptr_t words[MUTEX_WORDS], owner;

	if (read_some(structure_of(mutex), words, MUTEX_WORDS) != MUTEX_WORDS || words[layout.locked_word] == 0)
		return Qnil;
	owner = words[layout.owner_word];
	for (long i = 0; i < RARRAY_LEN(threads); i++) {
		VALUE thread = RARRAY_AREF(threads, i);
		uintptr_t structure = structure_of(thread), context = context_of(structure);

		if (layout.mutex_holds_thread ? owner == structure
		                              : context && owner == context - (uintptr_t)layout.context_from_fiber)
			return thread;
	}
	return Qnil;
}

bool thread_mutex_known(void)
{
	return layout_find() && layout.mutex_found;
}

struct mutex_wait thread_mutex_wait(VALUE thread, VALUE threads)
{
	struct mutex_wait wait = {Qnil, Qnil};
	uintptr_t words[THREAD_WORDS];
	size_t count;

	if (!thread_mutex_known())
		return wait;
	count = read_some(structure_of(thread), words, layout.thread_words);
	for (size_t i = 0; i < count; i++) {
		if (words[i] < 4096 || !is_mutex(words[i]))
			continue;
		/* Released just now: the thread is about to have it. */
		wait.owner = owner_of((VALUE)words[i], threads);
		wait.mutex = (VALUE)words[i];
		break;
	}
	return wait;
}
