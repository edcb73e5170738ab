/*
 * Collections. Context: in GC, on the thread that pays for it, but for on() and off(). Here nothing may be allocated, and no Ruby
 * code run: a mark goes into the ring at once, or waits for the next job where the client does not know the fiber yet.
 *
 * A collection is done in pieces: the VM fires GC_ENTER and GC_EXIT around each, and GC_START and GC_END_SWEEP in the first and
 * last. Between them the application runs on, so that each piece is a pause of its own (marking in steps, lazy sweeping).
 * Once in each collection comes GC_END_MARK: all pieces up to it are marking, all from there on are sweeping.
 *
 * GC_START comes when the VM has noted why it collects; rb_gc_latest_gc_info() and rb_gc_stat() of one key allocate nothing once
 * they have been called. These hooks are Ractors' own up to 3.4, so pieces of other Ractors are not seen there; since 4.0 they
 * are. On Rubies up to 3.2 any hook for GC lets the VM allocate objects in its slower way meanwhile (gc_event_hook_available_p()
 * of gc.c).
 */

#include "tracee/observe/marks.h"

#include "proto/clock.h"
#include "tracee/base/ticks.h"
#include "tracee/base/value_texts.h"
#include "tracee/session/gc_hook.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/fiber.h"

#include <ruby.h>
#include <ruby/debug.h>
#include <string.h>

#define EVENTS                                                                                                                   \
	(RUBY_INTERNAL_EVENT_GC_ENTER | RUBY_INTERNAL_EVENT_GC_EXIT | RUBY_INTERNAL_EVENT_GC_START |                             \
	 RUBY_INTERNAL_EVENT_GC_END_MARK | RUBY_INTERNAL_EVENT_GC_END_SWEEP)
#define LONG_PAUSE_NS (1 * NS_PER_MS)

/* What the VM gives for reasons, and keys to ask for them. */
static const char *const reason_names[] = {"newobj", "malloc", "method", "capi",  "stress",
                                           "nofree", "oldgen", "shady",  "force", "oldmalloc"};

#define REASONS (sizeof(reason_names) / sizeof(reason_names[0]))

static struct {
	VALUE reasons[REASONS];
	VALUE gc_by, major_by, immediate_sweep, live_slots;
} symbols;

enum phase { PHASE_NONE, PHASE_MARK, PHASE_SWEEP, PHASES };

/* The collection that is under way; whoever collects has the VM's lock. */
static struct {
	bool active, swept;
	bool marked;         /* GC_END_MARK has been seen: the phases' times are known */
	uint64_t entered_ns; /* 0: not in a piece */
	uint64_t pause_ns, longest_ns;
	enum phase phase;
	uint64_t phase_began_ns; /* or this piece of it */
	uint64_t phase_ns[PHASES];
	uint32_t pauses;
	const char *reason, *major_by; /* "": it is a minor one */
	bool immediate;
	size_t before, after;
} now;

static _Atomic uint64_t elsewhere; /* collections that threads of other Ractors ended */

static const char *reason_of(VALUE symbol)
{
	if (NIL_P(symbol))
		return "";
	for (size_t i = 0; i < REASONS; i++)
		if (symbols.reasons[i] == symbol)
			return reason_names[i];
	return "other";
}

static void add(struct value_texts *values, const char *text)
{
	value_texts_add(values, text, strlen(text));
}

static void add_kind(struct value_texts *values)
{
	add(values, now.major_by[0] ? "major" : "minor");
	add(values, now.reason);
}

static void push_to_all(enum mark_kind kind, struct value_texts *values)
{
	const struct fiber_state *fiber = fiber_met_state();
	size_t size = value_texts_end(values);

	for (struct session *session = session_first(); session; session = session->next)
		if (marks_are_on(session, kind))
			marks_push_or_keep(session, fiber, kind, values->buffer, size);
}

/* Counts the phase up to a moment of this piece. */
static void count_phase(uint64_t time_ns)
{
	if (now.entered_ns)
		now.phase_ns[now.phase] += time_ns - now.phase_began_ns;
	now.phase_began_ns = time_ns;
}

static void next_phase(enum phase phase)
{
	count_phase(clock_now_ns());
	now.phase = phase;
}

static void add_phase(struct value_texts *values, enum phase phase)
{
	if (now.marked)
		value_texts_add_uint(values, now.phase_ns[phase]);
	else
		value_texts_leave_out(values);
}

static void begin(void)
{
	now.active = true;
	now.swept = now.marked = false;
	now.pause_ns = now.longest_ns = 0;
	now.pauses = 0;
	now.reason = reason_of(rb_gc_latest_gc_info(symbols.gc_by));
	now.major_by = reason_of(rb_gc_latest_gc_info(symbols.major_by));
	now.immediate = RTEST(rb_gc_latest_gc_info(symbols.immediate_sweep));
	now.before = rb_gc_stat(symbols.live_slots);
	next_phase(PHASE_MARK);
	memset(now.phase_ns, 0, sizeof(now.phase_ns));
}

static void end(void)
{
	char buffer[MARK_KEPT_SIZE];
	struct value_texts values;

	now.active = false;
	if (!compat_in_main_ractor()) {
		elsewhere++;
		return;
	}
	value_texts_begin(&values, buffer, sizeof(buffer));
	add_kind(&values);
	add(&values, now.major_by);
	add(&values, now.immediate ? "immediate" : "lazy");
	value_texts_add_uint(&values, now.pause_ns);
	value_texts_add_uint(&values, now.pauses);
	value_texts_add_uint(&values, now.longest_ns);
	value_texts_add_uint(&values, now.before);
	value_texts_add_uint(&values, now.after);
	add_phase(&values, PHASE_MARK);
	add_phase(&values, PHASE_SWEEP);
	push_to_all(MARK_GC, &values);
}

static void tell_pause(uint64_t pause_ns)
{
	char buffer[MARK_KEPT_SIZE];
	struct value_texts values;

	value_texts_begin(&values, buffer, sizeof(buffer));
	add_kind(&values);
	value_texts_add_uint(&values, pause_ns);
	push_to_all(MARK_GC_PAUSE, &values);
}

static void leave(void)
{
	uint64_t time_ns = clock_now_ns(), pause_ns = now.entered_ns ? time_ns - now.entered_ns : 0;

	count_phase(time_ns);
	now.entered_ns = 0;
	for (struct session *session = session_first(); session; session = session->next)
		if (marks_are_on(session, MARK_GC)) {
			session->mark_state->gc_ns += pause_ns;
			if (pause_ns > session->mark_state->gc_longest_ns)
				session->mark_state->gc_longest_ns = pause_ns;
		}
	if (!now.active)
		return;
	now.pause_ns += pause_ns;
	now.pauses++;
	if (pause_ns > now.longest_ns)
		now.longest_ns = pause_ns;
	if (now.swept)
		end();
	else if (pause_ns >= LONG_PAUSE_NS && compat_in_main_ractor())
		tell_pause(pause_ns);
}

static void on_gc(rb_event_flag_t event, VALUE data, VALUE self, ID id, VALUE class)
{
	(void)data;
	(void)self;
	(void)id;
	(void)class;
	switch (event) {
	case RUBY_INTERNAL_EVENT_GC_ENTER:
		now.entered_ns = now.phase_began_ns = clock_now_ns();
		return;
	case RUBY_INTERNAL_EVENT_GC_START:
		begin();
		return;
	case RUBY_INTERNAL_EVENT_GC_END_MARK:
		next_phase(PHASE_SWEEP);
		now.marked = true;
		return;
	case RUBY_INTERNAL_EVENT_GC_END_SWEEP:
		next_phase(PHASE_NONE);
		now.after = rb_gc_stat(symbols.live_slots);
		now.swept = true;
		return;
	default:
		leave();
	}
}

uint64_t mark_gc_elsewhere(void)
{
	return elsewhere;
}

static VALUE symbol(const char *name)
{
	return ID2SYM(rb_intern(name));
}

static void on(void)
{
	for (size_t i = 0; i < REASONS; i++)
		symbols.reasons[i] = symbol(reason_names[i]);
	symbols.gc_by = symbol("gc_by");
	symbols.major_by = symbol("major_by");
	symbols.immediate_sweep = symbol("immediate_sweep");
	symbols.live_slots = symbol("heap_live_slots");
	/* The first time they make Symbols of their own; and a Ruby that lacks one of these raises here. */
	rb_gc_latest_gc_info(symbols.gc_by);
	rb_gc_latest_gc_info(symbols.major_by);
	rb_gc_latest_gc_info(symbols.immediate_sweep);
	rb_gc_stat(symbols.live_slots);
	memset(&now, 0, sizeof(now));
	if (!gc_hook_add(on_gc, EVENTS))
		rb_raise(rb_eRuntimeError, "%s", GC_HOOK_WHY);
}

static void off(void)
{
	gc_hook_remove(on_gc);
}

const struct mark_source mark_gc = {.kind = MARK_GC, .on = on, .off = off};
