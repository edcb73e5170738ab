/*
 * Methods of classes and modules that have no name yet. See selection_parts.h. Context: a plain method call of the application's
 * with the GVL held, or the job; selection_look_at_names(): event.
 *
 * Before 3.2 the VM tells nobody when a constant is assigned, and `Bar = Class.new { def zed; end }` has its methods before its
 * name. So where a nameless class gets a method that a selector might mean, the method is armed, and shows nothing: a call of it
 * looks whether the class has a name by now. A limited number of them, since each keeps its class alive until the trace ends;
 * what is beyond it, a job finds when it looks.
 *
 * Everywhere, a method that was announced with a nameless class is announced again when that has a name.
 */

#include "tracee/select/selection_parts.h"

#include "tracee/observe/expression.h"
#include "tracee/observe/observe.h"
#include "tracee/select/module_changes.h"
#include "tracee/session/session.h"
#include "tracee/vm/aside.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/constant.h"
#include "tracee/vm/exception_drop.h"

#define WAITING_MAX 1000u

/* What probe->waiting is an Array of: Arrays of these. */
enum {
	WAITING_MODULE,
	WAITING_SELECTOR /* nil: shown already, and to be announced again */,
	WAITING_KIND /* as only_kind_of; nil: all */
};

bool selection_has_name(VALUE module)
{
	VALUE name = rb_mod_name(module);

	/* Within a nameless module, names begin with that one's address. */
	return !NIL_P(name) && RSTRING_LEN(name) > 0 && RSTRING_PTR(name)[0] != '#';
}

/* The class or module without a name that a method's owner is or belongs to, or Qnil. */
static VALUE nameless_of(VALUE owner)
{
	if (selection_has_name(owner))
		return Qnil;
	if (class_name_is_singleton(owner))
		owner = compat_attached_object(owner);
	return (RB_TYPE_P(owner, T_CLASS) || RB_TYPE_P(owner, T_MODULE)) && !class_name_is_singleton(owner) &&
	                       !selection_has_name(owner)
	               ? owner
	               : Qnil;
}

static void await_name(struct probe *probe, VALUE module, VALUE selector, VALUE kind)
{
	VALUE entry = rb_ary_new_from_args(3, module, selector, kind);

	if (!probe->waiting)
		probe->waiting = rb_ary_new();
	rb_ary_push(probe->waiting, entry);
	probe->way = WAY_LONG;
}

void selection_await_name(struct probe *probe)
{
	VALUE module = probe->only_kind_of == Qundef ? nameless_of(probe->owner) : Qnil;

	if (!NIL_P(module))
		await_name(probe, module, Qnil, Qnil);
}

/* A module without a name, and a selector that will mean it, if it gets the right one. */
struct nameless {
	struct selection *selection;
	uint32_t selector;
	VALUE module;
};

/* Arms a method for that case. argument: struct nameless. */
static void arm_nameless(const struct match *match, void *argument)
{
	const struct nameless *nameless = argument;
	struct selection *selection = nameless->selection;
	struct probe *probe = probe_table_find(&selection->probes, match->owner, match->name);

	if (probe && probe->told && probe->only_kind_of == Qundef)
		return;
	if (selection->waiting_count >= WAITING_MAX) {
		selection_modules_changed();
		return;
	}
	probe = selection_arm_silently(selection, match, nameless->selector);
	if (!probe)
		return;
	selection->waiting_count++;
	await_name(probe, nameless->module, UINT2NUM(nameless->selector),
	           match->only_kind_of == Qundef ? Qnil : match->only_kind_of);
}

void selection_wait_for_method(struct selection *selection, const struct match *match)
{
	VALUE module = module_changes_sees_names() ? Qnil : nameless_of(match->owner);
	bool singleton = module != match->owner;

	for (uint32_t i = 0; i < selection->selector_count && !NIL_P(module); i++) {
		const struct selector *selector = &selection->selectors[i];
		struct nameless nameless = {selection, i, module};

		if (selector->class_pattern.size == 0 || selector->class_pattern.bytes[0] == '#' ||
		    selector->separator == (singleton ? '#' : '.') || !selector_names_method(selector, match->name) ||
		    selector_names(selector, match->owner, match->name))
			continue;
		arm_nameless(match, &nameless);
	}
}

void selection_wait_for_inherited(struct selection *selection, VALUE module)
{
	for (uint32_t i = 0; i < selection->selector_count && !selection->disabled; i++) {
		struct nameless nameless = {selection, i, module};

		if (selector_is_exact(&selection->selectors[i]))
			selector_each_match_in(&selection->selectors[i], module, arm_nameless, &nameless);
	}
}

/* --- Names that have come */

static bool any_is_named(const struct probe *probe)
{
	for (long i = 0; i < RARRAY_LEN(probe->waiting); i++)
		if (selection_has_name(RARRAY_AREF(RARRAY_AREF(probe->waiting, i), WAITING_MODULE)))
			return true;
	return false;
}

static bool is_meant_now(const struct probe *probe, const struct selector *selector, VALUE module)
{
	return selector_is_exact(selector) ? constant_module(selector->class_pattern) == module
	                                   : selector_names(selector, probe->owner, probe->callee);
}

/*
 * The probe was armed in silence for a selector that might have been the one; this one is. Nothing was shown so far, so no values
 * of the other one's expressions are being made.
 */
static void take_selector(struct probe *probe, uint32_t selector, VALUE method)
{
	struct expression_list *former, *list;

	if (probe->told || probe->selector == selector || NIL_P(method))
		return;
	list = selection_expressions(probe, selector, method, probe->engine == &engine_patch);
	/* Another thread may have been faster. */
	former = probe->told ? list : probe->expressions;
	if (!probe->told) {
		probe->expressions = list;
		probe->selector = selector;
	}
	expression_list_free(former);
}

static VALUE settle_names(VALUE argument)
{
	struct probe *probe = (struct probe *)argument;
	struct selection *selection = probe->session->selection;
	VALUE waiting = probe->waiting, left = rb_ary_new(), name = probe->callee;
	struct match match = {.owner = probe->owner, .name = name, .method = Qnil};
	bool rename = false;

	/* From here on: another thread may come by with the same probe. */
	probe->waiting = Qfalse;
	if (selector_defines(probe->owner, name))
		match.method = builtin_own_method(probe->owner, name);
	for (long i = 0; i < RARRAY_LEN(waiting); i++) {
		VALUE entry = rb_ary_entry(waiting, i);
		VALUE module = rb_ary_entry(entry, WAITING_MODULE), selector = rb_ary_entry(entry, WAITING_SELECTOR);
		VALUE kind = rb_ary_entry(entry, WAITING_KIND);

		if (!selection_has_name(module)) {
			rb_ary_push(left, entry);
			continue;
		}
		if (NIL_P(selector)) {
			rename = true;
			continue;
		}
		selection->waiting_count--;
		if (!is_meant_now(probe, &selection->selectors[NUM2UINT(selector)], module))
			continue;
		selection_found(selection, NUM2UINT(selector));
		take_selector(probe, NUM2UINT(selector), match.method);
		match.only_kind_of = NIL_P(kind) ? Qundef : kind;
		selection_widen(probe, &match);
	}
	if (rename)
		selection_send_method(probe, probe->engine, match.method);
	if (RARRAY_LEN(left) > 0)
		probe->waiting = probe->waiting ? rb_ary_concat(left, probe->waiting) : left;
	observe_choose_way(probe);
	RB_GC_GUARD(waiting);
	return Qnil;
}

void selection_settle_names(struct probe *probe)
{
	if (any_is_named(probe))
		settle_names((VALUE)probe);
}

static VALUE settle_aside(VALUE probe)
{
	int failed = 0;

	arming_protect(settle_names, probe, &failed);
	if (failed)
		exception_drop(Qnil);
	return Qnil;
}

int selection_look_at_names(struct probe *probe)
{
	struct session *session = probe->session;
	int jump;

	if (!any_is_named(probe) || arming_is_under_way() || session->selection->disabled)
		return 0;
	session_hold(session);
	jump = aside_protect(settle_aside, (VALUE)probe);
	session_release(session);
	return jump;
}
