/*
 * Engine "target": a TracePoint of the method's own instruction sequence, with a C callback. Costs nothing elsewhere, and nothing
 * once it is disabled. For everything that has instructions of its own: def, and define_method with a block. Its events:
 * engine_target_event.c. Context: job.
 */

#include "tracee/engine/engine_target_sites.h"

#include "tracee/engine/engine.h"
#include "tracee/engine/engine_line.h"
#include "tracee/engine/match.h"
#include "tracee/frame/frame.h"
#include "tracee/frame/frame_locals.h"
#include "tracee/session/session.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/event_flags.h"
#include "tracee/vm/foreign_hooks.h"
#include "tracee/vm/method_definition.h"
#include "tracee/vm/oneshot_lines.h"
#include "tracee/vm/targeted.h"

#include <errno.h>
#include <ruby/debug.h>
#include <stdatomic.h>

/* Up to 3.1, on a define_method method. */
static bool others_hooks(uintptr_t definition)
{
	const struct site *site = site_shared(definition);

	return targeted_hooks(definition, site ? site->watched.tracepoint : Qnil) == TARGETED_OTHERS;
}

#define OTHERS_HOOKS "a TracePoint of the application's own is on it, and this Ruby has room for one on a define_method method"

static bool target_can(const struct match *match, struct text *reason)
{
	VALUE method = match->method, code = method_definition_instructions(method);

	if (NIL_P(code)) {
		text_append_cstr(reason, "not written in Ruby");
		return false;
	}
	if (!compat_tracing_is_safe()) {
		text_append_cstr(reason, COMPAT_TRACING_UNSAFE);
		return false;
	}
	if (method_definition_has_short_form(method)) {
		text_append_cstr(reason, "Ruby runs other instructions for calls without optional arguments");
		return false;
	}
	if (method_definition_is_bypassed(method)) {
		text_append_cstr(reason, "Ruby calls the C function in it directly, without the method, from the second call on");
		return false;
	}
	if (site_must_be_shared(method) && (method_definition_of(method) == 0 || !targeted_known())) {
		text_append_cstr(reason, "this Ruby does not tell whether the define_method method is traced already");
		return false;
	}
	if (site_must_be_shared(method) && others_hooks(method_definition_of(method))) {
		text_append_cstr(reason, OTHERS_HOOKS);
		return false;
	}
	if (method_definition_is_block_method(method) && sites_of_block(method, code) >= SITES_OF_BLOCK_MAX) {
		text_printf(reason,
		            "%d methods that are made of its block are traced already; more would stall the process "
		            "when the trace ends",
		            SITES_OF_BLOCK_MAX);
		return false;
	}
	return true;
}

/* Up to 3.1 a define_method method has no room for such a TracePoint beside another. */
static bool is_for_calls_only(const struct probe *probe, VALUE method)
{
	return probe->counts_only && !site_must_be_shared(method);
}

static VALUE enable(VALUE tracepoint_and_method)
{
	VALUE tracepoint = rb_ary_entry(tracepoint_and_method, 0), method = rb_ary_entry(tracepoint_and_method, 1);

	builtin_enable_for(tracepoint, method);
	if (method_definition_is_block_method(method))
		method_definition_written(method, tracepoint);
	engine_line_method_armed(method_definition_instructions(method));
	return Qnil;
}

/*
 * A `def` within the method that gives it a new definition: the site's TracePoint fires for both, and so serves both. The newest
 * definition is the one that is called from then on.
 */
static struct site *enclosing_site(const struct probe *probe, VALUE method, VALUE code)
{
	if (method_definition_is_block_method(method))
		return NULL;
	for (const struct probe *former = probe->former; former; former = former->former)
		for (const struct engine_target_site *link = former->sites; link; link = link->next)
			if (link->wanted && watched_code_is_on(&link->site->watched) &&
			    (!link->site->calls_only || probe->counts_only) &&
			    method_definition_encloses(link->site->watched.code, code))
				return link->site;
	return NULL;
}

static int arm_site(struct probe *probe, VALUE method, struct error *err)
{
	VALUE code = method_definition_instructions(method);
	bool calls_only = is_for_calls_only(probe, method);
	st_data_t key = site_key(method, code, calls_only);
	struct site *site = site_shared(key);
	uint32_t flags;
	int failed = 0;

	probe->armed = true;
	if (site)
		return site_join(site, probe, err);
	site = enclosing_site(probe, method, code);
	if (site) {
		if (!site_add(site, probe))
			return error_set(err, -ENOMEM, "no memory for a probe");
		probe->sites->nested_key = key;
		probe->sites->nested_method = method;
		probe->sites->nested_code = code;
		return 0;
	}
	engine_target_sweep();
	if (!compat_target_survives_hooks())
		foreign_hooks_known(); /* when it is disabled, whether one runs is asked */
	frame_calibrate(FRAME_TARGETED, NULL);
	if (probe->expressions || probe->key || probe->ends)
		frame_locals_find();
	oneshot_lines_ready();
	event_flags_restore_global();
	/* That may have run Ruby code. */
	site = site_shared(key);
	if (site)
		return site_join(site, probe, err);
	if (site_must_be_shared(method) && others_hooks(key)) {
		probe->armed = false;
		return error_set(err, -ENOTSUP, OTHERS_HOOKS);
	}
	site = site_new(probe, method, code, key);
	if (!site)
		return error_set(err, -ENOMEM, "no memory for a probe");
	site->calls_only = calls_only;
	site->watched.tracepoint =
		rb_tracepoint_new(Qnil, RUBY_EVENT_CALL | (calls_only ? 0 : RUBY_EVENT_RETURN), engine_target_event, site);
	/* Earlier ones stay: a call of the method's former definition may be under way, and its end is to be seen. */
	flags = method_definition_flags(method);
	rb_protect(enable, rb_ary_new_from_args(2, site->watched.tracepoint, method), &failed);
	method_definition_flags_keep(method, flags);
	if (watched_code_begin(&site->watched, failed, err) == 0)
		return 0;
	probe->armed = false;
	/* Nobody is to join it. */
	site_link_of(site, probe)->wanted = false;
	site->wanted--;
	return err->code;
}

static int target_arm(struct probe *probe, VALUE method, struct error *err)
{
	bool aliased = builtin_call0(BUILTIN_UNBOUND_METHOD_ORIGINAL_NAME, method) != probe->callee;
	int status = arm_site(probe, method, err);

	if (status == 0 && aliased && probe->sites && !probe->sites->aliased) {
		probe->sites->aliased = true;
		probe->sites->site->aliases++;
	}
	return status;
}

/*
 * A `def` that runs again gives the method the same instructions, for which the TracePoint goes on firing; a method that
 * define_method makes of a block has hooks of its own, with its definition.
 */
static bool is_code_of(const struct engine_target_site *link, VALUE method)
{
	const struct site *site = link->site;

	if (link->nested_key)
		return !method_definition_is_block_method(method) &&
		       site_key(method, method_definition_instructions(method), link->probe->counts_only) == link->nested_key;
	if (method_definition_is_block_method(method))
		return method_definition_of(method) != 0 && method_definition_of(method) == method_definition_of(site->method);
	return site_key(method, method_definition_instructions(method), site->calls_only) == site->key;
}

static bool target_serves(const struct probe *probe, VALUE method)
{
	for (const struct engine_target_site *link = probe->sites; link; link = link->next)
		if (probe->armed && is_code_of(link, method))
			return true;
	return false;
}

static void target_disarm(struct probe *probe)
{
	probe->armed = false;
	for (struct engine_target_site *link = probe->sites; link; link = link->next)
		site_unwant(link);
}

uint64_t engine_target_foreign_calls(const struct probe *probe)
{
	uint64_t calls = 0;

	for (const struct engine_target_site *link = probe->sites; link; link = link->next) {
		/* The calls of all its methods together: whose they were, nothing tells. */
		if (link->site->counted_for == probe->session)
			continue;
		link->site->counted_for = probe->session;
		calls += atomic_load_explicit(&link->site->foreign_calls, memory_order_relaxed) - link->foreign_before;
	}
	return calls;
}

bool engine_target_is_pushed_out(const struct probe *probe)
{
	for (const struct engine_target_site *link = probe->sites; link; link = link->next)
		if (link->wanted && targeted_is_pushed_out(link->site->watched.definition, link->site->watched.tracepoint))
			return true;
	return false;
}

void engine_target_mark(const struct probe *probe)
{
	for (const struct engine_target_site *link = probe->sites; link; link = link->next) {
		site_mark(link->site);
		if (link->nested_key) {
			rb_gc_mark(link->nested_method);
			rb_gc_mark(link->nested_code);
		}
	}
}

const struct engine engine_target = {
	.id = ENGINE_TARGET,
	.can = target_can,
	.serves = target_serves,
	.arm = target_arm,
	.disarm = target_disarm,
	.release = sites_leave,
};
