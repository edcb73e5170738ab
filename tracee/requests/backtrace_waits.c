/*
 * What threads wait for. See backtrace_waits.h. Context: job, GVL held, under rb_protect.
 *
 * The innermost frame says in which method a thread is, and of which object: of Thread#join the thread, of Queue#pop the Queue.
 * The VM itself notes only the Mutex that a thread waits for, and not while a job runs on that thread.
 */

#include "tracee/requests/backtrace_waits.h"

#include "tracee/frame/frame_context.h"
#include "tracee/frame/frame_locals.h"
#include "tracee/frame/frame_receiver.h"
#include "tracee/frame/frame_snapshot.h"
#include "tracee/requests/backtrace_thread.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/constant.h"
#include "tracee/vm/thread_layout.h"
#include "tracee/vm/tmp_words.h"

#include <stdio.h>
#include <string.h>

#define OWN_FRAMES_MAX 24 /* more than a job has */

/* --- The frames */

static bool is_call_of(uintptr_t frame, const char *name)
{
	const VALUE *entry = frame_locals_code(frame) ? NULL : frame_method_entry(frame, false);

	return entry && entry[layout_value(LAYOUT_ENTRY_CALLED)] == rb_intern(name);
}

/* In front of the frames of the thread that the job runs on stand those of the job: see own_frames() in backtrace.c. */
static uintptr_t behind_own(const struct frame_range *range, size_t size)
{
	uintptr_t frame = range->innermost;

	for (int i = 0; i < OWN_FRAMES_MAX && frame + 2 * size < range->end; i++, frame += size)
		if (is_call_of(frame, "handle_interrupt"))
			return frame + (is_call_of(frame + size, "bind_call") ? 2 : 1) * size;
	return range->innermost;
}

static bool frames_find(VALUE thread, struct frame_range *range)
{
	size_t size = layout_value(LAYOUT_FRAME_SIZE);

	if (!frame_receiver_is_known() || !frame_context_range((uintptr_t)thread_context(thread), range))
		return false;
	if (thread == rb_thread_current())
		range->innermost = behind_own(range, size);
	/* The outermost one is the VM's own. */
	return range->end - range->innermost >= 2 * size;
}

/* --- What the innermost one waits for */

static void wait_for_mutex(struct thread_wait *wait, VALUE object, VALUE mutex, enum wait_kind kind, VALUE owner)
{
	wait->object = object;
	wait->mutex = mutex;
	wait->owner = owner;
	wait->kind = kind;
}

static bool is_lock(const VALUE *entry)
{
	ID called = entry[layout_value(LAYOUT_ENTRY_CALLED)];

	return called == rb_intern("lock") || called == rb_intern("synchronize") || called == rb_intern("enter") ||
	       called == rb_intern("mon_enter") || called == rb_intern("mon_synchronize");
}

/* Of a thread that is awake, such as that which the job runs on: it is in a method that locks, and another one has the lock. */
static void look_at_lock(struct thread_wait *wait, VALUE thread, VALUE threads, const VALUE *entry, VALUE object, bool monitor)
{
	VALUE mutex = monitor ? thread_mutex_within(object) : object, owner;

	if (NIL_P(mutex) || !is_lock(entry))
		return;
	owner = thread_mutex_owner(mutex, threads);
	if (!NIL_P(owner) && owner != thread)
		wait_for_mutex(wait, object, mutex, monitor ? WAIT_MONITOR : WAIT_MUTEX, owner);
}

/* Thread#join with a limit. */
static bool is_limited(uintptr_t frame)
{
	const VALUE *arguments;

	return frame_arguments(frame, &arguments) > 0 && !NIL_P(arguments[0]);
}

/* The argument of that number is the method's limit; of one that is written in Ruby (3.2 and newer), the variable `timeout`. */
static bool is_unlimited(uintptr_t frame, int number)
{
	const VALUE *arguments;
	unsigned place;
	int count;

	if (frame_locals_code(frame)) {
		place = frame_locals_are_known() ? frame_locals_place(frame, rb_intern("timeout")) : 0;
		return place && NIL_P(frame_locals_read(frame, place));
	}
	count = frame_arguments(frame, &arguments);
	return count >= 0 && (count <= number || NIL_P(arguments[number]));
}

/* Queue#pop and the like: written in C, they have no limit. */
static bool is_unlimited_queue(uintptr_t frame)
{
	return !frame_locals_code(frame) || is_unlimited(frame, 0);
}

static void look_at_frame(const struct backtrace_waits *waits, VALUE thread, VALUE threads, const struct frame_range *range,
                          struct thread_wait *wait)
{
	size_t size = layout_value(LAYOUT_FRAME_SIZE);
	uintptr_t frame = range->innermost;
	const VALUE *entry = frame_method_entry(frame, false);
	VALUE owner = entry ? entry[layout_value(LAYOUT_ENTRY_OWNER)] : Qnil, object = frame_receiver(frame);
	bool unlimited = false;

	if (NIL_P(owner))
		return;
	/* ConditionVariable#wait has the Mutex sleep. */
	if (owner == waits->mutex_class && range->end - frame >= 3 * size && is_call_of(frame, "sleep")) {
		entry = frame_method_entry(frame + size, false);
		if (!entry || entry[layout_value(LAYOUT_ENTRY_OWNER)] != waits->condition_class)
			return;
		owner = waits->condition_class;
		object = frame_receiver(frame + size);
		unlimited = is_unlimited(frame + size, 1);
	} else if (owner == waits->condition_class) {
		unlimited = is_unlimited(frame, 1);
	} else if (owner == waits->queue_class || owner == waits->sized_class) {
		unlimited = is_unlimited_queue(frame);
	}
	if (owner == waits->mutex_class || owner == waits->monitor_class) {
		look_at_lock(wait, thread, threads, entry, object, owner == waits->monitor_class);
	} else if (owner == rb_cThread && object != thread && RTEST(rb_obj_is_kind_of(object, rb_cThread))) {
		wait->object = wait->owner = object;
		wait->kind = WAIT_THREAD;
		wait->timed = is_limited(frame);
	} else if (owner == waits->queue_class || owner == waits->sized_class || owner == waits->condition_class) {
		wait->object = object;
		wait->kind = WAIT_OBJECT;
		wait->timed = !unlimited;
	} else if (owner == rb_mKernel && is_call_of(frame, "sleep")) {
		wait->kind = WAIT_SLEEP;
		wait->timed = !is_unlimited(frame, 0);
	}
}

static void look(const struct backtrace_waits *waits, VALUE thread, VALUE threads, struct thread_wait *wait)
{
	struct mutex_wait mutex = thread_mutex_wait(thread, threads);
	struct frame_range range;
	bool has_frames = frames_find(thread, &range);

	*wait = (struct thread_wait){.object = Qnil, .mutex = Qnil, .owner = Qnil, .kind = WAIT_NONE};
	if (!NIL_P(mutex.mutex)) {
		const VALUE *entry = has_frames ? frame_method_entry(range.innermost, false) : NULL;
		bool is_monitor =
			entry && !NIL_P(waits->monitor_class) && entry[layout_value(LAYOUT_ENTRY_OWNER)] == waits->monitor_class;

		wait_for_mutex(wait, is_monitor ? frame_receiver(range.innermost) : mutex.mutex, mutex.mutex,
		               is_monitor ? WAIT_MONITOR : WAIT_MUTEX, mutex.owner);
	} else if (has_frames) {
		look_at_frame(waits, thread, threads, &range, wait);
	}
}

/* --- All of them */

static VALUE class_at(const char *path)
{
	return constant_module((struct slice){path, strlen(path)});
}

/* Why frames cannot be looked into; NULL: they can. */
static const char *frames_prepare(bool with_locals)
{
	if (!with_locals && !frame_snapshot_is_known() && compat_compiler() != COMPAT_COMPILER_NONE)
		return "compiler";
	if (frame_snapshot_ready() == FRAME_SNAPSHOT_LATER)
		return "hooks";
	frame_receiver_find();
	return frame_receiver_is_known() ? NULL : "unknown";
}

void backtrace_waits_begin(struct backtrace_waits *waits, VALUE threads, bool with_locals)
{
	long count = RARRAY_LEN(threads);

	waits->missing = frames_prepare(with_locals);
	thread_mutex_known();
	waits->mutex_class = class_at("Thread::Mutex");
	waits->condition_class = class_at("Thread::ConditionVariable");
	waits->queue_class = class_at("Thread::Queue");
	waits->sized_class = class_at("Thread::SizedQueue");
	waits->monitor_class = class_at("Monitor");
	sql_drivers_find(&waits->drivers);
	waits->all = tmp_words_new(&waits->memory, (size_t)(count + 1) * sizeof(*waits->all));
	memset(waits->all, 0, (size_t)(count + 1) * sizeof(*waits->all));
	/* Nothing of this makes an object, or runs Ruby code. */
	for (long i = 0; i < count; i++)
		look(waits, RARRAY_AREF(threads, i), threads, &waits->all[i]);
}

void backtrace_waits_end(struct backtrace_waits *waits)
{
	rb_free_tmp_buffer(&waits->memory);
}

static void add_thread(struct msgpack_builder *answer, const char *prefix, VALUE thread)
{
	struct thread_facts facts;
	char key[64];

	thread_facts_get(&facts, thread);
	builder_uint(answer, prefix, facts.id);
	if (facts.name.used) {
		snprintf(key, sizeof(key), "%s_name", prefix);
		builder_text(answer, key, facts.name.bytes, facts.name.used);
	}
	if (facts.native_id) {
		snprintf(key, sizeof(key), "%s_native_id", prefix);
		builder_uint(answer, key, facts.native_id);
	}
}

static void add_mutex(struct msgpack_builder *answer, const struct thread_wait *wait)
{
	builder_map(answer, "mutex");
	builder_uint(answer, "id", (uint64_t)wait->mutex);
	if (wait->kind == WAIT_MONITOR)
		builder_uint(answer, "monitor", (uint64_t)wait->object);
	if (!NIL_P(wait->owner))
		add_thread(answer, "owner", wait->owner);
	builder_end(answer);
}

static void add_joined(struct msgpack_builder *answer, const struct thread_wait *wait)
{
	builder_map(answer, "joins");
	add_thread(answer, "thread", wait->object);
	builder_bool(answer, "timed", wait->timed);
	builder_end(answer);
}

static void add_statement(const struct backtrace_waits *waits, struct msgpack_builder *answer, VALUE thread)
{
	struct frame_range range;
	VALUE sql = frames_find(thread, &range) ? sql_find(&waits->drivers, &range) : Qnil;

	if (!NIL_P(sql))
		sql_add(answer, sql);
}

void backtrace_waits_add(const struct backtrace_waits *waits, struct msgpack_builder *answer, VALUE threads, long number,
                         bool asleep)
{
	const struct thread_wait *wait = &waits->all[number];
	VALUE thread = RARRAY_AREF(threads, number);
	struct thread_wait now;

	look(waits, thread, threads, &now);
	if (now.kind != wait->kind || now.object != wait->object || now.owner != wait->owner || now.timed != wait->timed)
		return;
	switch ((enum wait_kind)wait->kind) {
	case WAIT_MUTEX:
	case WAIT_MONITOR:
		add_mutex(answer, wait);
		break;
	case WAIT_THREAD:
		add_joined(answer, wait);
		break;
	case WAIT_OBJECT:
		if (asleep)
			builder_uint(answer, "waits_for", (uint64_t)wait->object);
		break;
	case WAIT_SLEEP:
	case WAIT_NONE:
		if (asleep)
			add_statement(waits, answer, thread);
	}
	if ((wait->kind == WAIT_OBJECT || wait->kind == WAIT_SLEEP) && asleep && !wait->timed)
		builder_bool(answer, "unlimited", true);
}
