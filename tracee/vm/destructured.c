/*
 * The variables of destructured parameters, read from a method's instructions. See destructured.h. Context: job, GVL held.
 *
 * Such an argument arrives in a variable without a name. Before its body, and before the event of the call, the method takes it
 * apart:
 *
 *     getlocal NAMELESS, expandarray 1 1, setlocal b, setlocal c
 *
 * with another expandarray for a nested one, or for what comes after a splat, and `pop` for a `*` without a name. So these
 * instructions are followed until all that was pushed is popped. Seen on 2.7 to 4.1, with both of Ruby's compilers.
 */

#include "tracee/vm/destructured.h"

#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/instruction_data.h"
#include "tracee/vm/method_definition.h"

#include <string.h>

#define SPLAT_FLAG 1 /* expandarray pushes one Array more, with the rest */

/* Following the instructions of one method. */
struct reading {
	VALUE locals;
	VALUE patterns; /* what was found */
	VALUE names;    /* of the one that is being read */
	long depth;     /* values on the stack that are part of it; 0: none is being read */
	bool loaded;    /* the instruction before pushed a variable without a name */
};

static bool is_named(VALUE instruction, const char *name)
{
	VALUE symbol = instruction_element(instruction, 0);
	const char *text;
	size_t size = strlen(name);

	if (!RB_SYMBOL_P(symbol))
		return false;
	text = rb_id2name(rb_sym2id(symbol));
	return strncmp(text, name, size) == 0 && (!text[size] || strcmp(text + size, "_WC_0") == 0);
}

/*
 * What the locals have for the variable of getlocal or setlocal: a Symbol where it has a name; Qnil where it is another frame's.
 */
static VALUE variable_of(const struct reading *reading, VALUE instruction)
{
	VALUE operand = instruction_element(instruction, 1), level = instruction_element(instruction, 2);
	long index;

	if (!RB_FIXNUM_P(operand) || !(NIL_P(level) || level == INT2FIX(0)))
		return Qnil;
	index = instruction_length(reading->locals) + 2 - FIX2LONG(operand);
	return index < 0 ? Qnil : instruction_element(reading->locals, index);
}

static bool is_nameless(VALUE variable)
{
	return RB_FIXNUM_P(variable) || variable == ID2SYM(rb_intern("#arg_rest"));
}

static void expand(struct reading *reading, VALUE instruction)
{
	VALUE count = instruction_element(instruction, 1), flags = instruction_element(instruction, 2);

	if (!RB_FIXNUM_P(count) || !RB_FIXNUM_P(flags)) {
		reading->depth = 0;
		return;
	}
	reading->depth += FIX2LONG(count) + (FIX2LONG(flags) & SPLAT_FLAG) - 1;
}

static void follow(struct reading *reading, VALUE instruction)
{
	if (is_named(instruction, "expandarray")) {
		expand(reading, instruction);
	} else if (is_named(instruction, "setlocal")) {
		VALUE variable = variable_of(reading, instruction);

		if (RB_SYMBOL_P(variable) && !is_nameless(variable))
			rb_ary_push(reading->names, variable);
		reading->depth--;
	} else if (is_named(instruction, "pop")) {
		reading->depth--;
	} else {
		reading->depth = 0;
	}
}

static void look(struct reading *reading, VALUE instruction)
{
	if (reading->depth > 0) {
		follow(reading, instruction);
	} else if (reading->loaded && is_named(instruction, "expandarray")) {
		reading->names = rb_ary_new();
		rb_ary_push(reading->patterns, reading->names);
		reading->depth = 1;
		expand(reading, instruction);
	} else {
		reading->loaded = is_named(instruction, "getlocal") && is_nameless(variable_of(reading, instruction));
		return;
	}
	reading->loaded = false;
}

VALUE destructured_names(VALUE method)
{
	VALUE iseq = method_definition_instructions(method);
	VALUE data = NIL_P(iseq) ? Qnil : builtin_call0(BUILTIN_ISEQ_TO_A, iseq);
	VALUE body = instruction_element(data, INSTRUCTION_DATA_BODY);
	struct reading reading = {.locals = instruction_element(data, INSTRUCTION_DATA_LOCALS), .patterns = rb_ary_new()};

	/* Line numbers, labels and events are between the instructions. */
	for (long i = 0; i < instruction_length(body); i++) {
		VALUE instruction = instruction_element(body, i);

		if (RB_TYPE_P(instruction, T_ARRAY))
			look(&reading, instruction);
	}
	RB_GC_GUARD(data);
	return reading.patterns;
}
