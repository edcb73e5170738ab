/*
 * Engine "target": a TracePoint of the method's own instruction sequence, with a C callback. Costs nothing elsewhere, and nothing
 * once it is disabled. For everything that has instructions of its own: def, and define_method with a block. Its events:
 * engine_target_event.c. Context: job.
 */

#include "tracee/engine/engine_target_parts.h"

#include "proto/clock.h"
#include "tracee/engine/engine.h"
#include "tracee/engine/engine_line.h"
#include "tracee/engine/match.h"
#include "tracee/frame/frame.h"
#include "tracee/frame/frame_locals.h"
#include "tracee/session/session.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/event_flags.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/foreign_hooks.h"
#include "tracee/vm/method_definition.h"
#include "tracee/vm/oneshot_lines.h"
#include "tracee/vm/targeted.h"

#include <errno.h>
#include <ruby/debug.h>
#include <ruby/st.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static st_table *shared_sites; /* by what they are for: see key_of(); under the GVL */

/*
 * How many sites there are for methods of one block, by its instructions. The VM has the hooks of all of them in one list, which
 * it walks to its end for each that is disabled (rb_hook_list_remove_tracepoint() of 2.7 to 4.0), with the GVL held: 2,000 take
 * some 20 ms together, 50,000 minutes.
 */
static st_table *block_sites; /* under the GVL */
#define BLOCK_SITES_MAX 2000

#define SWEEP_MAX_NS (5 * NS_PER_MS)

/*
 * Sites that no probe wants any more, whose TracePoints could not be disabled yet, because of other Ractors or of hooks that run.
 * A new probe gets them.
 */
static struct site *left_over;

static bool must_share(VALUE method)
{
	return !compat_block_method_shares_hooks() && method_definition_is_block_method(method);
}

static bool is_enabled(const struct site *site)
{
	return RTEST(site->tracepoint) && RTEST(rb_tracepoint_enabled_p(site->tracepoint));
}

/* One that is armed, about to be, or still on. */
static struct site *shared_site(st_data_t key)
{
	st_data_t found;

	if (!key || !shared_sites || !st_lookup(shared_sites, key, &found))
		return NULL;
	return ((struct site *)found)->wanted || is_enabled((struct site *)found) ? (struct site *)found : NULL;
}

/* Up to 3.1, on a define_method method. */
static bool others_hooks(uintptr_t definition)
{
	const struct site *site = shared_site(definition);

	return targeted_hooks(definition, site ? site->tracepoint : Qnil) == TARGETED_OTHERS;
}

#define OTHERS_HOOKS "a TracePoint of the application's own is on it, and this Ruby has room for one on a define_method method"

/*
 * Whether RubyVM::InstructionSequence.of() gives one object for one instruction sequence. Before 3.0 it makes a new one each
 * time, which holds its address.
 */
static bool code_has_one_object(VALUE method)
{
	static enum { UNKNOWN, YES, NO } one;

	if (one == UNKNOWN) {
		VALUE first = method_definition_instructions(method), second = method_definition_instructions(method);

		one = first == second ? YES : NO;
		RB_GC_GUARD(first);
	}
	return one == YES;
}

/* One number for one instruction sequence, as long as somebody keeps method and code. */
static st_data_t key_of_code(VALUE method, VALUE code)
{
	return code_has_one_object(method) ? (st_data_t)code : (st_data_t)compat_data(code);
}

static st_data_t sites_of_block(st_data_t key)
{
	st_data_t count;

	return block_sites && st_lookup(block_sites, key, &count) ? count : 0;
}

static void block_sites_set(st_data_t key, st_data_t count)
{
	if (!block_sites)
		block_sites = st_init_numtable();
	if (count)
		st_insert(block_sites, key, count);
	else
		st_delete(block_sites, &key, NULL);
}

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
	if (must_share(method) && (method_definition_of(method) == 0 || !targeted_known())) {
		text_append_cstr(reason, "this Ruby does not tell whether the define_method method is traced already");
		return false;
	}
	if (must_share(method) && others_hooks(method_definition_of(method))) {
		text_append_cstr(reason, OTHERS_HOOKS);
		return false;
	}
	if (method_definition_is_block_method(method) && sites_of_block(key_of_code(method, code)) >= BLOCK_SITES_MAX) {
		text_printf(reason,
		            "%d methods that are made of its block are traced already; more would stall the process "
		            "when the trace ends",
		            BLOCK_SITES_MAX);
		return false;
	}
	return true;
}

/* Makes the probe one of the site's. Without memory nothing has changed. */
static bool site_add(struct site *site, struct probe *probe)
{
	struct engine_target_site *link = calloc(1, sizeof(*link));

	if (!link)
		return false;
	*link = (struct engine_target_site){.site = site,
	                                    .probe = probe,
	                                    .foreign_before = atomic_load_explicit(&site->foreign_calls, memory_order_relaxed),
	                                    .wanted = true,
	                                    .next = probe->sites,
	                                    .next_of_site = site->links,
	                                    .previous_of_site = &site->links};
	if (site->links)
		site->links->previous_of_site = &link->next_of_site;
	site->links = link;
	probe->sites = link;
	site->wanted++;
	site->only = ++site->link_count == 1 ? probe : NULL;
	return true;
}

/* Where the last one leaves, the site is the caller's to free. */
static void site_remove(struct engine_target_site *link)
{
	struct site *site = link->site;

	site->wanted -= link->wanted;
	site->aliases -= link->aliased;
	*link->previous_of_site = link->next_of_site;
	if (link->next_of_site)
		link->next_of_site->previous_of_site = link->previous_of_site;
	site->only = --site->link_count == 1 ? site->links->probe : NULL;
	free(link);
}

/*
 * What methods have in common that share a TracePoint; 0: this one has none to share. A method that define_method makes of a
 * block has hooks of its own, with its definition. Whoever keeps a key keeps method and code, so that nothing else gets their
 * addresses.
 */
static st_data_t key_of(VALUE method, VALUE code)
{
	if (method_definition_is_block_method(method))
		return must_share(method) ? method_definition_of(method) : 0;
	return key_of_code(method, code);
}

/*
 * Where nothing but calls is counted, the TracePoint is one for them alone, which costs less. It is another than that of those
 * who want to see the ends as well. Up to 3.1 a define_method method has room for one.
 */
static bool is_for_calls_only(const struct probe *probe, VALUE method)
{
	return probe->counts_only && !must_share(method);
}

static st_data_t shared_key(st_data_t key, bool calls_only)
{
	return key | (key && calls_only);
}

static void share(struct site *site, st_data_t key)
{
	if (!key)
		return;
	if (!shared_sites)
		shared_sites = st_init_numtable();
	site->key = key;
	st_insert(shared_sites, key, (st_data_t)site);
}

static void leave_shared(struct site *site)
{
	st_data_t key = site->key, found;

	if (key && st_lookup(shared_sites, key, &found) && (struct site *)found == site)
		st_delete(shared_sites, &key, NULL);
	site->key = 0;
}

static void site_disable(struct site *site)
{
	oneshot_lines_release(&site->kept);
	targeted_disable(site->definition, site->tracepoint);
}

static void site_free(struct site *site)
{
	oneshot_lines_release(&site->kept);
	leave_shared(site);
	if (site->block)
		block_sites_set(site->block, sites_of_block(site->block) - 1);
	free(site);
}

static void leave_over(struct site *site)
{
	if (site->left_over)
		return;
	site->left_over = true;
	site->next = left_over;
	left_over = site;
}

static void take_back(struct site **place)
{
	struct site *site = *place;

	*place = site->next;
	site->left_over = false;
}

/* Disables and frees what was left over, as soon as that is possible; so much of it that no thread stands still for long. */
static void sweep_left_over(void)
{
	uint64_t until_ns;

	if (!left_over || !targeted_rest())
		return;
	until_ns = clock_now_ns() + SWEEP_MAX_NS;
	for (struct site **place = &left_over, *site; (site = *place) && clock_now_ns() < until_ns;) {
		if (is_enabled(site) && !targeted_may_be_disabled(site->definition, site->tracepoint)) {
			place = &site->next;
			continue;
		}
		if (is_enabled(site))
			site_disable(site);
		take_back(place);
		if (site->link_count == 0)
			site_free(site);
	}
}

/* Has the probe served by a site that is there: again, or as well. */
static int join(struct site *site, struct probe *probe, struct error *err)
{
	struct engine_target_site *link = engine_target_link_of(site, probe);

	for (struct site **place = &left_over; *place; place = &(*place)->next)
		if (*place == site) {
			take_back(place);
			break;
		}
	if (!link)
		return site_add(site, probe) ? 0 : error_set(err, -ENOMEM, "no memory for a probe");
	site->wanted += !link->wanted;
	link->wanted = true;
	return 0;
}

bool engine_target_sweep(void)
{
	sweep_left_over();
	return left_over != NULL;
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
			if (link->wanted && is_enabled(link->site) && (!link->site->calls_only || probe->counts_only) &&
			    method_definition_encloses(link->site->code, code))
				return link->site;
	return NULL;
}

static int arm_site(struct probe *probe, VALUE method, struct error *err)
{
	VALUE code = method_definition_instructions(method);
	bool calls_only = is_for_calls_only(probe, method);
	st_data_t key = shared_key(key_of(method, code), calls_only);
	struct site *site = shared_site(key);
	uint32_t flags;
	int failed = 0;

	probe->armed = true;
	if (site)
		return join(site, probe, err);
	site = enclosing_site(probe, method, code);
	if (site) {
		if (!site_add(site, probe))
			return error_set(err, -ENOMEM, "no memory for a probe");
		probe->sites->nested_key = key;
		probe->sites->nested_method = method;
		probe->sites->nested_code = code;
		return 0;
	}
	sweep_left_over();
	if (!compat_target_survives_hooks())
		foreign_hooks_known(); /* when it is disabled, whether one runs is asked */
	frame_calibrate(FRAME_TARGETED, NULL);
	if (probe->expressions || probe->key || probe->ends)
		frame_locals_find();
	oneshot_lines_ready();
	event_flags_restore_global();
	/* That may have run Ruby code. */
	site = shared_site(key);
	if (site)
		return join(site, probe, err);
	if (must_share(method) && others_hooks(key)) {
		probe->armed = false;
		return error_set(err, -ENOTSUP, OTHERS_HOOKS);
	}
	site = calloc(1, sizeof(*site));
	if (!site || !site_add(site, probe)) {
		free(site);
		return error_set(err, -ENOMEM, "no memory for a probe");
	}
	share(site, key);
	site->calls_only = calls_only;
	site->method = method;
	site->code = code;
	site->definition = must_share(method) ? key : 0;
	if (method_definition_is_block_method(method)) {
		site->block = key_of_code(method, code);
		block_sites_set(site->block, sites_of_block(site->block) + 1);
	}
	site->tracepoint =
		rb_tracepoint_new(Qnil, RUBY_EVENT_CALL | (calls_only ? 0 : RUBY_EVENT_RETURN), engine_target_event, site);
	/* Earlier ones stay: a call of the method's former definition may be under way, and its end is to be seen. */
	flags = method_definition_flags(method);
	rb_protect(enable, rb_ary_new_from_args(2, site->tracepoint, method), &failed);
	method_definition_flags_keep(method, flags);
	if (!failed) {
		site->kept = oneshot_lines_keep(code);
		return 0;
	}
	if (!RTEST(rb_obj_is_kind_of(rb_errinfo(), rb_eArgError)))
		rb_jump_tag(failed);
	exception_drop(Qnil);
	probe->armed = false;
	/* Nobody is to join it. */
	engine_target_link_of(site, probe)->wanted = false;
	site->wanted--;
	return error_set(err, -ENOTSUP, "this Ruby gives no events for it");
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
		       shared_key(key_of(method, method_definition_instructions(method)), link->probe->counts_only) ==
		               link->nested_key;
	if (method_definition_is_block_method(method))
		return method_definition_of(method) != 0 && method_definition_of(method) == method_definition_of(site->method);
	return shared_key(key_of(method, method_definition_instructions(method)), site->calls_only) == site->key;
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
	for (struct engine_target_site *link = probe->sites; link; link = link->next) {
		link->site->wanted -= link->wanted;
		link->wanted = false;
		if (link->site->wanted || !is_enabled(link->site))
			continue;
		if (targeted_rest() && targeted_may_be_disabled(link->site->definition, link->site->tracepoint))
			site_disable(link->site);
		else
			leave_over(link->site);
	}
}

static void target_release(struct probe *probe)
{
	while (probe->sites) {
		struct site *site = probe->sites->site;
		struct engine_target_site *next = probe->sites->next;

		site_remove(probe->sites);
		probe->sites = next;
		if (site->link_count == 0 && is_enabled(site))
			leave_over(site);
		else if (site->link_count == 0 && !site->left_over)
			site_free(site);
	}
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
		if (link->wanted && targeted_is_pushed_out(link->site->definition, link->site->tracepoint))
			return true;
	return false;
}

void engine_target_mark(const struct probe *probe)
{
	for (const struct engine_target_site *link = probe->sites; link; link = link->next) {
		rb_gc_mark(link->site->tracepoint);
		rb_gc_mark(link->site->method);
		rb_gc_mark(link->site->code);
		if (link->nested_key) {
			rb_gc_mark(link->nested_method);
			rb_gc_mark(link->nested_code);
		}
	}
}

void engine_target_mark_left_over(void)
{
	for (const struct site *site = left_over; site; site = site->next) {
		rb_gc_mark(site->tracepoint);
		rb_gc_mark(site->method);
		rb_gc_mark(site->code);
	}
}

const struct engine engine_target = {
	.id = ENGINE_TARGET,
	.can = target_can,
	.serves = target_serves,
	.arm = target_arm,
	.disarm = target_disarm,
	.release = target_release,
};
