/*
 * Compiling and running Ruby code of our own. See builtin_methods.h.
 *
 * For every piece of code that it compiles, the VM asks whether RubyVM::InstructionSequence responds to `translate`, and calls it
 * (iseq_translate() in iseq.c of 2.7 to 4.0). Both are dispatched as the application has them. Where that fails, the
 * application itself can compile nothing either.
 */

#include "tracee/base/text.h"
#include "tracee/vm/builtin_find.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/exception_drop.h"

#include <string.h>

/* All that change what the code does, or which instructions it has. The application's own are for its code. */
static VALUE compile_options(void)
{
	static const struct {
		const char *name;
		VALUE value;
	} fixed[] = {{"tailcall_optimization", Qfalse}, /* frames of scratch methods would not be there */
	             {"specialized_instruction", Qtrue}, {"peephole_optimization", Qtrue}, {"inline_const_cache", Qtrue},
	             {"operands_unification", Qtrue},    {"frozen_string_literal", Qfalse}};
	VALUE options = rb_hash_new();

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		rb_hash_aset(options, ID2SYM(rb_intern(fixed[i].name)), fixed[i].value);
	return options;
}

static VALUE compile(VALUE source)
{
	VALUE arguments[] = {rb_str_new_cstr((const char *)source), rb_str_new_cstr("(rbprobe)"), compile_options()};

	return builtin_call_keywords(BUILTIN_ISEQ_COMPILE, builtin_instruction_sequence(), 3, arguments);
}

struct hook {
	struct text *text;
	VALUE class; /* InstructionSequence's singleton class */
	ID name;
};

/* "RubyVM::InstructionSequence.translate (app.rb:1)" */
static VALUE name_hook(VALUE argument)
{
	const struct hook *hook = (const struct hook *)argument;
	VALUE method = rb_obj_method(builtin_instruction_sequence(), ID2SYM(hook->name)), location, file, line;

	class_name_add_method(hook->text, builtin_find_ask(method, "owner"), ID2SYM(hook->name));
	location = builtin_find_ask(method, "source_location");
	if (!RB_TYPE_P(location, T_ARRAY))
		return Qnil;
	file = rb_ary_entry(location, 0);
	line = rb_ary_entry(location, 1);
	if (RB_TYPE_P(file, T_STRING) && FIXNUM_P(line))
		text_printf(hook->text, " (%.*s:%ld)", (int)RSTRING_LEN(file), RSTRING_PTR(file), FIX2LONG(line));
	RB_GC_GUARD(file);
	return Qnil;
}

/* Which of the methods that the VM calls is the application's; false: none. Asked of a class: see doc/vm-facts.md. */
static bool find_hook(struct text *text)
{
	struct hook hook = {.text = text, .class = rb_class_of(builtin_instruction_sequence())};
	ID translate = rb_intern("translate");
	size_t before = text->used;
	int failed = 0;

	if (!rb_method_basic_definition_p(hook.class, rb_intern("respond_to?")))
		hook.name = rb_intern("respond_to?");
	else if (rb_method_boundp(hook.class, translate, 0))
		hook.name = translate;
	else if (!rb_method_basic_definition_p(hook.class, rb_intern("respond_to_missing?")))
		hook.name = rb_intern("respond_to_missing?");
	else
		return false;
	rb_protect(name_hook, (VALUE)&hook, &failed);
	if (failed)
		exception_drop(Qnil);
	if (text->used == before)
		text_append_cstr(text, rb_id2name(hook.name));
	return true;
}

/* Raises in place of the application's exception, which says nothing of where it comes from. */
static void raise_for_hook(VALUE exception)
{
	char bytes[400], message[128];
	struct text text = {.bytes = bytes, .size = sizeof(bytes) - 1};

	text_append_cstr(&text, "the application has overridden ");
	if (!find_hook(&text))
		return;
	text_append_cstr(&text, ", which Ruby calls whenever it compiles code: ");
	text_append_cstr(&text, builtin_describe(exception, message, sizeof(message)));
	bytes[text.used] = '\0';
	rb_exc_raise(builtin_exception(rb_eRuntimeError, bytes));
}

VALUE builtin_run(const char *source)
{
	VALUE before = rb_errinfo(), error;
	int failed = 0;
	VALUE code = rb_protect(compile, (VALUE)source, &failed);

	if (!failed)
		return builtin_call0(BUILTIN_ISEQ_EVAL, code);
	error = rb_errinfo();
	if (builtin_is_exception(error)) {
		exception_drop(before);
		raise_for_hook(error);
		rb_exc_raise(error);
	}
	rb_jump_tag(failed);
}

VALUE builtin_lambda(const char *source)
{
	static const char other[] =
		"the application's RubyVM::InstructionSequence.translate has made something else of rbprobe's code";
	VALUE lambda = builtin_run(source);

	if (!RTEST(rb_obj_is_proc(lambda)))
		rb_exc_raise(builtin_exception(rb_eRuntimeError, other));
	return lambda;
}
