/* What a method calls its arguments. See parameter_names.h. */

#include "tracee/observe/parameter_names.h"

#include "tracee/base/ruby_words.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/destructured.h"
#include "tracee/vm/instruction_data.h"
#include "tracee/vm/method_definition.h"

#include <string.h>

/* A parameter with a default, whose value is not there yet when the call is seen: to leave it out is truer than nil. */
static bool is_not_there_yet(VALUE parameter, bool early)
{
	VALUE kind = rb_ary_entry(parameter, 0);

	return early && (kind == ID2SYM(rb_intern("opt")) || kind == ID2SYM(rb_intern("key")));
}

static void add_name(VALUE names, VALUE name)
{
	VALUE string = rb_sym2str(name);

	if (ruby_is_word(RSTRING_PTR(string), (size_t)RSTRING_LEN(string)) && instruction_index(names, name) < 0)
		rb_ary_push(names, name);
}

/* Destructured: `(b, *c)`. Of the parameters without a name only these are required. */
static bool is_destructured(VALUE parameter)
{
	return rb_ary_entry(parameter, 0) == ID2SYM(rb_intern("req")) && NIL_P(rb_ary_entry(parameter, 1));
}

/* Those of the next destructured parameter. `patterns` is made at the first. */
static void add_destructured(VALUE names, VALUE method, VALUE *patterns)
{
	VALUE pattern;

	if (NIL_P(*patterns))
		*patterns = destructured_names(method);
	pattern = rb_ary_shift(*patterns);
	for (long i = 0; !NIL_P(pattern) && i < RARRAY_LEN(pattern); i++)
		add_name(names, rb_ary_entry(pattern, i));
}

/* From 3.2 on Ruby says so, and their variables have these names. */
bool parameter_is_nameless(VALUE name)
{
	const char *text = RSTRING_PTR(rb_sym2str(name));

	return strcmp(text, "*") == 0 || strcmp(text, "**") == 0 || strcmp(text, "&") == 0;
}

/* Before, it says the kind alone. */
static VALUE name_of_kind(VALUE parameter)
{
	VALUE kind = rb_ary_entry(parameter, 0), name = rb_ary_entry(parameter, 1);

	if (!NIL_P(name))
		return name;
	if (kind == ID2SYM(rb_intern("rest")))
		return ID2SYM(rb_intern("*"));
	return kind == ID2SYM(rb_intern("keyrest")) ? ID2SYM(rb_intern("**")) : Qnil;
}

/* Where Ruby does not name them, they are in the order of the parameters; after keywords there is one of which were given. */
unsigned parameter_position(VALUE method, VALUE name)
{
	VALUE parameters = builtin_call0(BUILTIN_UNBOUND_METHOD_PARAMETERS, method);
	unsigned keywords = 0;

	for (long i = 0; i < RARRAY_LEN(parameters); i++) {
		VALUE parameter = rb_ary_entry(parameters, i), kind = rb_ary_entry(parameter, 0);

		if (name_of_kind(parameter) == name)
			return NIL_P(rb_ary_entry(parameter, 1)) ? (unsigned)i + 1 + keywords : 0;
		if (kind == ID2SYM(rb_intern("key")) || kind == ID2SYM(rb_intern("keyreq")))
			keywords = 1;
	}
	return 0;
}

/* Ruby says the kind alone, too, of what a method in C takes, and no frame has that. */
static bool has_variables(VALUE method)
{
	return RTEST(builtin_call0(BUILTIN_UNBOUND_METHOD_SOURCE_LOCATION, method));
}

VALUE parameter_names(VALUE method)
{
	VALUE parameters = builtin_call0(BUILTIN_UNBOUND_METHOD_PARAMETERS, method);
	VALUE names = rb_ary_new(), patterns = Qnil;
	bool early = (!compat_block_method_defaults() && method_definition_is_block_method(method)) ||
	             method_definition_has_short_form(method);
	bool in_frame = has_variables(method);

	for (long i = 0; i < RARRAY_LEN(parameters); i++) {
		VALUE parameter = rb_ary_entry(parameters, i);
		VALUE name = in_frame ? name_of_kind(parameter) : rb_ary_entry(parameter, 1);

		if (is_destructured(parameter) && !early)
			add_destructured(names, method, &patterns);
		else if (!NIL_P(name) && parameter_is_nameless(name))
			rb_ary_push(names, name);
		else if (!NIL_P(name) && !is_not_there_yet(parameter, early))
			add_name(names, name);
	}
	return names;
}

VALUE parameter_names_in_hand(VALUE method)
{
	long arity = NUM2LONG(builtin_call0(BUILTIN_UNBOUND_METHOD_ARITY, method));
	VALUE names = rb_ary_new();

	for (long i = 1; i <= (arity < 0 ? C_ARGUMENTS_LABELLED : arity); i++)
		rb_ary_push(names, rb_to_symbol(rb_sprintf("arg%ld", i)));
	return rb_ary_push(names, ID2SYM(rb_intern("block")));
}
