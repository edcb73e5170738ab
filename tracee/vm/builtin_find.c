/*
 * Finding Ruby's own methods. See builtin_find.h.
 *
 * A method that the VM defined while it booted is marked as such, and the C API asks for that mark. Where what is found has none,
 * the application was first. Then there are two places to look: behind it, where it came with a prepended module, and under
 * another name, as who overrides a method mostly keeps it by an alias. What was overwritten without a copy is gone.
 *
 * The mark is only asked for with classes: see doc/vm-facts.md.
 */

#include "tracee/vm/builtin_find.h"

#include "tracee/vm/exception_drop.h"
#include "tracee/vm/string_slice.h"

#include <stdbool.h>
#include <string.h>

#define SUPER_METHODS_MAX 1000
#define DEPTH_MAX 4 /* of questions about methods that answer questions about methods */

static unsigned depth; /* GVL */
static bool lacked;    /* GVL */

struct place {
	VALUE class;    /* where to look */
	VALUE owner;    /* whose method it has to be */
	VALUE receiver; /* Qundef: for an UnboundMethod */
};

static VALUE own_of(const struct place *place, VALUE name, VALUE *overriding);

struct lookup {
	const struct place *place;
	VALUE name;
};

static VALUE look_up(VALUE argument)
{
	const struct lookup *lookup = (const struct lookup *)argument;
	const struct place *place = lookup->place;
	struct place of_class = {rb_class_of(place->class), rb_cModule, place->class};
	VALUE unused;

	if (place->receiver != Qundef)
		return rb_obj_method(place->receiver, lookup->name);
	return rb_method_call_with_block(1, &lookup->name, own_of(&of_class, ID2SYM(rb_intern("instance_method")), &unused),
	                                 Qnil);
}

bool builtin_find_is_lack(VALUE error)
{
	return !RB_SPECIAL_CONST_P(error) && RB_BUILTIN_TYPE(error) == RUBY_T_OBJECT &&
	       (rb_obj_class(error) == rb_eSysStackError || rb_obj_class(error) == rb_eNoMemError);
}

static void note_failure(void)
{
	lacked = lacked || builtin_find_is_lack(rb_errinfo());
}

bool builtin_find_lacked(void)
{
	bool was = lacked;

	lacked = false;
	return was;
}

/* Qnil where there is no such method, or none that can be asked for. */
static VALUE method_at(const struct place *place, VALUE name)
{
	struct lookup lookup = {place, name};
	VALUE error = rb_errinfo(), method;
	int failed = 0;

	/* Without an exception: with $DEBUG the VM prints each, also one that is rescued. */
	if (RB_TYPE_P(place->class, T_CLASS) && !rb_method_boundp(place->class, rb_sym2id(name), 0))
		return Qnil;
	method = rb_protect(look_up, (VALUE)&lookup, &failed);
	if (!failed)
		return method;
	note_failure();
	exception_drop(error);
	return Qnil;
}

VALUE builtin_find_ask(VALUE method, const char *question)
{
	VALUE asked = builtin_find_bound(method, question);

	if (NIL_P(asked))
		rb_raise(rb_eRuntimeError, "%s#%s is overridden", rb_obj_classname(method), question);
	return rb_method_call_with_block(0, NULL, asked, Qnil);
}

/* Written in C, or in the Ruby that is built into the VM. Behind it there may be one of that name elsewhere: Kernel#eval. */
static bool is_rubys(const struct place *place, VALUE method)
{
	VALUE location = builtin_find_ask(method, "source_location");

	if (builtin_find_ask(method, "owner") != place->owner)
		return false;
	if (NIL_P(location))
		return true;
	return string_is_internal_path(rb_ary_entry(location, 0));
}

static VALUE behind(const struct place *place, VALUE method)
{
	for (int i = 0; i < SUPER_METHODS_MAX && !NIL_P(method); i++) {
		if (is_rubys(place, method))
			return method;
		method = builtin_find_ask(method, "super_method");
	}
	return Qnil;
}

static VALUE under_another_name(const struct place *place, VALUE name)
{
	static VALUE (*const lists[])(int, const VALUE *, VALUE) = {rb_class_instance_methods, rb_class_private_instance_methods};
	VALUE inherited = place->receiver == Qundef ? Qfalse : Qtrue;

	for (size_t l = 0; l < sizeof(lists) / sizeof(lists[0]); l++) {
		VALUE names = lists[l](1, &inherited, place->class);

		for (long i = 0; i < RARRAY_LEN(names); i++) {
			VALUE method = method_at(place, rb_ary_entry(names, i));

			if (!NIL_P(method) && builtin_find_ask(method, "original_name") == name && is_rubys(place, method))
				return method;
		}
		RB_GC_GUARD(names);
	}
	return Qnil;
}

struct search {
	const struct place *place;
	VALUE name, method;
};

static VALUE search(VALUE argument)
{
	const struct search *search = (const struct search *)argument;
	VALUE method = behind(search->place, search->method);

	return NIL_P(method) ? under_another_name(search->place, search->name) : method;
}

static bool is_marked(VALUE class, VALUE name)
{
	return RB_TYPE_P(class, T_CLASS) && rb_method_basic_definition_p(class, rb_sym2id(name));
}

static VALUE own_of(const struct place *place, VALUE name, VALUE *overriding)
{
	struct search arguments = {place, name, method_at(place, name)};
	VALUE error = rb_errinfo(), method;
	int failed = 0;

	*overriding = Qnil;
	if (is_marked(place->class, name) && !NIL_P(arguments.method))
		return arguments.method;
	if (depth == DEPTH_MAX)
		return Qnil;
	depth++;
	method = rb_protect(search, (VALUE)&arguments, &failed);
	depth--;
	if (failed) {
		note_failure();
		exception_drop(error);
		method = Qnil;
	}
	if (NIL_P(method))
		*overriding = arguments.method;
	return method;
}

VALUE builtin_find(VALUE class, VALUE name, VALUE *overriding)
{
	struct place place = {class, class, Qundef};

	return own_of(&place, name, overriding);
}

VALUE builtin_find_bound(VALUE receiver, const char *name)
{
	struct place place = {rb_class_of(receiver), rb_obj_class(receiver), receiver};
	VALUE unused;

	return own_of(&place, ID2SYM(rb_intern(name)), &unused);
}
