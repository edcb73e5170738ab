/*
 * What threads do: run, wait for the GVL, do without it and in what, collect garbage; and when. From Ruby 3.2 on the VM tells it;
 * before that thread_sampler.c looks, but for garbage collections, of which every Ruby tells. Context: the hooks run inside the
 * VM's scheduler and its garbage collector, on several threads at once, with or without the GVL; send_some() in the writer
 * thread; everything else in jobs, where nothing else is said.
 *
 * Not by way of the sessions' rings, into which only who has the GVL may write, nor by jobs, which would be events themselves.
 */

#include "tracee/observe/marks.h"

#include "proto/limits.h"
#include "proto/record.h"
#include "proto/states.h"
#include "tracee/base/state_ring.h"
#include "tracee/base/ticks.h"
#include "tracee/observe/thread_sampler.h"
#include "tracee/session/gc_hook.h"
#include "tracee/vm/blocked_in.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/gvl_events.h"
#include "tracee/vm/gvl_layout.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GC_EVENTS (RUBY_INTERNAL_EVENT_GC_ENTER | RUBY_INTERNAL_EVENT_GC_EXIT)

static struct state_ring *ring; /* kept once there is one */
static uint32_t wanted_rate_hz; /* of the session that is about to switch it on */
static _Atomic bool goes_on;    /* a forked child's sampler is to be started */

static void push(enum state_event event, uintptr_t thread, bool own)
{
	const struct state_entry entry = {.ticks = ticks_now(),
	                                  .thread = thread,
	                                  .native_id = own ? (uint32_t)syscall(SYS_gettid) : 0,
	                                  .event = (uint8_t)event};

	state_ring_push(ring, &entry);
}

static void on_gvl(enum gvl_event event, uintptr_t thread)
{
	static const enum state_event events[] = {
		[GVL_THREAD_STARTED] = STATE_STARTED,
		[GVL_WANTED] = STATE_WAITS,
		[GVL_TAKEN] = STATE_RUNS,
		[GVL_THREAD_EXITED] = STATE_ENDED,
	};

	static const enum state_event blocked[] = {
		[BLOCKED_IN_OTHER] = STATE_BLOCKED,       [BLOCKED_IN_IO] = STATE_IN_IO,
		[BLOCKED_IN_SLEEP] = STATE_SLEEPS,        [BLOCKED_IN_LOCK] = STATE_IN_LOCK,
		[BLOCKED_IN_PROCESS] = STATE_FOR_PROCESS,
	};

	/* Others wake a thread, and make one. */
	push(event == GVL_RELEASED ? blocked[blocked_in()] : events[event], thread, event == GVL_TAKEN || event == GVL_RELEASED);
}

static void on_gc(rb_event_flag_t event, VALUE data, VALUE self, ID id, VALUE class)
{
	(void)data;
	(void)self;
	(void)id;
	(void)class;
	push(event == RUBY_INTERNAL_EVENT_GC_ENTER ? STATE_GC_BEGINS : STATE_GC_ENDS, gvl_current_thread(), true);
}

/* The same where threads are looked at. Those of other Ractors are not, and nothing is told of them. */
static void on_gc_sampled(rb_event_flag_t event, VALUE data, VALUE self, ID id, VALUE class)
{
	struct sampled_thread *thread = thread_table_find(gvl_layout_thread(rb_thread_current()));
	bool begins = event == RUBY_INTERNAL_EVENT_GC_ENTER;

	(void)data;
	(void)self;
	(void)id;
	(void)class;
	if (!thread)
		return;
	if (begins)
		thread_sampler_collects(thread, true);
	push(begins ? STATE_GC_BEGINS : STATE_GC_ENDS, thread->structure, true);
	if (!begins)
		thread_sampler_collects(thread, false);
}

static int check(const struct mark_options *options, struct error *err)
{
	if (gvl_events_possible())
		return 0;
	if (options->state_rate_hz >= 1 && options->state_rate_hz <= STATE_RATE_MAX_HZ)
		return thread_sampler_check(err);
	return error_set(
		err, -ENOTSUP,
		"--timeline: this Ruby does not tell what its threads do, so they are looked at, 1 to %u times a second; "
		"this rbprobe does not say how often",
		STATE_RATE_MAX_HZ);
}

static void on_by_events(void)
{
	blocked_in_prepare();
	gvl_events_on(on_gvl);
	gc_hook_add(on_gc, GC_EVENTS);
}

static void on_by_samples(void)
{
	struct error err;

	if (thread_sampler_start(ring, wanted_rate_hz, &err) < 0)
		rb_raise(rb_eRuntimeError, "%s", err.text);
	gc_hook_add(on_gc_sampled, GC_EVENTS);
}

static void on(void)
{
	if (!ring)
		ring = state_ring_new();
	if (!ring)
		rb_memerror();
	if (gvl_events_possible())
		on_by_events();
	else
		on_by_samples();
}

static void off(void)
{
	gvl_events_off(on_gvl);
	gc_hook_remove(on_gc);
	gc_hook_remove(on_gc_sampled);
	thread_sampler_stop();
}

const struct mark_source mark_states = {.kind = MARK_STATE, .check = check, .on = on, .off = off};

/* --- Writer */

static void encode(const struct thread_state *states, uint32_t count, uint64_t lost, msgpack_sbuffer *to)
{
	const struct record record = {.kind = RECORD_STATES, .states = {.lost = lost, .count = count, .states = states}};

	if (count || lost)
		record_encode(to, &record);
}

/* A record has what was lost before its first change: one begins after each gap. */
static void send_some(struct session *session, msgpack_sbuffer *to, const struct ticks_clock *clock)
{
	struct thread_state states[STATES_MAX];
	struct state_entry entry;
	uint64_t lost = 0, gap = 0;
	uint32_t count = 0;

	while (count < STATES_MAX && state_ring_take(ring, &session->states_next, &entry, &gap)) {
		if (gap) {
			encode(states, count, lost, to);
			count = 0;
			lost = gap;
			gap = 0;
		}
		states[count++] = (struct thread_state){.thread = entry.thread,
		                                        .time_ns = ticks_to_ns(clock, entry.ticks),
		                                        .native_id = entry.native_id,
		                                        .event = (enum state_event)entry.event};
	}
	encode(states, count, lost, to);
	encode(NULL, 0, gap, to);
	thread_names_ask(session);
}

/* --- Sessions */

uint32_t timeline_rate_hz(const struct mark_options *options)
{
	if (gvl_events_possible())
		return 0;
	if (thread_sampler_rate_hz())
		return thread_sampler_rate_hz();
	wanted_rate_hz = options->state_rate_hz;
	return wanted_rate_hz;
}

/* What a sampled timeline does not have. */
static void say_how(struct session *session)
{
	uint32_t rate_hz = thread_sampler_rate_hz();

	session_note(session, NOTE_WARNING,
	             "this Ruby does not tell what its threads do: they are looked at %" PRIu32
	             " times a second; what is shorter than "
	             "%.4g ms may not be seen",
	             rate_hz, 1e3 / rate_hz);
	if (!thread_sampler_tells_in_what())
		session_note(session, NOTE_WARNING,
		             "what threads do without the GVL is not told apart: where this Ruby keeps the "
		             "frames of other threads was not found");
	if (!compat_is_only_ractor())
		session_note(session, NOTE_WARNING, "threads of other Ractors than the main one are not in the timeline");
	if (!gc_hook_is_on(on_gc_sampled))
		session_note(session, NOTE_WARNING, "%s", GC_HOOK_WHY);
}

void timeline_begin(struct session *session)
{
	session->states_next = state_ring_next(ring);
	session->mark_state->misses = thread_sampler_misses();
	__atomic_store_n(&session->tell_states, send_some, __ATOMIC_RELEASE);
	thread_names_tell(session);
	if (gvl_events_possible())
		return;
	say_how(session);
	thread_sampler_tell_all();
}

void timeline_tell(struct session *session)
{
	const struct sampler_misses *before = &session->mark_state->misses, now = thread_sampler_misses();
	uint64_t left_out = thread_table_left_out(), late = now.late - before->late;

	if (gvl_events_possible())
		return;
	if (late)
		session_note(session, NOTE_WARNING,
		             "%" PRIu64 " times nobody looked at the threads for 20 ms or more, for %" PRIu64
		             " ms at most: the machine had no "
		             "processor for that; when a thread began something else meanwhile is not known",
		             late, (uint64_t)(now.longest_late_ns / NS_PER_MS));
	if (now.fewer != before->fewer)
		session_note(session, NOTE_WARNING,
		             "for some time the threads were looked at every %.4g ms alone, as more would take more of a "
		             "processor than " SAMPLER_ALLOWED_TEXT "; what is shorter may be missing",
		             (double)now.longest_period_ns / NS_PER_MS);
	if (left_out)
		session_note(session, NOTE_WARNING, "%" PRIu64 " threads are not in the timeline: it has %u at a time", left_out,
		             THREAD_TABLE_MAX);
}

void timeline_exit(bool threads_are_there)
{
	if (!gvl_events_possible())
		thread_sampler_exit(threads_are_there);
}

/* --- A forked child */

void timeline_fork_child(void)
{
	gvl_events_fork_child();
	if (!gvl_events_possible())
		goes_on = thread_sampler_fork_child();
}

void timeline_adopt(struct session *session)
{
	session->states_next = state_ring_next(ring);
	session->mark_state->misses = (struct sampler_misses){0};
}

static bool is_wanted(const struct session *session)
{
	return session->marking & 1u << MARK_STATE;
}

static VALUE start_again(VALUE unused)
{
	struct error err;

	if (thread_sampler_start(ring, thread_sampler_rate_hz(), &err) < 0)
		rb_raise(rb_eRuntimeError, "%s", err.text);
	return unused;
}

static void say_why_not(void)
{
	char why[ERROR_TEXT_SIZE / 2];

	builtin_describe(rb_errinfo(), why, sizeof(why));
	exception_drop(Qnil);
	for (struct session *session = session_first(); session; session = session->next)
		if (is_wanted(session))
			session_note(session, NOTE_WARNING, "what threads do is not known in this process: %s", why);
}

static VALUE list(VALUE unused)
{
	thread_sampler_list();
	return unused;
}

static void fork_go_on(void)
{
	int failed = 0;

	if (!goes_on)
		return;
	goes_on = false;
	for (struct session *session = session_first(); session; session = session->next)
		if (is_wanted(session)) {
			rb_protect(start_again, Qnil, &failed);
			break;
		}
	if (failed)
		say_why_not();
}

void timeline_go_on(void)
{
	int failed = 0;

	fork_go_on();
	thread_sampler_clean();
	rb_protect(list, Qnil, &failed);
	if (failed)
		exception_drop(Qnil);
}
