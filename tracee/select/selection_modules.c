/*
 * What it means for selections that a class or module gets a name, comes into being, or gets methods from another. See
 * selection.h. Context: a plain method call of the application's with the GVL held (called by module_changes.c), and the job.
 *
 * Most of what is told here concerns no selector, which has to be found out in well under a microsecond: by the names in
 * selectors' class paths, and by the modules that those lead to now. What is left has a budget of time, so that an application
 * that makes thousands of classes a second does not wait for us; what goes beyond it, and what nobody told of (a hook of the
 * application's without `super`, C code, another Ractor), selection_look.c looks for.
 */

#define _GNU_SOURCE
#include "tracee/select/selection_parts.h"

#include "proto/clock.h"
#include "tracee/select/module_changes.h"
#include "tracee/session/session.h"
#include "tracee/vm/aside.h"
#include "tracee/vm/constant.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/string_slice.h"

#include <string.h>

#define BUDGET_PART 20u                         /* one in so many ns of the application's time, ... */
#define BUDGET_MAX_NS (int64_t)(50 * NS_PER_MS) /* ... of which so much is saved up */
#define NESTED_MAX 1000                         /* modules within one that gets its name */

static struct {
	int64_t left_ns; /* below 0: overdrawn */
	uint64_t since_ns;
} budget;

/* --- What a change is looked at with */

struct change {
	struct selection *selection;
	VALUE name;   /* of a constant: a String */
	VALUE module; /* that it is about; Qundef: of selectors by patterns none */
	int nested;   /* modules looked into */
};

static bool note_method(struct selection *selection, uint32_t i)
{
	const struct selector *selector = &selection->selectors[i];

	if (!selector_is_method_pattern(selector))
		return slice_set_add(&selection->methods, selector->method_pattern);
	selection->method_patterns[selection->method_pattern_count++] = i;
	return true;
}

bool selection_note_names(struct selection *selection)
{
	for (uint32_t i = 0; i < selection->selector_count; i++) {
		struct slice path = selection->selectors[i].class_pattern;

		if (!note_method(selection, i))
			return false;
		if (!selector_is_exact(&selection->selectors[i])) {
			selection->has_patterns = true;
			continue;
		}
		for (size_t from = 0; from < path.size;) {
			const char *colon = memmem(path.bytes + from, path.size - from, "::", 2);
			size_t to = colon ? (size_t)(colon - path.bytes) : path.size;

			if (!slice_set_add(&selection->constants, (struct slice){path.bytes + from, to - from}))
				return false;
			from = to + 2;
		}
	}
	return true;
}

static bool has_part(struct slice path, struct slice name)
{
	const char *at = path.bytes;
	size_t left = path.size;

	while ((at = memmem(at, left, name.bytes, name.size))) {
		const char *end = at + name.size;

		if ((at == path.bytes || at[-1] == ':') && (end == path.bytes + path.size || *end == ':'))
			return true;
		left = (size_t)(path.bytes + path.size - end);
		at = end;
	}
	return false;
}

void selection_search_again(struct selection *selection, uint32_t i)
{
	const struct selector *selector = &selection->selectors[i];
	struct arming arming = {.selection = selection, .selector = i, .late = true};
	VALUE module = constant_module(selector->class_pattern);

	selection->modules[i] = module;
	if (!NIL_P(module))
		selector_each_match_in(selector, module, selection_arm_match, &arming);
}

void selection_resolve(struct selection *selection)
{
	for (uint32_t i = 0; i < selection->selector_count; i++)
		if (selector_is_exact(&selection->selectors[i]))
			selection->modules[i] = constant_module(selection->selectors[i].class_pattern);
}

struct selection *selection_next(const struct selection *before)
{
	struct session *session = before ? before->session->next : session_first();

	while (session && (!session->selection || session->selection->disabled))
		session = session->next;
	return session ? session->selection : NULL;
}

/* --- Under protection, one selection after the other */

bool selection_may_spend(uint64_t now_ns)
{
	budget.left_ns += (int64_t)((now_ns - budget.since_ns) / BUDGET_PART);
	budget.since_ns = now_ns;
	if (budget.left_ns > BUDGET_MAX_NS)
		budget.left_ns = BUDGET_MAX_NS;
	return budget.left_ns > 0;
}

void selection_spend(uint64_t ns)
{
	budget.left_ns -= (int64_t)ns;
}

/* Once a trace: this goes on for as long as the application does it. */
static void overlook(void)
{
	static const char text[] =
		"classes and modules change faster than they can be looked at without slowing the process: what selectors "
		"gain by it may be traced a second or more late";

	selection_modules_changed();
	for (struct selection *selection = selection_next(NULL); selection; selection = selection_next(selection)) {
		if (!selection->overlooked_told)
			session_note(selection->session, NOTE_WARNING, "%s", text);
		selection->overlooked_told = true;
	}
}

struct work {
	VALUE (*run)(VALUE change);
	struct change *change;
	uint64_t began_ns;
};

static VALUE run_for_each(VALUE argument)
{
	const struct work *work = (const struct work *)argument;
	for (struct session *session = session_hold_next(NULL); session; session = session_hold_next(session)) {
		int failed = 0;

		work->change->selection = session->selection;
		if (!session->selection || session->selection->disabled)
			continue;
		arming_protect(work->run, (VALUE)work->change, &failed);
		if (failed)
			exception_drop(Qnil);
		/* A job has disabled it in between, and did not see what was not armed yet. */
		if (session->selection->disabled)
			selection_disarm_all(session->selection);
	}
	selection_spend(clock_now_ns() - work->began_ns);
	return Qnil;
}

static void for_each_selection(VALUE (*run)(VALUE), struct change *change)
{
	struct work work = {run, change, clock_now_ns()};

	if (selection_may_spend(work.began_ns))
		aside_run(run_for_each, (VALUE)&work);
	else
		overlook();
}

static bool is_module(VALUE object)
{
	return RB_TYPE_P(object, T_CLASS) || RB_TYPE_P(object, T_MODULE);
}

static bool fits_pattern(const struct selection *selection, VALUE method)
{
	for (uint32_t i = 0; i < selection->method_pattern_count; i++)
		if (selector_names_method(&selection->selectors[selection->method_patterns[i]], method))
			return true;
	return false;
}

bool selection_may_mean(VALUE method)
{
	for (const struct selection *selection = selection_next(NULL); selection; selection = selection_next(selection))
		if (selection->lines || slice_set_has(&selection->methods, string_slice(rb_sym2str(method))) ||
		    fits_pattern(selection, method))
			return true;
	return false;
}

/* --- A module has got a name */

/* Qundef for what is no module, or would have to be loaded. */
static VALUE module_at(VALUE scope, ID constant)
{
	VALUE value;

	if (!NIL_P(rb_autoload_p(scope, constant)) || !rb_const_defined_at(scope, constant))
		return Qundef;
	value = rb_const_get_at(scope, constant);
	return is_module(value) ? value : Qundef;
}

static void look_into(struct change *change, VALUE module)
{
	for (uint32_t i = 0; i < change->selection->selector_count; i++) {
		const struct selector *selector = &change->selection->selectors[i];
		struct arming arming = {.selection = change->selection, .selector = i, .late = true};

		if (!selector_is_exact(selector))
			selector_each_match_in(selector, module, selection_arm_match, &arming);
	}
}

/* A module that gets its name gives one to those within it; those that have another are there under a second name. */
static void look_into_nested(struct change *change, VALUE module)
{
	VALUE own_only = Qfalse;
	VALUE constants = rb_mod_constants(1, &own_only, module);
	VALUE name = rb_mod_name(module);

	for (long i = 0; i < RARRAY_LEN(constants); i++) {
		VALUE nested = module_at(module, rb_sym2id(rb_ary_entry(constants, i)));
		VALUE nested_name = nested == Qundef ? Qnil : rb_mod_name(nested);

		if (NIL_P(nested_name) || NIL_P(name) || RSTRING_LEN(nested_name) <= RSTRING_LEN(name) ||
		    memcmp(RSTRING_PTR(nested_name), RSTRING_PTR(name), (size_t)RSTRING_LEN(name)) != 0 ||
		    ++change->nested > NESTED_MAX)
			continue;
		look_into(change, nested);
		look_into_nested(change, nested);
	}
	RB_GC_GUARD(constants);
}

static VALUE look_for_name(VALUE argument)
{
	struct change *change = (struct change *)argument;
	struct selection *selection = change->selection;
	struct slice name = string_slice(change->name);

	if (slice_set_has(&selection->constants, name))
		for (uint32_t i = 0; i < selection->selector_count; i++)
			if (selector_is_exact(&selection->selectors[i]) && has_part(selection->selectors[i].class_pattern, name))
				selection_search_again(selection, i);
	if (selection->has_patterns && change->module != Qundef) {
		change->nested = 0;
		look_into(change, change->module);
		look_into_nested(change, change->module);
	}
	return Qnil;
}

static bool any_has(struct slice constant, bool patterns)
{
	for (const struct selection *selection = selection_next(NULL); selection; selection = selection_next(selection))
		if (((patterns && selection->has_patterns) || slice_set_has(&selection->constants, constant)))
			return true;
	return false;
}

/* The name's last part is what a constant was assigned to: else the module has had it before. */
static bool is_named_after(VALUE module, struct slice constant)
{
	VALUE name = rb_mod_name(module);
	size_t before;

	if (NIL_P(name) || (size_t)RSTRING_LEN(name) < constant.size)
		return false;
	before = (size_t)RSTRING_LEN(name) - constant.size;
	return memcmp(RSTRING_PTR(name) + before, constant.bytes, constant.size) == 0 &&
	       (before == 0 || RSTRING_PTR(name)[before - 1] == ':');
}

void selection_constant_added(VALUE scope, VALUE name)
{
	struct change change = {.module = Qundef};
	struct slice constant;

	if (!RB_SYMBOL_P(name))
		return;
	change.name = rb_sym2str(name);
	constant = string_slice(change.name);
	if (!any_has(constant, true))
		return;
	change.module = module_at(scope, rb_sym2id(name));
	if (change.module == Qundef)
		return;
	if (!is_named_after(change.module, constant)) {
		change.module = Qundef;
		if (!any_has(constant, false))
			return;
	}
	for_each_selection(look_for_name, &change);
	RB_GC_GUARD(change.name);
}

static VALUE wait_for_inherited(VALUE argument)
{
	const struct change *change = (const struct change *)argument;

	selection_wait_for_inherited(change->selection, change->module);
	return Qnil;
}

/* A module without a name, whose methods are others now. */
static void wait_for_name(VALUE module)
{
	struct change change = {.module = module};

	for (const struct selection *selection = selection_next(NULL); selection; selection = selection_next(selection))
		if (selection->constants.count > 0) {
			for_each_selection(wait_for_inherited, &change);
			return;
		}
}

/* Selectors that name the module, and lead to another so far, or to none. */
static bool is_news(const struct selection *selection, uint32_t i, VALUE module, struct slice name)
{
	struct slice path = selection->selectors[i].class_pattern;

	return selection->modules[i] != module && path.size == name.size && memcmp(path.bytes, name.bytes, name.size) == 0;
}

static VALUE look_for_module(VALUE argument)
{
	const struct change *change = (const struct change *)argument;

	for (uint32_t i = 0; i < change->selection->selector_count; i++)
		if (is_news(change->selection, i, change->module, string_slice(change->name)))
			selection_search_again(change->selection, i);
	return Qnil;
}

void selection_module_seen(VALUE module)
{
	struct change change = {.module = module};
	struct slice name, last;

	if (!is_module(module) || module_changes_sees_names() || !selection_has_name(module))
		return;
	change.name = rb_mod_name(module);
	last = name = string_slice(change.name);
	for (const char *colon; (colon = memchr(last.bytes, ':', last.size));)
		last = (struct slice){colon + 1, (size_t)(name.bytes + name.size - colon - 1)};
	if (!any_has(last, false))
		return;
	for (const struct selection *selection = selection_next(NULL); selection; selection = selection_next(selection)) {
		for (uint32_t i = 0; i < selection->selector_count; i++) {
			if (!is_news(selection, i, module, name))
				continue;
			for_each_selection(look_for_module, &change);
			return;
		}
	}
	RB_GC_GUARD(change.name);
}

void selection_class_made(VALUE superclass, VALUE class)
{
	(void)superclass;
	if (!is_module(class))
		return;
	if (selection_has_name(class))
		selection_module_seen(class);
	else
		wait_for_name(class);
}

/* --- A module has got the methods of another */

static bool is_below(VALUE module, VALUE above)
{
	return module == above || (is_module(module) && rb_class_inherited_p(module, above) == Qtrue);
}

/* Whether the methods that an exact selector means may be others now. */
static bool is_concerned(const struct selection *selection, uint32_t i, VALUE target)
{
	VALUE module = selection->modules[i];
	char separator = selection->selectors[i].separator;

	return !NIL_P(module) &&
	       ((separator != '.' && is_below(module, target)) || (separator != '#' && is_below(rb_class_of(module), target)));
}

static VALUE look_for_mixed(VALUE argument)
{
	const struct change *change = (const struct change *)argument;

	for (uint32_t i = 0; i < change->selection->selector_count; i++)
		if (is_concerned(change->selection, i, change->module))
			selection_search_again(change->selection, i);
	return Qnil;
}

static void methods_mixed(VALUE target, VALUE module)
{
	struct change change = {.module = target};

	if (!module_changes_sees_names() && !selection_has_name(module))
		wait_for_name(module);
	else
		selection_module_seen(module);
	for (const struct selection *selection = selection_next(NULL); selection; selection = selection_next(selection)) {
		for (uint32_t i = 0; i < selection->selector_count; i++) {
			if (!is_concerned(selection, i, target))
				continue;
			for_each_selection(look_for_mixed, &change);
			return;
		}
	}
}

void selection_module_mixed(VALUE mixin, VALUE target)
{
	(void)mixin;
	if (is_module(target))
		methods_mixed(target, target);
}

/* Of other objects' singleton classes only those methods are traced that they have themselves. */
void selection_object_extended(VALUE mixin, VALUE object)
{
	(void)mixin;
	if (is_module(object))
		methods_mixed(rb_class_of(object), object);
}
