/*
 * Resolving selectors. See selector.h.
 *
 * "Order#save" asks for a constant and a method, which takes microseconds. A glob, or a method without a class, asks every module
 * there is: one walk over the object space, which an exact selector must never cost.
 */

#define _GNU_SOURCE
#include "tracee/select/selector.h"

#include "proto/name_pattern.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/constant.h"
#include "tracee/vm/gvl_slice.h"
#include "tracee/vm/own.h"

#include <ruby/encoding.h>
#include <stdio.h>
#include <string.h>

#define SUPER_METHODS_MAX 10000

void selector_write(const struct selector *selector, char *buffer, size_t size)
{
	snprintf(buffer, size, "%.*s%s%.*s", (int)selector->class_pattern.size, selector->class_pattern.bytes,
	         selector->separator == '#'             ? "#"
	         : selector->separator == '.'           ? "."
	         : selector->separator == SELECTOR_LINE ? ":"
	                                                : "",
	         (int)selector->method_pattern.size, selector->method_pattern.bytes);
}

static VALUE method_owner(VALUE method)
{
	return builtin_call0(BUILTIN_UNBOUND_METHOD_OWNER, method);
}

static void report(const struct selector_walk *walk, VALUE name, VALUE method, VALUE only_kind_of)
{
	struct match match = {.owner = method_owner(method), .name = name, .method = method, .only_kind_of = only_kind_of};

	walk->found(&match, walk->argument);
	RB_GC_GUARD(match.owner);
	RB_GC_GUARD(method);
}

/*
 * What a call finds, and where a prepended module hides the module's own method, that one, too. The VM says what the next one is,
 * and has been seen to name the same for ever: so there is an end to the asking.
 */
static void report_found(const struct selector_walk *walk, VALUE name, VALUE module)
{
	VALUE method = builtin_call(BUILTIN_MODULE_INSTANCE_METHOD, module, 1, &name);
	bool own = method_owner(method) == module;

	report(walk, name, method, own ? Qundef : module);
	for (int steps = 0; !own && !NIL_P(method = builtin_call0(BUILTIN_UNBOUND_METHOD_SUPER_METHOD, method)); steps++) {
		if (steps == SUPER_METHODS_MAX)
			rb_raise(rb_eRuntimeError, "the methods that `super` calls from %" PRIsVALUE " do not end after %d",
			         rb_sym2str(name), SUPER_METHODS_MAX);
		own = method_owner(method) == module;
		if (own)
			report(walk, name, method, Qundef);
	}
}

static bool defines(VALUE module, VALUE name, VALUE inherited)
{
	VALUE arguments[] = {name, inherited};

	return RTEST(builtin_call(BUILTIN_MODULE_METHOD_DEFINED, module, 2, arguments)) ||
	       RTEST(builtin_call(BUILTIN_MODULE_PRIVATE_METHOD_DEFINED, module, 2, arguments));
}

static bool is_met(struct slice pattern, VALUE name)
{
	VALUE string = rb_sym2str(name);

	return name_pattern_is_met(pattern, RSTRING_PTR(string), (size_t)RSTRING_LEN(string));
}

static VALUE literal_name(struct slice pattern)
{
	struct slice plain = name_pattern_plain(pattern);
	ID id = rb_check_id_cstr(plain.bytes, (long)plain.size, rb_utf8_encoding());

	return id ? ID2SYM(id) : Qnil;
}

/* The singleton class that exists already; Qnil where there is none. */
static VALUE existing_singleton_class(VALUE module)
{
	VALUE class = rb_class_of(module);

	return class_name_is_singleton(class) ? class : Qnil;
}

VALUE selector_all_modules(void)
{
	struct heap_list list;

	heap_list_begin(&list, rb_cModule);
	while (heap_list_next(&list))
		gvl_slice_pass_current();
	RB_GC_GUARD(list.pages);
	return list.objects;
}

static bool owner_matches(const struct selector *selector, VALUE owner)
{
	char buffer[NAME_SIZE_MAX];
	struct text text = {.bytes = buffer, .size = sizeof(buffer)};
	char separator;

	if (selector->class_pattern.size == 0 && selector->separator == 0)
		return true;
	separator = class_name_add_owner(&text, owner);
	if (selector->separator && selector->separator != separator)
		return false;
	return selector->class_pattern.size == 0 || name_glob(selector->class_pattern, text.bytes, text.used);
}

static bool is_own_module(VALUE object)
{
	return (RB_TYPE_P(object, T_CLASS) || RB_TYPE_P(object, T_MODULE)) && !class_name_is_singleton(object);
}

/* A `*` that without_star() may turn into "all". Without a class it is the operator. */
static bool may_be_all(const struct selector *selector)
{
	return selector->method_pattern.size == 1 && selector->method_pattern.bytes[0] == '*' && selector->class_pattern.size > 0;
}

/* "Billing::*#*" means all methods, and so does "Order#*", except where that class has a method of that name: Integer#* */
static struct selector without_star(const struct selector *selector, VALUE module)
{
	struct selector all = *selector;

	if (may_be_all(selector) && (!selector_is_exact(selector) || !defines(module, ID2SYM(rb_intern("*")), Qtrue)))
		all.method_pattern.size = 0;
	return all;
}

bool selector_is_exact(const struct selector *selector)
{
	struct slice pattern = selector->class_pattern;

	return pattern.size > 0 && constant_may_be_path(pattern);
}

/* --- The walk */

static bool name_next(struct selector_walk *walk)
{
	VALUE name;

	if (walk->next_name >= RARRAY_LEN(walk->names))
		return false;
	name = rb_ary_entry(walk->names, walk->next_name++);
	/* What this system has not, such as Process::Sys.setruid here, is listed, and yet Ruby says that it is not defined. */
	if (is_met(walk->adapted.method_pattern, name) && defines(walk->module, name, Qtrue))
		report_found(walk, name, walk->module);
	return true;
}

/* The module's own methods: the public and protected ones, then the private ones. */
static bool list_next(struct selector_walk *walk)
{
	static VALUE (*const lists[])(int, const VALUE *, VALUE) = {rb_class_instance_methods, rb_class_private_instance_methods};
	VALUE own_only = Qfalse;

	if (NIL_P(walk->module) || walk->next_list == sizeof(lists) / sizeof(lists[0]))
		return false;
	walk->names = lists[walk->next_list++](1, &own_only, walk->module);
	walk->next_name = 0;
	return true;
}

/* One module, itself named by the selector or, by its constant, one of whose ancestors may have the method. */
static void module_begin(struct selector_walk *walk, VALUE module)
{
	VALUE name;

	if (!walk->exact && (NIL_P(module) || !owner_matches(walk->selector, module)))
		return;
	walk->has_class = true;
	walk->adapted = without_star(walk->selector, module);
	if (name_pattern_is_glob(walk->adapted.method_pattern)) {
		walk->module = module;
		walk->next_list = 0;
		return;
	}
	name = literal_name(walk->adapted.method_pattern);
	if (!NIL_P(name) && defines(module, name, walk->exact ? Qtrue : Qfalse))
		report_found(walk, name, module);
}

static void turn_of(struct selector_walk *walk, VALUE module, bool is_singletons)
{
	if (walk->exact && walk->selector->separator != (is_singletons ? '#' : '.'))
		module_begin(walk, is_singletons ? rb_singleton_class(module) : module);
	else if (!walk->exact && is_singletons)
		module_begin(walk, existing_singleton_class(module));
	else if (!walk->exact &&
	         (walk->alone || !class_name_is_singleton(module) || !is_own_module(compat_attached_object(module))))
		module_begin(walk, module);
}

/*
 * Every module, and every singleton class that exists, of classes, modules and other objects. Of a class's own singleton class
 * the list of all modules may tell or not, so it is looked at with the class.
 */
static bool module_next(struct selector_walk *walk)
{
	bool is_singletons = walk->singletons_turn;
	VALUE module;

	walk->module = Qnil;
	if (walk->next_module >= RARRAY_LEN(walk->modules))
		return false;
	module = rb_ary_entry(walk->modules, walk->next_module);
	walk->singletons_turn = !is_singletons && (walk->alone || !class_name_is_singleton(module));
	walk->next_module += !walk->singletons_turn;
	if (!own_is_module(module))
		turn_of(walk, module, is_singletons);
	RB_GC_GUARD(module);
	return true;
}

static void walk_begin(struct selector_walk *walk, const struct selector *selector, VALUE modules, bool alone)
{
	walk->selector = selector;
	walk->exact = selector_is_exact(selector);
	walk->alone = alone;
	walk->module = Qnil;
	walk->names = Qnil;
	walk->modules = modules;
}

void selector_walk_begin(struct selector_walk *walk, const struct selector *selector)
{
	VALUE module;

	if (!selector_is_exact(selector)) {
		walk_begin(walk, selector, Qnil, false);
		heap_list_begin(&walk->list, rb_cModule);
		return;
	}
	module = constant_module(selector->class_pattern);
	walk_begin(walk, selector, NIL_P(module) ? rb_ary_new() : rb_ary_new_from_args(1, module), true);
}

bool selector_walk_next(struct selector_walk *walk)
{
	if (NIL_P(walk->modules)) {
		if (!heap_list_next(&walk->list))
			walk->modules = walk->list.objects;
		return true;
	}
	if (!NIL_P(walk->names) && name_next(walk))
		return true;
	walk->names = Qnil;
	return list_next(walk) || module_next(walk);
}

void selector_walk_mark(const struct selector_walk *walk)
{
	if (!walk->selector)
		return;
	heap_list_mark(&walk->list);
	rb_gc_mark(walk->modules);
	rb_gc_mark(walk->module);
	rb_gc_mark(walk->names);
}

static void walk_to_end(struct selector_walk *walk)
{
	while (selector_walk_next(walk))
		gvl_slice_pass_current();
	RB_GC_GUARD(walk->list.objects);
	RB_GC_GUARD(walk->list.pages);
	RB_GC_GUARD(walk->modules);
	RB_GC_GUARD(walk->module);
	RB_GC_GUARD(walk->names);
}

void selector_each_match_in(const struct selector *selector, VALUE module,
                            void (*found)(const struct match *match, void *argument), void *argument)
{
	struct selector_walk walk = {.found = found, .argument = argument};

	walk_begin(&walk, selector, rb_ary_new_from_args(1, module), true);
	walk_to_end(&walk);
}

void selector_each_match(const struct selector *selector, void (*found)(const struct match *match, void *argument),
                         void *argument)
{
	struct selector_walk walk = {.found = found, .argument = argument};

	selector_walk_begin(&walk, selector);
	walk_to_end(&walk);
}

/* Whether the module comes before the other among its ancestors, and so hides or wraps its methods. */
static bool is_prepended(VALUE module, VALUE to)
{
	VALUE ancestors = RB_TYPE_P(module, T_MODULE) ? rb_mod_ancestors(to) : rb_ary_new();

	for (long i = 0; i < RARRAY_LEN(ancestors) && rb_ary_entry(ancestors, i) != to; i++)
		if (rb_ary_entry(ancestors, i) == module)
			return true;
	return false;
}

static void look_for_added(struct selector_walk *walk, VALUE module, VALUE owner, VALUE name)
{
	walk->adapted = without_star(walk->selector, module);
	if (!name_pattern_is_glob(walk->adapted.method_pattern))
		module_begin(walk, module);
	else if ((owner == module || is_prepended(owner, module)) && is_met(walk->adapted.method_pattern, name))
		report_found(walk, name, module);
}

void selector_each_match_added(const struct selector *selector, VALUE owner, VALUE name,
                               void (*found)(const struct match *match, void *argument), void *argument)
{
	VALUE module = constant_module(selector->class_pattern);
	struct selector_walk walk = {.found = found, .argument = argument, .selector = selector, .exact = true};

	if (NIL_P(module))
		return;
	if (selector->separator != '.')
		look_for_added(&walk, module, owner, name);
	if (selector->separator != '#')
		look_for_added(&walk, rb_singleton_class(module), owner, name);
	RB_GC_GUARD(module);
}

bool selector_is_method_pattern(const struct selector *selector)
{
	return name_pattern_is_glob(selector->method_pattern) || may_be_all(selector);
}

bool selector_names_method(const struct selector *selector, VALUE name)
{
	return may_be_all(selector) || is_met(selector->method_pattern, name);
}

bool selector_is_exactly(const struct selector *selector, VALUE name)
{
	struct slice plain = name_pattern_plain(selector->method_pattern);
	VALUE string = rb_sym2str(name);

	return plain.size == (size_t)RSTRING_LEN(string) && memcmp(plain.bytes, RSTRING_PTR(string), plain.size) == 0;
}

bool selector_names(const struct selector *selector, VALUE owner, VALUE name)
{
	struct selector adapted;

	if (!selector_names_method(selector, name) || !owner_matches(selector, owner))
		return false;
	adapted = without_star(selector, owner);
	return !may_be_all(&adapted) || name == ID2SYM(rb_intern("*"));
}

bool selector_defines(VALUE module, VALUE name)
{
	return defines(module, name, Qfalse);
}

bool selector_has_method(VALUE module, VALUE name)
{
	return defines(module, name, Qtrue);
}

VALUE selector_literal_name(const struct selector *selector)
{
	return literal_name(selector->method_pattern);
}
