/*
 * Lines: see engine_line.h. Contexts: job, or an event that is not the line's (arm, disarm), event (callback).
 *
 * Each has a TracePoint of its own, with the instructions as its target and the line as its target_line (2.6 and newer). That of
 * a define_method method needs no care as its calls do: LINE events come from the instructions, not from the definition.
 */

#include "tracee/engine/engine_line.h"

#include "tracee/engine/watched_code.h"
#include "tracee/frame/frame.h"
#include "tracee/frame/frame_locals.h"
#include "tracee/observe/observe.h"
#include "tracee/observe/overhead.h"
#include "tracee/observe/probe.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/code_around.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/event_flags.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/fiber.h"
#include "tracee/vm/foreign_hooks.h"
#include "tracee/vm/oneshot_lines.h"
#include "tracee/vm/targeted.h"

#include <errno.h>
#include <ruby/debug.h>
#include <stdatomic.h>
#include <stdlib.h>

struct line_site {
	struct probe *probe; /* NULL: it is over */
	uint32_t line;
	bool once;
	struct watched_code watched;     /* engine_line_mark() pins it */
	_Atomic uint64_t foreign_events; /* in other Ractors */
	bool left_over;
	struct line_site *next; /* of those that are left over */
};

/* Nobody wants them, and their TracePoints could not be disabled yet, because of other Ractors or of hooks that run. */
static struct line_site *left_over;

static uint32_t armed_count; /* sites, also those that are left over */

static void line_event(VALUE tracepoint, void *data)
{
	const void *anchor = FRAME_ANCHOR();
	struct line_site *site = data;
	struct fiber_state *fiber = fiber_current_state();
	struct overhead_sample sample;

	watched_code_event(&site->watched);
	/* In another Ractor nothing but the site itself may be looked at: no GVL protects the rest. */
	if (!fiber) {
		atomic_fetch_add_explicit(&site->foreign_events, 1, memory_order_relaxed);
		return;
	}
	if (site->once && !NIL_P(rb_tracearg_method_id(rb_tracearg_from_tracepoint(tracepoint))))
		return;
	sample = overhead_sample_begin(overhead_sampled());
	if (site->probe && site->probe->armed)
		observe_line(site->probe, fiber, rb_tracearg_from_tracepoint(tracepoint), anchor);
	overhead_sample_end(sample);
}

static VALUE enable(VALUE argument)
{
	const struct line_site *site = (const struct line_site *)argument;

	builtin_enable_for_line(site->watched.tracepoint, site->watched.code, site->line);
	targeted_wake_others(site->watched.code, site->line);
	return Qnil;
}

static VALUE wake(VALUE code)
{
	if (targeted_rest())
		targeted_wake_others(code, 0);
	return Qnil;
}

void engine_line_method_armed(VALUE code)
{
	int failed = 0;

	if (compat_target_keeps_others() || !armed_count)
		return;
	/* It raises where the code has no lines. */
	rb_protect(wake, code, &failed);
	if (failed)
		exception_drop(Qnil);
}

void engine_line_prepare(void)
{
	if (!compat_target_survives_hooks())
		foreign_hooks_known(); /* when it is disabled, whether one runs is asked */
	frame_calibrate(FRAME_TARGETED, NULL);
	frame_locals_find();
	code_around_find();
	oneshot_lines_ready();
}

int engine_line_arm(struct probe *probe, VALUE code, uint32_t line, bool once, struct error *err)
{
	struct line_site *site;
	int failed = 0;

	if (!compat_tracing_is_safe())
		return error_set(err, -ENOTSUP, COMPAT_TRACING_UNSAFE);
	site = calloc(1, sizeof(*site));
	if (!site)
		return error_set(err, -ENOMEM, "no memory for a probe");
	*site = (struct line_site){.probe = probe, .line = line, .once = once, .watched = {.tracepoint = Qnil, .code = code}};
	probe->line = site;
	armed_count++;
	engine_line_sweep();
	engine_line_prepare();
	event_flags_restore_global();
	site->watched.tracepoint = rb_tracepoint_new(Qnil, RUBY_EVENT_LINE, line_event, site);
	probe->armed = true;
	rb_protect(enable, (VALUE)site, &failed);
	probe->armed = !failed;
	return watched_code_begin(&site->watched, failed, err);
}

static void leave_over(struct line_site *site)
{
	if (site->left_over)
		return;
	site->left_over = true;
	site->next = left_over;
	left_over = site;
}

void engine_line_disarm(struct probe *probe)
{
	if (!probe->line)
		return;
	probe->armed = false;
	if (!watched_code_end(&probe->line->watched))
		leave_over(probe->line);
}

void engine_line_hand_over(struct probe *from, struct probe *to)
{
	to->line = from->line;
	to->armed = from->armed;
	if (to->line)
		to->line->probe = to;
	from->line = NULL;
	from->armed = false;
	from->calls_before = from->calls;
}

static void site_free(struct line_site *site)
{
	armed_count--;
	watched_code_free(&site->watched);
	free(site);
}

void engine_line_release(struct probe *probe)
{
	struct line_site *site = probe->line;

	if (!site)
		return;
	probe->line = NULL;
	site->probe = NULL;
	if (watched_code_is_on(&site->watched))
		leave_over(site);
	else if (!site->left_over)
		site_free(site);
}

VALUE engine_line_code(const struct probe *probe)
{
	return probe->line ? probe->line->watched.code : Qnil;
}

bool engine_line_is_once(const struct probe *probe)
{
	return probe->line && probe->line->once;
}

bool engine_line_sweep(void)
{
	for (struct line_site **place = &left_over, *site; (site = *place);) {
		if (!watched_code_end(&site->watched)) {
			place = &site->next;
			continue;
		}
		*place = site->next;
		site->left_over = false;
		if (!site->probe)
			site_free(site);
	}
	return left_over != NULL;
}

void engine_line_mark(const struct probe *probe)
{
	if (probe->line)
		watched_code_mark(&probe->line->watched);
}

void engine_line_mark_left_over(void)
{
	for (const struct line_site *site = left_over; site; site = site->next)
		watched_code_mark(&site->watched);
}

uint64_t engine_line_foreign_events(const struct probe *probe)
{
	return probe->line ? atomic_load_explicit(&probe->line->foreign_events, memory_order_relaxed) : 0;
}
