/*
 * The backtrace request: where every thread is. Context: job, GVL held. All threads are looked at in one job, so that what is
 * shown of them belongs together; none of them wakes or notices. Where there are thousands, that takes longer than Ruby lets a
 * thread have the GVL: some run in between, and may end. No method of the application is called (builtin_methods.h,
 * class_name.h, capture.h).
 */

#include "proto/clock.h"
#include "tracee/base/msgpack_builder.h"
#include "tracee/requests/backtrace_locals.h"
#include "tracee/requests/backtrace_thread.h"
#include "tracee/requests/backtrace_waits.h"
#include "tracee/session/request.h"
#include "tracee/session/ruby_msgpack.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/frame_classes.h"
#include "tracee/vm/heap_list.h"
#include "tracee/vm/string_slice.h"
#include "tracee/vm/thread_layout.h"

#include <errno.h>
#include <fnmatch.h>
#include <ruby.h>
#include <ruby/version.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PIECE_SIZE (256u << 10) /* bytes after which frames go on in another record */
#define PATTERN_MAX 256u
#define OWN_FRAMES_MAX 16 /* more than the job itself has */

struct work {
	struct request *request;
	struct msgpack_builder answer;
	uint64_t limit; /* frames of a thread; 0: all */
	bool fibers;
	struct backtrace_locals locals;
	struct backtrace_waits waits;
	char pattern[PATTERN_MAX + 1]; /* of the threads to show; empty: all */
};

static void send_piece(struct work *work)
{
	if (!request_answer(work->request, &work->answer))
		rb_raise(rb_eNoMemError, "rbprobe: no memory for a backtrace");
}

/* --- Frames */

/*
 * In front of the frames of the thread that the job runs on stand those of the job: innermost backtrace_locations, outermost the
 * handle_interrupt under which dispatch.c puts all of it, and the bind_call that it is called with.
 */
static bool is_frame_of(VALUE locations, long i, const char *name)
{
	VALUE label = i < RARRAY_LEN(locations) ? builtin_call0(BUILTIN_LOCATION_BASE_LABEL, RARRAY_AREF(locations, i)) : Qnil;
	size_t size = strlen(name);

	return RB_TYPE_P(label, T_STRING) && (size_t)RSTRING_LEN(label) == size && memcmp(RSTRING_PTR(label), name, size) == 0;
}

static long own_frames(VALUE locations)
{
	for (long i = 0; i < OWN_FRAMES_MAX && i < RARRAY_LEN(locations); i++)
		if (is_frame_of(locations, i, "handle_interrupt"))
			return i + 1 + is_frame_of(locations, i + 1, "bind_call");
	return 0;
}

/* A method written in C has the place of its caller. */
static bool is_in_c(VALUE locations, long i)
{
	VALUE own = RARRAY_AREF(locations, i), caller = RARRAY_AREF(locations, i + 1);

	return builtin_call0(BUILTIN_LOCATION_LINE, own) == builtin_call0(BUILTIN_LOCATION_LINE, caller) &&
	       string_same(builtin_call0(BUILTIN_LOCATION_PATH, own), builtin_call0(BUILTIN_LOCATION_PATH, caller));
}

/* With the class where that is known. labels: as frame_classes() gives them. */
static VALUE label_of(VALUE locations, long i, VALUE labels)
{
	VALUE label = NIL_P(labels) ? Qnil : rb_ary_entry(labels, i);

	return NIL_P(label) ? builtin_call0(BUILTIN_LOCATION_LABEL, RARRAY_AREF(locations, i)) : label;
}

static void add_frame(struct work *work, VALUE locations, long i, VALUE label)
{
	struct msgpack_builder *answer = &work->answer;
	VALUE location = RARRAY_AREF(locations, i);
	VALUE line = builtin_call0(BUILTIN_LOCATION_LINE, location);

	builder_map(answer, NULL);
	ruby_msgpack_string(answer, "path", builtin_call0(BUILTIN_LOCATION_PATH, location));
	if (FIXNUM_P(line))
		builder_int(answer, "line", FIX2LONG(line));
	ruby_msgpack_string(answer, "label", label);
	backtrace_locals_add(&work->locals, answer, i);
	builder_end(answer);
}

/*
 * Ends the map that is open with its frames, and sends it; where there are very many, the rest follows in maps of their own.
 * labels: as frame_classes() gives them.
 */
static void send_with_frames(struct work *work, const char *kind, uint64_t id, VALUE locations, VALUE labels, long first)
{
	long count = RB_TYPE_P(locations, T_ARRAY) ? RARRAY_LEN(locations) : 0;
	bool more = work->limit && (uint64_t)(count - first) > work->limit, has_caller = count - first > 1;

	if (more)
		count = first + (long)work->limit;
	builder_bool(&work->answer, "more", more);
	if (has_caller)
		builder_bool(&work->answer, "in_c", is_in_c(locations, first));
	/* What a thread waits in may be the caller's method: ConditionVariable#wait has the Mutex sleep. */
	if (more && work->limit == 1)
		ruby_msgpack_string(&work->answer, "caller", label_of(locations, first + 1, labels));
	if (work->locals.missing && count)
		builder_cstr(&work->answer, "locals_missing", work->locals.missing);
	builder_array(&work->answer, "frames");
	for (long i = first; i < count; i++) {
		if (work->answer.buffer.size > PIECE_SIZE) {
			builder_end(&work->answer);
			builder_end(&work->answer);
			send_piece(work);
			builder_map(&work->answer, NULL);
			builder_cstr(&work->answer, "type", "frames");
			builder_cstr(&work->answer, "of", kind);
			builder_uint(&work->answer, "id", id);
			builder_array(&work->answer, "frames");
		}
		add_frame(work, locations, i, label_of(locations, i, labels));
	}
	builder_end(&work->answer);
	builder_end(&work->answer);
	send_piece(work);
}

/* --- Threads */

static bool is_wanted(const struct work *work, const struct thread_facts *facts)
{
	char number[32];

	if (facts->has_ended || thread_is_ours(facts))
		return false;
	if (!work->pattern[0])
		return true;
	if (facts->is_main && strcmp(work->pattern, "main") == 0)
		return true;
	if (facts->name.used && fnmatch(work->pattern, facts->name_bytes, 0) == 0)
		return true;
	snprintf(number, sizeof(number), "%u", facts->native_id);
	if (facts->native_id && strcmp(work->pattern, number) == 0)
		return true;
	snprintf(number, sizeof(number), "0x%llx", (unsigned long long)facts->id);
	return strcmp(work->pattern, number) == 0;
}

static void send_thread(struct work *work, VALUE threads, long number)
{
	VALUE thread = RARRAY_AREF(threads, number);
	struct thread_facts facts;
	VALUE locations, labels;
	long first;

	thread_facts_get(&facts, thread);
	if (!is_wanted(work, &facts))
		return;
	locations = backtrace_locals_take(&work->locals, BUILTIN_THREAD_LOCATIONS, thread, (uintptr_t)thread_context(thread),
	                                  facts.is_current, facts.is_current ? own_frames : NULL);
	/* Since it was asked for its state. */
	if (NIL_P(locations) && thread_has_ended(thread)) {
		backtrace_locals_end(&work->locals);
		return;
	}
	first = facts.is_current && !NIL_P(locations) ? own_frames(locations) : 0;
	labels = frame_classes(thread, locations, first);
	builder_map(&work->answer, NULL);
	builder_cstr(&work->answer, "type", "thread");
	thread_facts_add(&work->answer, &facts, thread);
	/* The job runs on a thread that slept, and was woken for it. */
	backtrace_waits_add(&work->waits, &work->answer, threads, number,
	                    facts.is_current || strncmp(facts.status, "sleep", 5) == 0);
	/* Of a thread that is being killed there are none, though it may run an ensure. */
	if (NIL_P(locations))
		builder_bool(&work->answer, "frames_known", false);
	send_with_frames(work, "thread", facts.id, locations, labels, first);
	backtrace_locals_end(&work->locals);
	RB_GC_GUARD(locations);
	RB_GC_GUARD(labels);
}

/* --- Fibers */

struct one_fiber {
	struct work *work;
	VALUE fiber;
};

/*
 * Those that do not run: the frames of one that does are its thread's. One that waits for a fiber which it resumed is "suspended
 * by resuming" from 3.0 on, and may be a thread's own.
 */
static bool is_waiting(const char *status)
{
	return strcmp(status, "suspended") == 0 || strcmp(status, "resuming") == 0 || strcmp(status, "created") == 0;
}

static VALUE send_fiber(VALUE argument)
{
	struct work *work = ((struct one_fiber *)argument)->work;
	VALUE fiber = ((struct one_fiber *)argument)->fiber, locations = Qnil;
	struct fiber_facts facts;

	fiber_facts_get(&facts, fiber);
	if (!is_waiting(facts.status))
		return Qnil;
	if (builtin_has(BUILTIN_FIBER_LOCATIONS))
		locations = backtrace_locals_take(&work->locals, BUILTIN_FIBER_LOCATIONS, fiber, thread_fiber_context(fiber),
		                                  false, NULL);
	builder_map(&work->answer, NULL);
	builder_cstr(&work->answer, "type", "fiber");
	builder_uint(&work->answer, "id", facts.id);
	builder_cstr(&work->answer, "status", facts.status);
	if (facts.created_at.used)
		builder_text(&work->answer, "created_at", facts.created_at.bytes, facts.created_at.used);
	builder_bool(&work->answer, "frames_known", builtin_has(BUILTIN_FIBER_LOCATIONS));
	send_with_frames(work, "fiber", facts.id, locations, Qnil, 0);
	backtrace_locals_end(&work->locals);
	RB_GC_GUARD(locations);
	return Qnil;
}

static void send_fibers(struct work *work, VALUE fibers)
{
	for (long i = 0; i < RARRAY_LEN(fibers); i++) {
		struct one_fiber one = {work, RARRAY_AREF(fibers, i)};
		int failed = 0;

		rb_protect(send_fiber, (VALUE)&one, &failed);
		if (failed) {
			/* One that was allocated and never initialised knows nothing of itself. */
			exception_drop(Qnil);
			backtrace_locals_end(&work->locals);
			builder_clear(&work->answer);
		}
	}
}

/* --- All of it */

static void send_process(struct work *work, VALUE threads, VALUE fibers)
{
	long count = 0;

	for (long i = 0; i < RARRAY_LEN(threads); i++) {
		struct thread_facts facts;

		thread_facts_get(&facts, RARRAY_AREF(threads, i));
		count += !facts.has_ended && !thread_is_ours(&facts);
	}
	builder_map(&work->answer, NULL);
	builder_cstr(&work->answer, "type", "process");
	builder_uint(&work->answer, "own_pid", (uint64_t)getpid());
	builder_cstr(&work->answer, "ruby", ruby_version);
	builder_uint(&work->answer, "time_ns", clock_ns(CLOCK_REALTIME));
	builder_uint(&work->answer, "threads", (uint64_t)count);
	if (work->waits.missing)
		builder_cstr(&work->answer, "waits_missing", work->waits.missing);
	if (builtin_has(BUILTIN_RACTOR_COUNT)) {
		VALUE ractors = builtin_call0(BUILTIN_RACTOR_COUNT, rb_path2class("Ractor"));

		if (FIXNUM_P(ractors))
			builder_uint(&work->answer, "other_ractors", FIX2ULONG(ractors) - 1);
	}
	if (work->fibers && NIL_P(fibers))
		builder_bool(&work->answer, "fibers_missing", true);
	builder_end(&work->answer);
	send_piece(work);
}

static VALUE run(VALUE argument)
{
	struct work *work = (struct work *)argument;
	VALUE threads, fibers = work->fibers ? heap_list_fibers() : Qnil;

	threads = builtin_call0(BUILTIN_THREAD_LIST, rb_cThread);
	/* May run methods of our own, as does the next, whose time runs from there. */
	backtrace_waits_begin(&work->waits, threads, work->locals.wanted);
	if (work->locals.wanted)
		backtrace_locals_begin(&work->locals);
	send_process(work, threads, fibers);
	for (long i = 0; i < RARRAY_LEN(threads); i++)
		send_thread(work, threads, i);
	backtrace_waits_end(&work->waits);
	if (!NIL_P(fibers))
		send_fibers(work, fibers);
	RB_GC_GUARD(threads);
	RB_GC_GUARD(fibers);
	return Qnil;
}

static void backtrace_begin(struct request *request, const struct command *command)
{
	struct work work = {.request = request, .limit = command->arguments.frames_max};
	int failed = 0;

	if (command->arguments.name.size > PATTERN_MAX) {
		request_finish(request, EINVAL, "the name of a thread may have %u bytes", PATTERN_MAX);
		return;
	}
	memcpy(work.pattern, command->arguments.name.bytes, command->arguments.name.size);
	work.fibers = command->arguments.flags & BACKTRACE_FIBERS;
	work.locals.wanted = command->arguments.flags & BACKTRACE_LOCALS;
	if (work.limit > INT32_MAX)
		work.limit = 0;
	builder_init(&work.answer);
	rb_protect(run, (VALUE)&work, &failed);
	builder_free(&work.answer);
	if (failed)
		rb_jump_tag(failed); /* request_begin() says what it was */
	request_finish(request, 0, "%s", "");
}

const struct request_kind request_backtrace = {.name = "backtrace", .begin = backtrace_begin};
