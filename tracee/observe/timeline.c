/*
 * What threads do: run, wait for the GVL, do without it and in what, collect garbage; and when. Context: the hooks run inside
 * the VM's scheduler and its garbage collector, on several threads at once, with or without the GVL; timeline_send() in the
 * writer thread; everything else in jobs.
 *
 * Not by way of the sessions' rings, into which only who has the GVL may write, nor by jobs, which would be events themselves.
 */

#include "tracee/observe/marks.h"

#include "proto/record.h"
#include "proto/states.h"
#include "tracee/base/state_ring.h"
#include "tracee/base/ticks.h"
#include "tracee/session/gc_hook.h"
#include "tracee/vm/blocked_in.h"
#include "tracee/vm/gvl_events.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GC_EVENTS (RUBY_INTERNAL_EVENT_GC_ENTER | RUBY_INTERNAL_EVENT_GC_EXIT)

static struct state_ring *ring; /* kept once there is one */

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

static int check(struct error *err)
{
	if (gvl_events_possible())
		return 0;
	return error_set(
		err, -ENOTSUP,
		"--timeline needs Ruby 3.2 or newer: this one does not tell what its threads do; `rbprobe profile --gvl` "
		"samples it");
}

static void on(void)
{
	if (!ring)
		ring = state_ring_new();
	if (!ring)
		rb_memerror();
	blocked_in_prepare();
	gvl_events_on(on_gvl);
	gc_hook_add(on_gc, GC_EVENTS);
}

static void off(void)
{
	gvl_events_off(on_gvl);
	gc_hook_remove(on_gc);
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
}

void timeline_begin(struct session *session)
{
	session->states_next = state_ring_next(ring);
	__atomic_store_n(&session->tell_states, send_some, __ATOMIC_RELEASE);
}
