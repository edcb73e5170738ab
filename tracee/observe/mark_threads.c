/*
 * Which threads --thread means, for where an object is made: nobody can be asked for a name there. A job asks all threads, and
 * the answers are kept in a table. A thread that is not in it is told nothing of until the next job, which it brings about.
 */

#include "tracee/observe/marks.h"

#include "tracee/base/ticks.h"
#include "tracee/observe/decide.h"
#include "tracee/session/bell.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/exception_drop.h"

#include <stdlib.h>

#define LOOKS_A_SECOND 10u /* a thread may be given another name */

struct mark_threads {
	struct known_thread {
		VALUE thread; /* pinned */
		bool meant;
	} * items;
	long count, last; /* last: where the one was that was looked for last */
	uint64_t looked;  /* ticks */
	bool asked;       /* for a job */
};

struct collecting {
	const struct session *session;
	struct known_thread *items;
	long count;
};

static bool is_meant(const struct session *session, VALUE thread)
{
	VALUE name = builtin_has(BUILTIN_THREAD_NAME) ? builtin_call0(BUILTIN_THREAD_NAME, thread) : Qnil;

	return decide_is_thread_named(session, name, thread == rb_thread_main());
}

static VALUE collect(VALUE argument)
{
	struct collecting *collecting = (struct collecting *)argument;
	VALUE threads = builtin_has(BUILTIN_THREAD_LIST) ? builtin_call0(BUILTIN_THREAD_LIST, rb_cThread) : rb_ary_new();

	collecting->items = calloc((size_t)RARRAY_LEN(threads) + 1, sizeof(*collecting->items));
	if (!collecting->items)
		return Qnil;
	for (long i = 0; i < RARRAY_LEN(threads); i++)
		collecting->items[i].meant = is_meant(collecting->session, RARRAY_AREF(threads, i));
	/* Names are asked for before: until the GC marks the table, it may move the threads. */
	for (long i = 0; i < RARRAY_LEN(threads); i++)
		collecting->items[i].thread = RARRAY_AREF(threads, i);
	collecting->count = RARRAY_LEN(threads);
	RB_GC_GUARD(threads);
	return Qnil;
}

static void look(struct session *session)
{
	struct mark_threads *threads = session->mark_state->threads;
	struct collecting collecting = {.session = session};
	int failed = 0;

	threads->asked = false;
	threads->looked = ticks_now();
	rb_protect(collect, (VALUE)&collecting, &failed);
	if (failed)
		exception_drop(Qnil);
	if (failed || !collecting.items) {
		free(collecting.items);
		return;
	}
	free(threads->items);
	threads->items = collecting.items;
	threads->count = collecting.count;
	threads->last = 0;
}

void mark_threads_open(struct session *session)
{
	session->mark_state->threads = calloc(1, sizeof(*session->mark_state->threads));
	if (session->mark_state->threads)
		look(session);
}

void mark_threads_look(void)
{
	for (struct session *session = session_first(); session; session = session->next)
		if (session->mark_state && session->mark_state->threads && session->mark_state->threads->asked)
			look(session);
}

void mark_threads_mark(const struct marks *marks)
{
	for (long i = 0; marks->threads && i < marks->threads->count; i++)
		rb_gc_mark(marks->threads->items[i].thread);
}

void mark_threads_free(struct marks *marks)
{
	if (marks->threads)
		free(marks->threads->items);
	free(marks->threads);
	marks->threads = NULL;
}

static const struct known_thread *find(struct mark_threads *threads, VALUE thread)
{
	if (threads->last < threads->count && threads->items[threads->last].thread == thread)
		return &threads->items[threads->last];
	for (long i = 0; i < threads->count; i++)
		if (threads->items[i].thread == thread) {
			threads->last = i;
			return &threads->items[i];
		}
	return NULL;
}

enum mark_verdict mark_threads_verdict(const struct session *session)
{
	struct mark_threads *threads = session->mark_state->threads;
	const struct known_thread *known = threads ? find(threads, rb_thread_current()) : NULL;

	if (threads && !threads->asked &&
	    (!known || ticks_now() - threads->looked > session->decider->second_ticks / LOOKS_A_SECOND)) {
		threads->asked = true;
		bell_trigger();
	}
	if (!known)
		return MARK_UNKNOWN;
	return known->meant ? MARK_SHOWN : MARK_LEFT_OUT;
}
