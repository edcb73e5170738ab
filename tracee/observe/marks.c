/* Marks of a session: beginning, ending, and the way into the ring. See marks.h. */

#define _GNU_SOURCE
#include "tracee/observe/marks.h"

#include "proto/clock.h"
#include "tracee/base/ticks.h"
#include "tracee/base/value_texts.h"
#include "tracee/observe/callers.h"
#include "tracee/observe/observe.h"
#include "tracee/session/bell.h"
#include "tracee/session/gc_hook.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/fiber.h"

#include <errno.h>
#include <ruby.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct mark_source *const sources[] = {&mark_raise, &mark_gc, &mark_gvl, &mark_allocation, &mark_states};

#define SOURCES (sizeof(sources) / sizeof(sources[0]))

int marks_check(const struct command *command, struct error *err)
{
	const struct mark_options *marks = &command->options.marks;

	for (uint32_t kind = 0; kind < 32; kind++)
		if (marks->kinds & 1u << kind && !mark_form(kind))
			return error_set(err, -ENOSYS,
			                 "the loaded extension knows no events of kind %u; it is older than this rbprobe", kind);
	for (size_t i = 0; i < SOURCES; i++)
		if (marks_wanted(marks, sources[i]->kind) && sources[i]->check && sources[i]->check(marks, err) < 0)
			return err->code;
	return mark_allocation_find(marks, NULL, err);
}

void marks_mark(const struct session *session)
{
	for (uint32_t i = 0; session->mark_state && i < session->mark_state->allocation_count; i++)
		rb_gc_mark(session->mark_state->allocations[i].class);
	if (session->mark_state)
		mark_threads_mark(session->mark_state);
}

/* The client learns what the values of such marks are. */
static void announce(struct session *session, enum mark_kind kind, uint32_t rate_hz)
{
	const struct mark_form *form = mark_form(kind);
	struct slice labels[MARK_VALUES_MAX];
	struct record record = {.kind = RECORD_METHOD};
	uint32_t count = mark_value_count(form);

	for (uint32_t i = 0; i < count; i++)
		labels[i] = (struct slice){form->labels[i], strlen(form->labels[i])};
	record.method = (struct record_method){.ref = MARK_REF(kind),
	                                       .class_name = {"", 0},
	                                       .separator = '#',
	                                       .method_name = {form->name, strlen(form->name)},
	                                       .line = (int32_t)rate_hz,
	                                       .engine = ENGINE_NONE,
	                                       .label_count = count,
	                                       .labels = labels,
	                                       .mark = kind};
	session_send(session, &record);
}

/* By others than this one. */
static bool is_wanted(enum mark_kind kind, const struct session *but)
{
	for (const struct session *session = session_first(); session; session = session->next)
		if (session != but && session->marking & 1u << kind)
			return true;
	return false;
}

static VALUE switch_on(VALUE source)
{
	((const struct mark_source *)source)->on();
	return Qnil;
}

static VALUE switch_off(VALUE source)
{
	((const struct mark_source *)source)->off();
	return Qnil;
}

/* What the switches raise is a failure of ours: no memory, no thread. */
static bool is_done(VALUE (*action)(VALUE), const struct mark_source *source, struct error *err)
{
	char why[ERROR_TEXT_SIZE / 2];
	int failed = 0;

	rb_protect(action, (VALUE)source, &failed);
	if (!failed)
		return true;
	builtin_describe(rb_errinfo(), why, sizeof(why));
	exception_drop(Qnil);
	error_set(err, -ENOTSUP, "%s", source->kind == MARK_GC || source->kind == MARK_ALLOCATION ? GC_HOOK_WHY : why);
	return false;
}

static struct marks *marks_new(const struct mark_options *options)
{
	struct marks *marks = calloc(1, sizeof(*marks));
	char *raise = strndup(options->raise.bytes ? options->raise.bytes : "", options->raise.size);

	if (!marks || !raise) {
		free(marks);
		free(raise);
		return NULL;
	}
	marks->options = *options;
	marks->options.raise.bytes = raise;
	marks->options.allocation_count = 0; /* their names are the command's */
	return marks;
}

/* For a fiber that nobody has met: its thread. */
static uint32_t introduce_nobody(struct session *session, uint32_t native_id)
{
	struct record record = {.kind = RECORD_FIBER};

	if (session->mark_state->nobody_id != native_id) {
		record.fiber = (struct record_fiber){.ref = MARK_REF(MARK_NONE),
		                                     .thread_id = native_id,
		                                     .native_id = native_id,
		                                     .thread_name = {"", 0},
		                                     .root = true,
		                                     .created_at = {"", 0}};
		session_send(session, &record);
		session->mark_state->nobody_id = native_id;
	}
	return MARK_REF(MARK_NONE);
}

static void flush(struct session *session, struct fiber_state *own)
{
	struct marks *marks = session->mark_state;
	uint32_t native_id = (uint32_t)syscall(SYS_gettid), count = marks->kept_count;

	callers_tell(session);
	for (uint32_t i = 0; i < count; i++) {
		const struct kept_mark *kept = &marks->kept[i];
		struct ring_record record = {.kind = RING_MARK, .method = MARK_REF(kept->kind), .time = kept->time};

		if (own && kept->native_id == native_id && observe_introduce(session, own))
			record.fiber = own->ref;
		else
			record.fiber = introduce_nobody(session, kept->native_id);
		if (!ring_push_mark(&session->ring, &record, kept->values, kept->size))
			session->marks_lost++;
	}
	/* Introducing may have collected, and kept another. */
	marks->kept_count -= count;
	memmove(marks->kept, marks->kept + count, marks->kept_count * sizeof(marks->kept[0]));
}

void marks_flush_kept(void)
{
	struct fiber_state *own = NULL;

	for (struct session *session = session_first(); session; session = session->next) {
		if (!session->mark_state || !session->mark_state->kept_count)
			continue;
		if (!own)
			own = fiber_current_state();
		flush(session, own);
	}
}

void marks_flush(void)
{
	timeline_go_on();
	thread_names_look();
	mark_threads_look();
	mark_gvl_flush();
	marks_flush_kept();
}

void marks_keep(struct session *session, enum mark_kind kind, uint32_t native_id, uint64_t time, const void *values, size_t size)
{
	struct marks *marks = session->mark_state;
	struct kept_mark *kept = &marks->kept[marks->kept_count];

	session->mark_count++;
	if (marks->kept_count == MARKS_KEPT) {
		session->marks_lost++;
		return;
	}
	marks->kept_count++;
	kept->kind = kind;
	kept->native_id = native_id;
	kept->time = time;
	kept->size = size;
	memcpy(kept->values, values, size);
}

void marks_push_or_keep(struct session *session, const struct fiber_state *fiber, enum mark_kind kind, const void *values,
                        size_t size)
{
	if (fiber && fiber->stacks[session->slot].defined && callers_are_told(session)) {
		marks_push(session, fiber, kind, values, size);
		return;
	}
	marks_keep(session, kind, (uint32_t)syscall(SYS_gettid), ticks_now(), values, size);
	bell_trigger();
}

/* Sums of what happened, for the client. Allocates memory, and nothing of Ruby's. */
static void tell_gc(struct session *session)
{
	const struct marks *marks = session->mark_state;
	struct record record = {.kind = RECORD_TOTALS, .totals = {.thread_name = {"", 0}, .count = 2}};
	uint64_t elsewhere;

	elsewhere = mark_gc_elsewhere() - marks->gc_elsewhere;
	session->mark_count += elsewhere;
	session->marks_lost += elsewhere;
	record.totals.mark = MARK_GC;
	record.totals.elapsed_ns = (session->gc_lost_ns ? session->gc_lost_ns : clock_now_ns()) - marks->began_ns;
	record.totals.numbers[0] = marks->gc_ns;
	record.totals.numbers[1] = marks->gc_longest_ns;
	session_send(session, &record);
}

static void tell_totals(struct session *session)
{
	if (session->pid != getpid())
		return;
	if (session->marking & 1u << MARK_GC)
		tell_gc(session);
	if (session->marking & 1u << MARK_GVL)
		mark_gvl_tell(session);
	if (session->marking & 1u << MARK_ALLOCATION)
		mark_allocation_tell(session);
	if (session->marking & 1u << MARK_STATE)
		timeline_tell(session);
}

/* No job comes any more. */
static void part_exit(struct session *session)
{
	if (!session->mark_state)
		return;
	session->marks_lost += session->mark_state->kept_count;
	session->mark_state->kept_count = 0;
	if (session->marking & 1u << MARK_STATE)
		timeline_exit(false);
}

static void end_marks(struct session *session)
{
	uint32_t kinds = session->marking;
	struct error unused;

	if (kinds & 1u << MARK_GVL && session->pid == getpid())
		mark_gvl_flush();
	if (kinds && session->mark_state->kept_count && session->pid == getpid())
		flush(session, fiber_current_state());
	session->marking = 0;
	for (size_t i = 0; i < SOURCES; i++)
		if (kinds & 1u << sources[i]->kind && !is_wanted(sources[i]->kind, session))
			is_done(switch_off, sources[i], &unused);
}

static void part_stop(struct session *session)
{
	if (session->marking & 1u << MARK_STATE && session->pid == getpid())
		thread_names_tell(session);
	end_marks(session);
}

/* Also where the process exits, and no Ruby method may be called. */
static void part_release(struct session *session)
{
	if (!session->mark_state)
		return;
	end_marks(session);
	free((char *)session->mark_state->options.raise.bytes);
	for (uint32_t i = 0; i < session->mark_state->allocation_count; i++)
		free(session->mark_state->allocations[i].name);
	mark_threads_free(session->mark_state);
	thread_names_free(session->mark_state->names);
	free(session->mark_state->gvl);
	free(session->mark_state);
	session->mark_state = NULL;
}

/* Sums over the process are the parent's: whoever wants them does not follow forks. */
static bool part_adopt(struct session *session)
{
	if (session->marking & ~(1u << MARK_RAISE | 1u << MARK_STATE))
		return false;
	if (session->marking & 1u << MARK_STATE)
		timeline_adopt(session);
	return true;
}

const struct session_part marks_part = {
	.last_words = tell_totals, .stop = part_stop, .release = part_release, .exit = part_exit, .adopt = part_adopt};

int marks_start(struct session *session, const struct command *command, struct error *err)
{
	const struct mark_options *options = &command->options.marks;

	if (!options->kinds)
		return 0;
	session->mark_state = marks_new(options);
	if (!session->mark_state)
		return error_set(err, -ENOMEM, "no memory for events");
	if (mark_allocation_find(options, session->mark_state, err) < 0)
		return err->code;
	mark_conditions_open(session);
	session->mark_state->began_ns = clock_now_ns();
	session->mark_state->gc_elsewhere = mark_gc_elsewhere();
	for (uint32_t kind = 1; kind < MARK_COUNT; kind++)
		if (marks_wanted(options, kind)) {
			announce(session, (enum mark_kind)kind, kind == MARK_STATE ? timeline_rate_hz(options) : 0);
			session->marking |= 1u << kind;
		}
	for (size_t i = 0; i < SOURCES; i++) {
		enum mark_kind kind = sources[i]->kind;

		if (!marks_wanted(options, kind))
			continue;
		if (!is_wanted(kind, session) && !is_done(switch_on, sources[i], err)) {
			part_stop(session);
			return err->code;
		}
	}
	if (session->marking & 1u << MARK_GVL)
		session->mark_state->gvl = mark_gvl_baseline();
	if (session->marking & 1u << MARK_STATE)
		timeline_begin(session);
	return 0;
}

void marks_add_stack(struct value_texts *values, uint64_t number)
{
	if (number == CALLERS_NONE)
		value_texts_leave_out(values);
	else
		value_texts_add_uint(values, number);
}

void marks_push(struct session *session, const struct fiber_state *fiber, enum mark_kind kind, const void *values, size_t size)
{
	struct ring_record record = {.kind = RING_MARK, .method = MARK_REF(kind), .time = ticks_now()};

	session->mark_count++;
	if (fiber && fiber->stacks[session->slot].defined) {
		record.fiber = fiber->ref;
		if (ring_push_mark(&session->ring, &record, values, size))
			return;
	}
	session->marks_lost++;
}
