/*
 * Lines in instruction sequences. See line_code.h. Context: job, GVL held.
 *
 * RubyVM::InstructionSequence#trace_points lists the events of one InstructionSequence, [line, :line] among them; each_child has
 * those that are written within it. Both are there on all Rubies from 2.6 on.
 */

#include "tracee/vm/line_code.h"

#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/code_around.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/gvl_slice.h"
#include "tracee/vm/instruction_data.h"

#include <string.h>

#define NESTING_MAX 200 /* of code within code */

static VALUE string_or_nil(VALUE value)
{
	return RB_TYPE_P(value, T_STRING) ? value : Qnil;
}

VALUE line_code_path(VALUE code)
{
	return string_or_nil(builtin_call0(BUILTIN_ISEQ_PATH, code));
}

VALUE line_code_absolute_path(VALUE code)
{
	return string_or_nil(builtin_call0(BUILTIN_ISEQ_ABSOLUTE_PATH, code));
}

bool line_code_is_same(VALUE code, VALUE other)
{
	return code == other || compat_data(code) == compat_data(other);
}

/* Where a walk is: the code that it is in, outermost first. */
struct walk {
	struct line_look *look;
	VALUE outer;
	VALUE within; /* Array */
	bool once;    /* not into classes and methods */
	bool fresh;   /* line_code_look_new() without methods */
	bool is_eval;
	int methods; /* then: that it is in */
	VALUE names; /* while what lies within a hit is looked at: its names are added; else nil */
};

/* What a block sees of the code around it ends here. */
static bool is_scope(VALUE data)
{
	VALUE type = instruction_element(data, INSTRUCTION_DATA_TYPE);

	return type == ID2SYM(rb_intern("method")) || type == ID2SYM(rb_intern("class")) || type == ID2SYM(rb_intern("top")) ||
	       type == ID2SYM(rb_intern("main"));
}

/* As code may name it: not `*`, nor `_1`, which a Binding does not tell. */
static bool is_variable(VALUE name)
{
	VALUE string;
	const char *bytes;
	long size;

	if (!RB_SYMBOL_P(name))
		return false;
	string = rb_sym2str(name);
	bytes = RSTRING_PTR(string);
	size = RSTRING_LEN(string);
	if (size == 2 && bytes[0] == '_' && bytes[1] >= '1' && bytes[1] <= '9')
		return false;
	return size > 0 && (bytes[0] == '_' || (bytes[0] >= 'a' && bytes[0] <= 'z') || (unsigned char)bytes[0] >= 0x80);
}

static void add_names(VALUE names, VALUE list)
{
	for (long i = 0; i < instruction_length(list); i++) {
		VALUE name = rb_ary_entry(list, i);

		if (is_variable(name) && instruction_index(names, name) < 0)
			rb_ary_push(names, name);
	}
}

static void add_locals(VALUE names, VALUE data)
{
	add_names(names, instruction_element(data, INSTRUCTION_DATA_LOCALS));
}

VALUE line_code_variables(VALUE code)
{
	VALUE names = rb_ary_new();

	add_locals(names, builtin_call0(BUILTIN_ISEQ_TO_A, code));
	return names;
}

/* Those of the innermost code, and of what it is a block in. */
static VALUE visible_names(const struct walk *walk)
{
	VALUE chain = rb_ary_new(), names = rb_ary_new();
	long i = RARRAY_LEN(walk->within);
	bool scope = false;

	while (i-- > 0 && !scope) {
		VALUE data = builtin_call0(BUILTIN_ISEQ_TO_A, rb_ary_entry(walk->within, i));

		rb_ary_push(chain, instruction_element(data, INSTRUCTION_DATA_LOCALS));
		scope = is_scope(data);
	}
	if (!scope) {
		add_names(names, code_around_names(rb_ary_entry(walk->within, 0)));
		add_names(names, walk->outer);
	}
	for (i = RARRAY_LEN(chain); i-- > 0;)
		add_names(names, rb_ary_entry(chain, i));
	return names;
}

/* Whether the code itself has the line; its other lines are noted. A method that is empty, or `def x = ...`, has none. */
static bool has_line(struct line_look *look, VALUE code)
{
	VALUE points = builtin_call0(BUILTIN_ISEQ_TRACE_POINTS, code), event = ID2SYM(rb_intern("line"));
	bool found = false, any = false;
	uint32_t first = 0, last = 0;

	for (long i = 0; i < instruction_length(points); i++) {
		VALUE point = rb_ary_entry(points, i), number = instruction_element(point, 0);
		uint32_t line;

		if (!RB_FIXNUM_P(number) || FIX2LONG(number) <= 0)
			continue;
		line = (uint32_t)FIX2LONG(number);
		first = first && first < line ? first : line;
		last = last > line ? last : line;
		if (instruction_element(point, 1) != event)
			continue;
		any = true;
		found = found || line == look->line;
		if (line < look->line && line > look->before)
			look->before = line;
		if (line > look->line && (!look->after || line < look->after))
			look->after = line;
	}
	look->silent = !any && first <= look->line && look->line <= last;
	return found;
}

static void enter(struct walk *walk, VALUE code);

enum kind {
	KIND_METHOD,
	KIND_PART, /* a block, or a clause of the code around it */
	KIND_ONCE, /* the body of a class, or a file's top level */
};

/* By its label: `total`, `block in total`, `<class:Order>`. */
static enum kind kind_of(VALUE code)
{
	static const struct {
		const char *beginning;
		enum kind kind;
	} beginnings[] = {{"block ", KIND_PART},  {"rescue in ", KIND_PART}, {"ensure in ", KIND_PART},
	                  {"<top ", KIND_ONCE},   {"<main>", KIND_ONCE},     {"<compiled>", KIND_ONCE},
	                  {"<class:", KIND_ONCE}, {"<module:", KIND_ONCE},   {"singleton class", KIND_ONCE}};
	VALUE label = string_or_nil(builtin_call0(BUILTIN_ISEQ_LABEL, code));

	for (size_t i = 0; i < sizeof(beginnings) / sizeof(*beginnings) && !NIL_P(label); i++)
		if ((size_t)RSTRING_LEN(label) >= strlen(beginnings[i].beginning) &&
		    memcmp(RSTRING_PTR(label), beginnings[i].beginning, strlen(beginnings[i].beginning)) == 0)
			return beginnings[i].kind;
	return KIND_METHOD;
}

struct method_look {
	uint32_t line;
	int depth, methods;
	bool found;
};

static VALUE look_for_method(RB_BLOCK_CALL_FUNC_ARGLIST(child, argument))
{
	struct method_look *method = (struct method_look *)argument;
	struct line_look look = {.line = method->line};
	bool is_method = kind_of(child) == KIND_METHOD;

	(void)argc;
	(void)argv;
	(void)blockarg;
	if (method->found || method->depth == NESTING_MAX)
		return Qnil;
	method->depth++;
	method->methods += is_method;
	method->found = method->methods > 0 && has_line(&look, child);
	builtin_iterate(BUILTIN_ISEQ_EACH_CHILD, child, 0, NULL, look_for_method, (VALUE)method);
	method->methods -= is_method;
	method->depth--;
	return Qnil;
}

/* Whether a method that is written within the code has the line. */
static bool has_method(VALUE code, uint32_t line)
{
	struct method_look method = {.line = line};

	builtin_iterate(BUILTIN_ISEQ_EACH_CHILD, code, 0, NULL, look_for_method, (VALUE)&method);
	return method.found;
}

/* Whether code that has the line is to be found. */
static bool is_taken(const struct walk *walk, VALUE code, enum kind kind)
{
	if (!walk->fresh)
		return true;
	if (walk->methods > 0)
		walk->look->in_method = true;
	return walk->methods == 0 && (kind == KIND_ONCE || !has_method(code, walk->look->line));
}

static VALUE enter_child(RB_BLOCK_CALL_FUNC_ARGLIST(child, argument))
{
	struct walk *walk = (struct walk *)argument;

	(void)argc;
	(void)argv;
	(void)blockarg;
	if (!walk->once || kind_of(child) == KIND_PART)
		enter(walk, child);
	return Qnil;
}

static void enter(struct walk *walk, VALUE code)
{
	bool inside = !NIL_P(walk->names), silent = walk->look->silent, root = RARRAY_LEN(walk->within) == 0, hit;
	enum kind kind = !walk->fresh ? KIND_PART : !root ? kind_of(code) : walk->is_eval ? KIND_PART : KIND_ONCE;

	if (RARRAY_LEN(walk->within) >= NESTING_MAX)
		return;
	gvl_slice_pass_current();
	rb_ary_push(walk->within, code);
	walk->methods += kind == KIND_METHOD;
	hit = has_line(walk->look, code) && is_taken(walk, code, kind);
	if (!root)
		walk->look->silent = silent; /* that of the outermost counts */
	if (hit && inside)
		add_locals(walk->names, builtin_call0(BUILTIN_ISEQ_TO_A, code));
	else if (hit)
		walk->names = visible_names(walk);
	builtin_iterate(BUILTIN_ISEQ_EACH_CHILD, code, 0, NULL, enter_child, (VALUE)walk);
	if (hit && !inside) {
		walk->look->once = kind == KIND_ONCE;
		walk->look->found(walk->look, code, walk->names);
		walk->names = Qnil;
	}
	walk->methods -= kind == KIND_METHOD;
	rb_ary_pop(walk->within);
}

static void walk_all(struct walk *walk, VALUE code)
{
	walk->within = rb_ary_new();
	walk->names = Qnil;
	enter(walk, code);
	RB_GC_GUARD(walk->within);
	RB_GC_GUARD(walk->names);
}

void line_code_look(struct line_look *look, VALUE code, VALUE outer)
{
	struct walk walk = {.look = look, .outer = outer};

	walk_all(&walk, code);
}

void line_code_look_once(struct line_look *look, VALUE code)
{
	struct walk walk = {.look = look, .outer = Qnil, .once = true};

	walk_all(&walk, code);
}

void line_code_look_new(struct line_look *look, VALUE code, bool is_eval, bool methods)
{
	struct walk walk = {.look = look, .outer = Qnil, .fresh = !methods, .is_eval = is_eval};

	walk_all(&walk, code);
}
