/* Names of threads. See thread_names.h. Context: jobs, but for thread_names_ask(). */

#include "tracee/observe/thread_names.h"

#include "proto/clock.h"
#include "proto/fnv.h"
#include "proto/record.h"
#include "tracee/observe/marks.h"
#include "tracee/observe/thread_table.h"
#include "tracee/session/bell.h"
#include "tracee/session/ringer.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/gvl_events.h"
#include "tracee/vm/gvl_layout.h"
#include "tracee/vm/native_id.h"
#include "tracee/vm/string_slice.h"

#include <stdlib.h>

#define ASK_AGAIN_NS NS_PER_S
#define TOLD_MAX 4096u /* a power of two; as many as the client keeps */

/* Of which threads the client knows the name. A thread that finds its place taken is told of again. */
struct thread_names {
	struct told_name {
		uint32_t native_id, hash;
	} told[TOLD_MAX];
};

static void tell(struct session *session, uint32_t native_id, struct slice name)
{
	struct told_name *told = &session->mark_state->names->told[native_id % TOLD_MAX];
	const struct told_name now = {native_id, fnv32_add(FNV32_BEGIN, name)};
	const struct record record = {.kind = RECORD_FIBER,
	                              .fiber = {.ref = MARK_REF(MARK_NONE),
	                                        .thread_id = native_id,
	                                        .native_id = native_id,
	                                        .thread_name = name,
	                                        .root = true,
	                                        .created_at = {"", 0}}};

	if (told->native_id == now.native_id && told->hash == now.hash)
		return;
	*told = now;
	session_send(session, &record);
	session->mark_state->nobody_id = native_id;
}

/* As what they do is told. 0: not known. */
static uint32_t id_of(VALUE thread)
{
	const struct sampled_thread *sampled = gvl_events_possible() ? NULL : thread_table_find(gvl_layout_thread(thread));
	uint32_t native_id = 0;

	if (sampled)
		return sampled->native_id;
	return native_id_of(thread, &native_id) ? native_id : 0;
}

static VALUE tell_all(VALUE argument)
{
	VALUE threads = builtin_call0(BUILTIN_THREAD_LIST, rb_cThread);

	for (long i = 0; i < RARRAY_LEN(threads); i++) {
		VALUE name = builtin_call0(BUILTIN_THREAD_NAME, RARRAY_AREF(threads, i));
		uint32_t native_id = id_of(RARRAY_AREF(threads, i));

		if (native_id && string_slice(name).size)
			tell((struct session *)argument, native_id, string_slice_of_name(name));
		RB_GC_GUARD(name);
	}
	RB_GC_GUARD(threads);
	return Qnil;
}

void thread_names_tell(struct session *session)
{
	struct marks *marks = session->mark_state;
	int failed = 0;

	if (!marks->names)
		marks->names = calloc(1, sizeof(*marks->names));
	if (!marks->names || !builtin_has(BUILTIN_THREAD_LIST) || !builtin_has(BUILTIN_THREAD_NAME))
		return;
	rb_protect(tell_all, (VALUE)session, &failed);
	if (failed)
		exception_drop(Qnil);
}

void thread_names_look(void)
{
	for (struct session *session = session_first(); session; session = session->next)
		if (session->mark_state && atomic_exchange(&session->names_asked, false))
			thread_names_tell(session);
}

void thread_names_ask(struct session *session)
{
	uint64_t now_ns = clock_now_ns();

	if (now_ns - session->names_asked_ns < ASK_AGAIN_NS || atomic_load(&session->closing))
		return;
	session->names_asked_ns = now_ns;
	atomic_store(&session->names_asked, true);
	ringer_push(bell_trigger, false);
}

void thread_names_free(struct thread_names *names)
{
	free(names);
}
