/* Receivers of completion. See console_receiver.h. */

#define _GNU_SOURCE
#include "tracee/eval/console_receiver.h"

#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/instruction_data.h"
#include "tracee/vm/method_definition.h"

#include <ctype.h>
#include <ruby/encoding.h>
#include <string.h>

#define DEPTH_MAX 16 /* methods in a row */

static const struct receiver unknown = {Qundef, Qundef};

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static struct receiver of_value(VALUE value)
{
	return (struct receiver){value, value == Qundef ? Qundef : rb_class_of(value)};
}

static struct receiver of_class(VALUE class)
{
	return (struct receiver){Qundef, class};
}

/* Behind an opening bracket or quote, going back from the closing one at `at`. `at` itself, where it is not closed. */
static size_t back_over_pair(struct slice line, size_t at)
{
	char close = line.bytes[at];
	char open = close == ')' ? '(' : close == ']' ? '[' : close == '}' ? '{' : close;
	int depth = 0;

	for (size_t i = at + 1; i-- > 0;) {
		if (line.bytes[i] == close && (open != close || i == at))
			depth++;
		else if (line.bytes[i] == open && (open != close || i == 0 || line.bytes[i - 1] != '\\'))
			depth--;
		if (depth == 0)
			return i;
	}
	return at;
}

static size_t back_over_word(struct slice line, size_t at)
{
	while (at > 0 && is_word(line.bytes[at - 1]))
		at--;
	return at;
}

/* One operand: a word with its sigils, or something in brackets or quotes. */
static size_t back_over_operand(struct slice line, size_t end)
{
	size_t at = end;

	if (at > 0 && strchr(")]}\"'", line.bytes[at - 1])) {
		size_t open = back_over_pair(line, at - 1);

		if (open == at - 1)
			return end;
		/* A call with arguments, or a reference to an element, belongs to the word in front. */
		return line.bytes[at - 1] == ')' || line.bytes[at - 1] == ']' ? back_over_word(line, open) : open;
	}
	if (at > 1 && (line.bytes[at - 1] == '?' || line.bytes[at - 1] == '!') && is_word(line.bytes[at - 2]))
		at--;
	at = back_over_word(line, at);
	if (at == end)
		return end;
	while (at > 0 && (line.bytes[at - 1] == '@' || line.bytes[at - 1] == '$'))
		at--;
	if (at > 0 && line.bytes[at - 1] == ':' && !(at > 1 && line.bytes[at - 2] == ':'))
		at--;
	return at;
}

size_t receiver_begin(struct slice line, size_t end)
{
	size_t at = back_over_operand(line, end);

	while (at < end && at > 0) {
		size_t separator = at, before;

		if (line.bytes[at - 1] == '.')
			separator = at > 1 && line.bytes[at - 2] == '&' ? at - 2 : at - 1;
		else if (at > 1 && line.bytes[at - 1] == ':' && line.bytes[at - 2] == ':')
			separator = at - 2;
		if (separator == at)
			return at;
		before = back_over_operand(line, separator);
		if (before == separator)
			return line.bytes[separator] == ':' ? separator : at; /* ::Foo */
		at = before;
	}
	return at;
}

static ID existing_id(struct slice name)
{
	return rb_check_id_cstr(name.bytes, (long)name.size, rb_utf8_encoding());
}

/* The constant of that name in a module; Qundef: none, or it would have to be loaded first. */
static VALUE constant_of(VALUE module, struct slice name)
{
	ID id = existing_id(name);
	VALUE verbose, value;

	if (!id || !rb_is_const_id(id) || !(RB_TYPE_P(module, T_CLASS) || RB_TYPE_P(module, T_MODULE)))
		return Qundef;
	/* Also those of ancestors; asked first, as the other question may look for the file. */
	if (!NIL_P(rb_autoload_p(module, id)) || !rb_const_defined_from(module, id))
		return Qundef;
	/* One that is deprecated would be warned of. */
	verbose = *rb_ruby_verbose_ptr();
	*rb_ruby_verbose_ptr() = Qnil;
	value = rb_const_get_from(module, id);
	*rb_ruby_verbose_ptr() = verbose;
	return value;
}

static struct receiver local_variable(VALUE binding, struct slice name)
{
	VALUE names = builtin_call0(BUILTIN_BINDING_LOCAL_VARIABLES, binding);
	ID id = existing_id(name);

	for (long i = 0; id && i < RARRAY_LEN(names); i++) {
		VALUE symbol = rb_ary_entry(names, i);

		if (symbol == ID2SYM(id))
			return of_value(builtin_call(BUILTIN_BINDING_LOCAL_VARIABLE_GET, binding, 1, &symbol));
	}
	return unknown;
}

/* Names of methods that say what they return; looked up only where the method is not one of the application's. */
static const struct {
	const char *method;
	VALUE *class;
} returned[] = {
	{"to_s", &rb_cString},     {"inspect", &rb_cString},    {"to_str", &rb_cString},  {"to_sym", &rb_cSymbol},
	{"to_i", &rb_cInteger},    {"size", &rb_cInteger},      {"length", &rb_cInteger}, {"count", &rb_cInteger},
	{"hash", &rb_cInteger},    {"object_id", &rb_cInteger}, {"to_f", &rb_cFloat},     {"to_a", &rb_cArray},
	{"keys", &rb_cArray},      {"values", &rb_cArray},      {"to_h", &rb_cHash},      {"class", &rb_cClass},
	{"name", &rb_cString},     {"map", &rb_cArray},         {"sort", &rb_cArray},     {"upcase", &rb_cString},
	{"downcase", &rb_cString}, {"strip", &rb_cString},      {"split", &rb_cArray},
};

VALUE receiver_method(VALUE class, ID id)
{
	VALUE symbol = ID2SYM(id);

	if (!RTEST(builtin_call(BUILTIN_MODULE_METHOD_DEFINED, class, 1, &symbol)) &&
	    !RTEST(builtin_call(BUILTIN_MODULE_PRIVATE_METHOD_DEFINED, class, 1, &symbol)))
		return Qnil;
	return builtin_call(BUILTIN_MODULE_INSTANCE_METHOD, class, 1, &symbol);
}

static bool is_written_in_c(VALUE method)
{
	return NIL_P(builtin_call0(BUILTIN_UNBOUND_METHOD_SOURCE_LOCATION, method));
}

/* attr_reader: it has a place in a file, but no instructions there. */
static bool is_attribute_reader(VALUE method)
{
	return !is_written_in_c(method) && NIL_P(method_definition_instructions(method)) &&
	       builtin_call0(BUILTIN_UNBOUND_METHOD_ARITY, method) == INT2FIX(0);
}

/* What a method without arguments returns. */
static struct receiver call(struct receiver receiver, struct slice name)
{
	ID id = existing_id(name);
	VALUE method;

	if (!id || receiver.class == Qundef)
		return unknown;
	method = receiver_method(receiver.class, id);
	if (NIL_P(method))
		return unknown;
	if (is_attribute_reader(method))
		return receiver.value == Qundef
		               ? unknown
		               : of_value(builtin_call1(BUILTIN_UNBOUND_METHOD_BIND_CALL, method, receiver.value));
	if (!is_written_in_c(method))
		return unknown;
	if (id == rb_intern("new") && RB_TYPE_P(receiver.value == Qundef ? Qnil : receiver.value, T_CLASS))
		return of_class(receiver.value);
	if (id == rb_intern("class") && receiver.value != Qundef)
		return of_value(rb_obj_class(receiver.value));
	for (size_t i = 0; i < sizeof(returned) / sizeof(*returned); i++)
		if (strlen(returned[i].method) == name.size && memcmp(returned[i].method, name.bytes, name.size) == 0)
			return of_class(*returned[i].class);
	return unknown;
}

/* Those that are named by letters: the others are the business of a frame. */
static struct receiver global_variable(struct slice name)
{
	VALUE names = rb_f_global_variables();
	ID id = existing_id(name);

	if (!id || name.size < 3 || instruction_index(names, ID2SYM(id)) < 0)
		return unknown;
	return of_value(rb_gv_get(rb_id2name(id)));
}

static struct receiver variable(VALUE self, struct slice name)
{
	ID id = existing_id(name);

	if (!id)
		return unknown;
	if (name.size > 1 && name.bytes[1] == '@') {
		VALUE class = RB_TYPE_P(self, T_CLASS) || RB_TYPE_P(self, T_MODULE) ? self : rb_obj_class(self);

		return RTEST(rb_cvar_defined(class, id)) ? of_value(rb_cvar_get(class, id)) : unknown;
	}
	return RTEST(rb_ivar_defined(self, id)) ? of_value(rb_ivar_get(self, id)) : unknown;
}

static bool equals(struct slice text, const char *other)
{
	return text.size == strlen(other) && memcmp(text.bytes, other, text.size) == 0;
}

/* A constant as code in the binding sees it, but for those of enclosing modules: there are none around a console. */
static struct receiver top_constant(VALUE self, struct slice name)
{
	VALUE found = Qundef;

	if (RB_TYPE_P(self, T_CLASS) || RB_TYPE_P(self, T_MODULE))
		found = constant_of(self, name);
	return of_value(found == Qundef ? constant_of(rb_cObject, name) : found);
}

/* A literal's class tells enough; text is the whole operand. */
static VALUE class_of_literal(struct slice text)
{
	char first = text.bytes[0], last = text.bytes[text.size - 1];

	if (first == '"' || first == '\'')
		return rb_cString;
	if (first == '[' && last == ']')
		return rb_cArray;
	if (first == '{' && last == '}')
		return rb_cHash;
	if (first == ':' && text.size > 1 && text.bytes[1] != ':')
		return rb_cSymbol;
	if (isdigit((unsigned char)first))
		return memchr(text.bytes, '.', text.size) ? rb_cFloat : rb_cInteger;
	return Qundef;
}

static struct receiver first_operand(VALUE binding, struct slice text)
{
	VALUE self = builtin_call0(BUILTIN_BINDING_RECEIVER, binding);
	VALUE class = class_of_literal(text);
	struct receiver found;

	if (class != Qundef)
		return of_class(class);
	if (text.bytes[0] == '@')
		return variable(self, text);
	if (text.bytes[0] == '$')
		return global_variable(text);
	if (equals(text, "self"))
		return of_value(self);
	if (equals(text, "nil") || equals(text, "true") || equals(text, "false"))
		return of_value(equals(text, "nil") ? Qnil : equals(text, "true") ? Qtrue : Qfalse);
	if (isupper((unsigned char)text.bytes[0]))
		return top_constant(self, text);
	found = local_variable(binding, text);
	return found.class == Qundef ? call(of_value(self), text) : found;
}

static size_t operand_length(struct slice text)
{
	size_t length = 0;

	/* 1.5 is one */
	if (isdigit((unsigned char)text.bytes[0])) {
		while (length < text.size &&
		       (is_word(text.bytes[length]) ||
		        (text.bytes[length] == '.' && length + 1 < text.size && isdigit((unsigned char)text.bytes[length + 1]))))
			length++;
		return length;
	}
	if (strchr("\"'[{(", text.bytes[0])) {
		/* Only as the whole: what is in it is not looked at. */
		char open = text.bytes[0], close = open == '[' ? ']' : open == '{' ? '}' : open == '(' ? ')' : open;
		int depth = 0;

		for (; length < text.size; length++) {
			if (text.bytes[length] == close && length > 0 && --depth <= 0)
				return length + 1;
			if (text.bytes[length] == open)
				depth++;
		}
		return text.size;
	}
	while (length < text.size && strchr("@$:", text.bytes[length]))
		length++;
	while (length < text.size && is_word(text.bytes[length]))
		length++;
	if (length < text.size && (text.bytes[length] == '?' || text.bytes[length] == '!'))
		length++;
	return length;
}

struct receiver receiver_find(VALUE binding, struct slice rest)
{
	struct receiver receiver = unknown;
	bool first = true, in_module = false;

	if (rest.size > 2 && memcmp(rest.bytes, "::", 2) == 0) {
		rest = (struct slice){rest.bytes + 2, rest.size - 2};
		receiver = of_value(rb_cObject);
		first = false;
		in_module = true;
	}
	for (int depth = 0; rest.size && depth < DEPTH_MAX; depth++) {
		struct slice operand = {rest.bytes, operand_length(rest)};

		if (operand.size == 0)
			return unknown;
		if (first)
			receiver = first_operand(binding, operand);
		else if (in_module && isupper((unsigned char)operand.bytes[0]))
			receiver = of_value(receiver.value == Qundef ? Qundef : constant_of(receiver.value, operand));
		else
			receiver = call(receiver, operand);
		rest = (struct slice){rest.bytes + operand.size, rest.size - operand.size};
		if (receiver.class == Qundef || rest.size == 0)
			return receiver;
		first = in_module = false;
		if (rest.bytes[0] == '&' && rest.size > 1)
			rest = (struct slice){rest.bytes + 1, rest.size - 1};
		if (rest.bytes[0] == '.')
			rest = (struct slice){rest.bytes + 1, rest.size - 1};
		else if (rest.size > 2 && memcmp(rest.bytes, "::", 2) == 0) {
			rest = (struct slice){rest.bytes + 2, rest.size - 2};
			in_module = true;
		} else {
			return unknown; /* arguments, an element, an operator */
		}
	}
	return unknown;
}
