/*
 * What is built from Ruby's own methods: running code of ours, scratch methods, what exceptions say. See core.h.
 */

#include "core.h"

#include <stdio.h>

bool core_is_exception(VALUE error)
{
	return !RB_SPECIAL_CONST_P(error) && RB_BUILTIN_TYPE(error) != T_IMEMO && RTEST(rb_obj_is_kind_of(error, rb_eException));
}

VALUE core_message(VALUE exception)
{
	VALUE text;

	if (!core_is_exception(exception))
		return Qnil;
	text = rb_attr_get(exception, rb_intern("mesg"));
	if (!RB_TYPE_P(text, T_STRING))
		text = core_call0(CORE_EXCEPTION_TO_S, exception);
	return RB_TYPE_P(text, T_STRING) ? text : Qnil;
}

struct description {
	VALUE exception;
	char *buffer;
	size_t size;
};

static VALUE describe(VALUE argument)
{
	const struct description *description = (const struct description *)argument;
	VALUE text = core_message(description->exception);

	if (!NIL_P(text))
		snprintf(description->buffer, description->size, "%.*s", (int)RSTRING_LEN(text), RSTRING_PTR(text));
	RB_GC_GUARD(text);
	return Qnil;
}

const char *core_describe(VALUE exception, char *buffer, size_t size)
{
	struct description description = {exception, buffer, size};
	VALUE error = rb_errinfo();
	int failed = 0;

	buffer[0] = '\0';
	rb_protect(describe, (VALUE)&description, &failed);
	rb_set_errinfo(error);
	if (!buffer[0])
		snprintf(buffer, size, "an exception");
	return buffer;
}

static VALUE added_ignore(VALUE self, VALUE name)
{
	(void)self;
	(void)name;
	return Qnil;
}

VALUE core_instruction_sequence(void)
{
	VALUE vm = rb_const_get(rb_cObject, rb_intern("RubyVM"));

	return rb_const_get(vm, rb_intern("InstructionSequence"));
}

static const char instructions_of_overridden[] =
	"the application has overridden RubyVM::InstructionSequence.of, which Ruby itself calls to trace one method";

/*
 * enable(target:) itself calls InstructionSequence.of as the application has it, and crashes where that returns something else
 * (3.1; read in vm_trace.c of 2.7 to 4.0).
 */
static void check_instructions_of(void)
{
	VALUE class = rb_class_of(core_instruction_sequence());

	if (rb_method_basic_definition_p(class, rb_intern("of")))
		return;
	rb_exc_raise(core_exception(rb_eRuntimeError, instructions_of_overridden));
}

void core_enable_for(VALUE tracepoint, VALUE target)
{
	VALUE options = rb_hash_new();

	check_instructions_of();
	rb_hash_aset(options, ID2SYM(rb_intern("target")), target);
	core_call_keywords(CORE_TRACEPOINT_ENABLE, tracepoint, 1, &options);
	RB_GC_GUARD(options);
}

VALUE core_run(const char *source)
{
	VALUE arguments[] = {rb_str_new_cstr(source), rb_str_new_cstr("(rbprobe)")};

	return core_call0(CORE_ISEQ_EVAL, core_call(CORE_ISEQ_COMPILE, core_instruction_sequence(), 2, arguments));
}

VALUE core_scratch_module(void)
{
	VALUE module = rb_module_new();

	/* The first is told of itself, too. */
	rb_define_singleton_method(module, "singleton_method_added", added_ignore, 1);
	rb_define_singleton_method(module, "method_added", added_ignore, 1);
	return module;
}

void core_define_method(VALUE module, const char *name, VALUE lambda)
{
	VALUE arguments[] = {ID2SYM(rb_intern(name)), lambda};

	core_call(CORE_MODULE_DEFINE_METHOD, module, 2, arguments);
}

VALUE core_find_method(VALUE module, const char *name)
{
	return core_call1(CORE_MODULE_INSTANCE_METHOD, module, ID2SYM(rb_intern(name)));
}

VALUE core_call_own(VALUE object, const char *name, int argc, const VALUE *argv)
{
	return rb_funcallv(object, rb_intern(name), argc, argv);
}
