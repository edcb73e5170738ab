/*
 * What a method is made of. See method_definition.h.
 *
 * A method object holds a pointer to its method entry, and that one to the definition, which has the function of a C method.
 * method_layout.c finds the places from C methods of a scratch module, whose functions are known, and a method of another kind.
 * That the definition is what copies of a method share is tried with three more: a, b made from a, and c. Found on 2.7.4 and
 * 3.1.2: entry at word 3 (4 on 3.3.8 and 4.0.5), definition at word 2. Memory is read by a system call that does not fault.
 */

#define _GNU_SOURCE
#include "tracee/vm/method_definition.h"

#include "tracee/base/safe_read.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/layout.h"
#include "tracee/vm/scratch.h"
#include "tracee/vm/string_slice.h"

#include <string.h>

static VALUE takes_none(VALUE self)
{
	return self;
}

static VALUE takes_one(VALUE self, VALUE argument)
{
	(void)self;
	return argument;
}

static VALUE takes_many(int argc, const VALUE *argv, VALUE self)
{
	(void)argv;
	(void)self;
	return INT2FIX(argc);
}

#define C_METHODS 3

static void layout_find(void)
{
	static const struct {
		const char *name;
		uintptr_t function;
		int arity;
	} c_methods[C_METHODS] = {{"takes_none", (uintptr_t)takes_none, 0},
	                          {"takes_one", (uintptr_t)takes_one, 1},
	                          {"takes_many", (uintptr_t)takes_many, -1}};
	struct method_sample samples[C_METHODS + 1] = {0};
	VALUE methods[C_METHODS + 1];
	struct method_layout layout;
	struct scratch scratch;

	scratch_make(&scratch);
	for (size_t i = 0; i < C_METHODS; i++) {
		scratch_define_c(&scratch, c_methods[i].name, (VALUE(*)(VALUE))c_methods[i].function, c_methods[i].arity);
		methods[i] = scratch_method(&scratch, c_methods[i].name);
		samples[i] = (struct method_sample){
			.c_function = true, .function = c_methods[i].function, .arity = c_methods[i].arity};
	}
	rb_define_attr(scratch.module, "attribute", true, false);
	methods[C_METHODS] = scratch_method(&scratch, "attribute");
	for (size_t i = 0; i < C_METHODS + 1; i++)
		samples[i].object = (uintptr_t)compat_data(methods[i]);
	if (method_layout_find(&layout, samples, C_METHODS + 1, safe_read)) {
		layout_found(LAYOUT_METHOD_ENTRY, layout.entry_word);
		layout_found(LAYOUT_ENTRY_DEFINITION, layout.definition_word);
		layout_found(LAYOUT_DEFINITION_FUNCTION, layout.function_word);
		layout_found(LAYOUT_DEFINITION_ARITY, layout.arity_offset);
		layout_found(LAYOUT_DEFINITION_TYPE, layout.type);
	}
	for (enum layout_row row = LAYOUT_METHOD_ENTRY; row <= LAYOUT_DEFINITION_TYPE; row++)
		layout_not_found(row, "scratch methods did not all lead to their functions by one way");
	for (size_t i = 0; i < C_METHODS + 1; i++)
		RB_GC_GUARD(methods[i]);
}

static bool layout_get(struct method_layout *layout)
{
	static bool tried;

	if (!tried) {
		/* First of all: defining the scratch methods may lead here again. */
		tried = true;
		layout_find();
	}
	*layout = (struct method_layout){.entry_word = layout_value(LAYOUT_METHOD_ENTRY),
	                                 .definition_word = layout_value(LAYOUT_ENTRY_DEFINITION),
	                                 .function_word = layout_value(LAYOUT_DEFINITION_FUNCTION),
	                                 .arity_offset = layout_value(LAYOUT_DEFINITION_ARITY),
	                                 .type = layout_value(LAYOUT_DEFINITION_TYPE)};
	return layout_is_known(LAYOUT_METHOD_ENTRY);
}

bool method_definition_function(VALUE method, struct method_target *target)
{
	struct method_layout layout;

	return layout_get(&layout) && method_layout_follow(&layout, (uintptr_t)compat_data(method), target, safe_read);
}

uintptr_t method_definition_function_of_entry(uintptr_t entry, uintptr_t definition)
{
	uintptr_t words[2];
	struct method_layout layout;

	if (!layout_get(&layout) || layout.function_word >= sizeof(words) / sizeof(*words) ||
	    !safe_read_words(entry + layout.definition_word * sizeof(uintptr_t), words, 1) || words[0] != definition ||
	    !safe_read_words(definition, words, sizeof(words) / sizeof(*words)) || (words[0] & METHOD_TYPE_MASK) != layout.type)
		return 0;
	return words[layout.function_word];
}

bool method_definition_fits(const struct method_sample *samples, size_t count)
{
	struct method_layout layout;

	return layout_get(&layout) && method_layout_fits(&layout, samples, count, safe_read);
}

void method_definition_written(VALUE method, VALUE object)
{
	struct method_layout layout;

	if (layout_get(&layout))
		RB_OBJ_WRITTEN(((const VALUE *)compat_data(method))[layout.entry_word], Qundef, object);
}

/* --- The identity of a definition */

static uintptr_t definition_of(VALUE method)
{
	struct method_layout layout;
	uintptr_t entry, definition;

	if (!layout_get(&layout) ||
	    !safe_read_words((uintptr_t)compat_data(method) + layout.entry_word * sizeof(entry), &entry, 1) ||
	    !safe_read_words(entry + layout.definition_word * sizeof(definition), &definition, 1))
		return 0;
	return definition;
}

/* Whether copies of a method have one definition, and others another. */
static bool copies_share(void)
{
	uintptr_t definitions[3];
	struct scratch scratch;

	scratch_make(&scratch);
	scratch_define_block(&scratch, "a", builtin_lambda("-> { }"));
	scratch_define_block(&scratch, "b", scratch_method(&scratch, "a"));
	scratch_define_block(&scratch, "c", builtin_lambda("-> { }"));
	for (size_t i = 0; i < 3; i++)
		definitions[i] = definition_of(scratch_method(&scratch, (const char[]){"abc"[i], 0}));
	return definitions[0] && definitions[0] == definitions[1] && definitions[2] && definitions[2] != definitions[0];
}

uintptr_t method_definition_of(VALUE method)
{
	static bool tried, share;

	if (!tried) {
		/* First of all, as above. */
		tried = true;
		share = copies_share();
	}
	return share ? definition_of(method) : 0;
}

/* The first half of a definition's first word has its type and flags, the second counts references. */
static volatile uint32_t *flags_of(VALUE method)
{
	return method_definition_is_block_method(method) ? (volatile uint32_t *)method_definition_of(method) : NULL;
}

uint32_t method_definition_flags(VALUE method)
{
	const volatile uint32_t *flags = flags_of(method);

	return flags ? *flags : 0;
}

void method_definition_flags_keep(VALUE method, uint32_t flags)
{
	volatile uint32_t *now = flags_of(method);
	uint32_t added = now ? *now ^ flags : 0;

	/* One flag more, and nothing else. */
	if (added && !(added & (added - 1)) && (*now & added))
		*now = flags;
}

VALUE method_definition_instructions(VALUE method)
{
	return builtin_call1(BUILTIN_ISEQ_OF, builtin_instruction_sequence(), method);
}

/*
 * Those that say Primitive.mandatory_only? in the sources of 3.1 to 4.1-dev. In some of these versions one or the other is
 * written in C.
 */
static const struct {
	const VALUE *owner;
	bool singleton;
	const char *name;
} short_forms[] = {
	{&rb_cArray, false, "first"},    {&rb_cArray, false, "last"},   {&rb_cArray, false, "sample"},
	{&rb_mKernel, false, "Integer"}, {&rb_mKernel, false, "Float"}, {&rb_mKernel, true, "Integer"},
	{&rb_mKernel, true, "Float"},    {&rb_cTime, true, "at"},
};

static bool is_builtin(VALUE iseq)
{
	VALUE path = NIL_P(iseq) ? Qnil : builtin_call0(BUILTIN_ISEQ_PATH, iseq);

	return string_is_internal_path(path);
}

struct enclosing {
	const void *inner;
	bool found;
};

static VALUE look_into(RB_BLOCK_CALL_FUNC_ARGLIST(child, argument))
{
	struct enclosing *enclosing = (struct enclosing *)argument;

	(void)argc;
	(void)argv;
	(void)blockarg;
	if (!enclosing->found)
		enclosing->found = compat_data(child) == enclosing->inner;
	if (!enclosing->found)
		builtin_iterate(BUILTIN_ISEQ_EACH_CHILD, child, 0, NULL, look_into, argument);
	return Qnil;
}

bool method_definition_encloses(VALUE code, VALUE inner)
{
	struct enclosing enclosing = {.inner = compat_data(inner)};

	builtin_iterate(BUILTIN_ISEQ_EACH_CHILD, code, 0, NULL, look_into, (VALUE)&enclosing);
	return enclosing.found;
}

bool method_definition_has_short_form(VALUE method)
{
	VALUE owner = builtin_call0(BUILTIN_UNBOUND_METHOD_OWNER, method);
	VALUE name = builtin_call0(BUILTIN_UNBOUND_METHOD_ORIGINAL_NAME, method);

	for (size_t i = 0; i < sizeof(short_forms) / sizeof(short_forms[0]); i++) {
		VALUE holder = *short_forms[i].owner;

		if (short_forms[i].singleton)
			holder = rb_singleton_class(holder);
		if (owner == holder && name == ID2SYM(rb_intern(short_forms[i].name)))
			return is_builtin(method_definition_instructions(method));
	}
	return false;
}

/* Of what an instruction sequence is, as text: the VM says the kind of method there. */
static bool first_line_has(VALUE string, const char *words)
{
	const char *text = RSTRING_PTR(string), *end = memchr(text, '\n', (size_t)RSTRING_LEN(string));

	return memmem(text, end ? (size_t)(end - text) : (size_t)RSTRING_LEN(string), words, strlen(words)) != NULL;
}

/*
 * Where the VM does not say of which methods it is so: those of two files that have no variables, and nothing but the call and
 * the return. Seen on 3.3.8: others like them, in <internal:gc> or <internal:ractor>, are called each time.
 */
static bool is_one_call(VALUE iseq)
{
	VALUE path = builtin_call0(BUILTIN_ISEQ_PATH, iseq);
	VALUE data = builtin_call0(BUILTIN_ISEQ_TO_A, iseq), locals, body, only = Qnil;
	long instructions = 0;

	if (strcmp(RSTRING_PTR(path), "<internal:kernel>") != 0 && strcmp(RSTRING_PTR(path), "<internal:numeric>") != 0)
		return false;
	if (!RB_TYPE_P(data, T_ARRAY) || RARRAY_LEN(data) < 14)
		return false;
	locals = RARRAY_AREF(data, 10);
	body = RARRAY_AREF(data, 13);
	if (!RB_TYPE_P(locals, T_ARRAY) || RARRAY_LEN(locals) || !RB_TYPE_P(body, T_ARRAY))
		return false;
	for (long i = 0; i < RARRAY_LEN(body); i++)
		if (RB_TYPE_P(RARRAY_AREF(body, i), T_ARRAY) && instructions++ == 0)
			only = RARRAY_AREF(RARRAY_AREF(body, i), 0);
	return instructions == 2 && only == ID2SYM(rb_intern("opt_invokebuiltin_delegate_leave"));
}

bool method_definition_is_bypassed(VALUE method)
{
	VALUE iseq, text;

	if (compat_direct_calls() == COMPAT_DIRECT_CALLS_NONE)
		return false;
	iseq = method_definition_instructions(method);
	if (!is_builtin(iseq))
		return false;
	if (compat_direct_calls() == COMPAT_DIRECT_CALLS_UNTOLD)
		return is_one_call(iseq);
	text = builtin_call0(BUILTIN_ISEQ_DISASM, iseq);
	return RB_TYPE_P(text, T_STRING) && first_line_has(text, " SINGLE_NOARG_LEAF");
}

bool method_definition_is_block_method(VALUE method)
{
	VALUE iseq = method_definition_instructions(method);
	VALUE label = NIL_P(iseq) ? Qnil : builtin_call0(BUILTIN_ISEQ_LABEL, iseq);

	return RB_TYPE_P(label, T_STRING) && RSTRING_LEN(label) > 6 && memcmp(RSTRING_PTR(label), "block ", 6) == 0;
}
