/*
 * Engine "target": a TracePoint of the method's own instruction sequence, with a C callback. Costs nothing elsewhere, and nothing once
 * it is disabled. For everything that has instructions of its own: def, and define_method with a block. Contexts: job (arm), event (callback).
 *
 * The TracePoint also reports what else runs these instructions, or is written inside of them: an alias, a copy by module_function, a method
 * defined within the method. So each call is compared with the selected name and owner.
 */

#include "engine.h"

#include "compat.h"
#include "core.h"
#include "definition.h"
#include "fiber.h"
#include "frame.h"
#include "frame_direct.h"
#include "observe.h"
#include "observe_quick.h"
#include "probe_set.h"
#include "selection.h"
#include "selector.h"

#include <errno.h>
#include <ruby/debug.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/*
 * A TracePoint and the probes that it serves. It is one probe, except for define_method methods on a Ruby that allows one
 * TracePoint for such a definition: there several names, classes and sessions share a site.
 */
struct site {
	struct probe_set probes;
	_Atomic uint64_t foreign_calls; /* in other Ractors */
	VALUE tracepoint;               /* engine_target_mark() pins it: nobody but us knows where it is */
	VALUE method;                   /* pinned, too */
	uintptr_t definition;           /* 0: not shared */
	struct site *next;              /* of those that are shared, or of those that are left over */
};

/* A probe's site. */
struct engine_target_site {
	struct site *site;
	struct engine_target_site *next;
};

static struct site *shared_sites;

/* Sites without probes whose TracePoints could not be disabled yet, because of other Ractors. */
static struct site *left_over;

static bool must_share(VALUE method)
{
	return !compat_block_method_shares_hooks() && definition_is_block_method(method);
}

static bool target_can(const struct match *match, struct text *reason)
{
	VALUE method = match->method;

	if (NIL_P(definition_instructions(method))) {
		text_append_cstr(reason, "not written in Ruby");
		return false;
	}
	if (must_share(method) && definition_of(method) == 0) {
		text_append_cstr(reason, "this Ruby does not tell whether the define_method method is traced already");
		return false;
	}
	return true;
}

/* The VM is asked what the event is about. */
static void event_asked(struct site *site, VALUE tracepoint, const void *anchor)
{
	rb_trace_arg_t *trace_arg = rb_tracearg_from_tracepoint(tracepoint);
	bool is_return = rb_tracearg_event_flag(trace_arg) == RUBY_EVENT_RETURN;
	struct fiber_state *fiber = fiber_current_state();
	VALUE callee, owner;

	/* In another Ractor nothing but the site itself may be looked at: no GVL protects the rest. */
	if (!fiber) {
		if (!is_return)
			atomic_fetch_add_explicit(&site->foreign_calls, 1, memory_order_relaxed);
		return;
	}
	/* The end of a call is found by its frame: whose it is need not be asked. */
	if (is_return && site->probes.count == 1 && frame_identity_known(FRAME_TARGETED)) {
		observe_return(site->probes.first, fiber, trace_arg, RUBY_EVENT_RETURN, anchor);
		return;
	}
	callee = rb_tracearg_callee_id(trace_arg);
	owner = rb_tracearg_defined_class(trace_arg);
	for (uint32_t i = 0; i < site->probes.count; i++) {
		struct probe *probe = site->probes.all[i];

		if (probe->callee != callee || probe->owner != owner)
			continue;
		if (is_return)
			observe_return(probe, fiber, trace_arg, RUBY_EVENT_RETURN, anchor);
		else
			observe_call(probe, fiber, trace_arg, RUBY_EVENT_CALL, anchor);
	}
}

/* True where the event was an ordinary one, and nothing had to be asked. */
static inline bool event_read(const struct site *site, const void *anchor)
{
	const struct frame_site *place = frame_hinted_site(anchor);
	const rb_trace_arg_t *trace_arg = frame_direct_trace_arg(place, anchor);
	struct fiber_state *fiber;
	struct probe *probe;

	if (!trace_arg)
		return false;
	fiber = fiber_state_of_context(frame_direct_context(trace_arg));
	if (!fiber || site->probes.count != 1)
		return false;
	probe = site->probes.first;
	if (frame_direct_event(trace_arg) == RUBY_EVENT_CALL)
		return frame_direct_is_call_of(frame_direct_frame(trace_arg), probe->callee_id, probe->owner) &&
		       observe_quick_call(probe, fiber, frame_direct_frame(trace_arg), true);
	/* Where frames are unwound, how they end has to be found out. */
	return place->kind == SITE_RETURNED && place->bias == 0 &&
	       observe_quick_return(probe, fiber, frame_direct_frame(trace_arg));
}

static void target_event(VALUE tracepoint, void *data)
{
	const void *anchor = FRAME_ANCHOR();

	if (!event_read(data, anchor))
		event_asked(data, tracepoint, anchor);
}

static struct site *shared_site(uintptr_t definition)
{
	struct site *site = shared_sites;

	while (site && site->definition != definition)
		site = site->next;
	return site;
}

/* Makes the probe one of the site's. Without memory nothing has changed. */
static bool site_add(struct site *site, struct probe *probe)
{
	struct engine_target_site *link = malloc(sizeof(*link));

	if (!link || !probe_set_add(&site->probes, probe)) {
		free(link);
		return false;
	}
	link->site = site;
	link->next = probe->sites;
	probe->sites = link;
	return true;
}

static void unshare(struct site *site)
{
	struct site **link = &shared_sites;

	while (*link && *link != site)
		link = &(*link)->next;
	if (*link)
		*link = site->next;
}

static void site_free(struct site *site)
{
	unshare(site);
	free(site);
}

static bool is_enabled(const struct site *site)
{
	return RTEST(site->tracepoint) && RTEST(rb_tracepoint_enabled_p(site->tracepoint));
}

/* Disables and frees what was left over, as soon as that is possible. */
static void sweep_left_over(void)
{
	if (!left_over || !compat_target_may_be_disabled())
		return;
	while (left_over) {
		struct site *site = left_over;

		left_over = site->next;
		if (is_enabled(site))
			rb_tracepoint_disable(site->tracepoint);
		free(site);
	}
}

static VALUE enable(VALUE tracepoint_and_method)
{
	core_enable_for(rb_ary_entry(tracepoint_and_method, 0), rb_ary_entry(tracepoint_and_method, 1));
	return Qnil;
}

static int target_arm(struct probe *probe, VALUE method, struct error *err)
{
	uintptr_t definition = must_share(method) ? definition_of(method) : 0;
	struct site *site = definition ? shared_site(definition) : NULL;
	int failed = 0;

	probe->armed = true;
	if (site)
		return site_add(site, probe) ? 0 : error_set(err, -ENOMEM, "no memory for a probe");
	sweep_left_over();
	frame_calibrate(FRAME_TARGETED, NULL);
	engine_hook_restore_global_events();
	site = calloc(1, sizeof(*site));
	if (!site || !site_add(site, probe)) {
		free(site);
		return error_set(err, -ENOMEM, "no memory for a probe");
	}
	if (definition) {
		site->definition = definition;
		site->next = shared_sites;
		shared_sites = site;
	}
	site->method = method;
	site->tracepoint = Qfalse;
	site->tracepoint = rb_tracepoint_new(Qnil, RUBY_EVENT_CALL | RUBY_EVENT_RETURN, target_event, site);
	/* Earlier ones stay: a call of the method's former definition may be under way, and its end is to be seen. */
	rb_protect(enable, rb_ary_new_from_args(2, site->tracepoint, method), &failed);
	if (!failed)
		return 0;
	if (!RTEST(rb_obj_is_kind_of(rb_errinfo(), rb_eArgError)))
		rb_jump_tag(failed);
	rb_set_errinfo(Qnil);
	probe->armed = false;
	return error_set(err, -ENOTSUP, "this Ruby gives no events for it");
}

/*
 * A `def` that runs again gives the method the same instructions, for which the TracePoint goes on firing; a method that define_method makes of a block has
 * hooks of its own, with its definition.
 */
static bool is_same_code(VALUE method, VALUE other)
{
	if (definition_is_block_method(method))
		return definition_of(method) != 0 && definition_of(method) == definition_of(other);
	return definition_instructions(method) == definition_instructions(other);
}

static bool target_serves(const struct probe *probe, VALUE method)
{
	for (const struct engine_target_site *link = probe->sites; link; link = link->next)
		if (probe->armed && is_same_code(method, link->site->method))
			return true;
	return false;
}

static bool is_wanted(const struct site *site)
{
	for (uint32_t i = 0; i < site->probes.count; i++)
		if (site->probes.all[i]->armed)
			return true;
	return false;
}

static void target_disarm(struct probe *probe)
{
	probe->armed = false;
	for (struct engine_target_site *link = probe->sites; link; link = link->next) {
		if (is_wanted(link->site) || !is_enabled(link->site))
			continue;
		if (compat_target_may_be_disabled())
			rb_tracepoint_disable(link->site->tracepoint);
	}
	if (probe->sites)
		engine_hook_restore_global_events();
}

static void target_release(struct probe *probe)
{
	while (probe->sites) {
		struct engine_target_site *link = probe->sites;

		probe->sites = link->next;
		probe_set_remove(&link->site->probes, probe);
		if (link->site->probes.count == 0 && is_enabled(link->site)) {
			unshare(link->site);
			link->site->next = left_over;
			left_over = link->site;
		} else if (link->site->probes.count == 0) {
			site_free(link->site);
		}
		free(link);
	}
}

uint64_t engine_target_foreign_calls(const struct probe *probe)
{
	uint64_t calls = 0;

	for (const struct engine_target_site *link = probe->sites; link; link = link->next)
		calls += atomic_load_explicit(&link->site->foreign_calls, memory_order_relaxed);
	return calls;
}

void engine_target_mark(const struct probe *probe)
{
	for (const struct engine_target_site *link = probe->sites; link; link = link->next) {
		rb_gc_mark(link->site->tracepoint);
		rb_gc_mark(link->site->method);
	}
}

void engine_target_mark_left_over(void)
{
	for (const struct site *site = left_over; site; site = site->next)
		rb_gc_mark(site->tracepoint);
}

const struct engine engine_target = {
	.id = ENGINE_TARGET,
	.can = target_can,
	.serves = target_serves,
	.arm = target_arm,
	.disarm = target_disarm,
	.release = target_release,
};
