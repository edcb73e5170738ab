/*
 * What is built from Ruby's own methods: scratch methods, what exceptions say. See builtin_methods.h.
 */

#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/capture.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/own.h"

#include <stdio.h>
#include <string.h>

#define TAG_SIZE_MAX 64

bool builtin_is_exception(VALUE error)
{
	return !RB_SPECIAL_CONST_P(error) && RB_BUILTIN_TYPE(error) != T_IMEMO && RTEST(rb_obj_is_kind_of(error, rb_eException));
}

VALUE builtin_exception(VALUE class, const char *message)
{
	VALUE exception = rb_obj_alloc(class);

	rb_ivar_set(exception, rb_intern("mesg"), rb_utf8_str_new_cstr(message));
	return exception;
}

bool builtin_message_lacks_tag(VALUE exception, VALUE message)
{
	if (!RB_TYPE_P(message, T_STRING) || RSTRING_LEN(message) < 2 ||
	    memcmp(RSTRING_PTR(message) + RSTRING_LEN(message) - 2, "%p", 2) != 0)
		return false;
	return RTEST(rb_obj_is_kind_of(exception, rb_const_get(rb_cObject, rb_intern("UncaughtThrowError"))));
}

static VALUE with_tag(VALUE exception, VALUE format)
{
	static const struct trace_options options = {.value_size = TAG_SIZE_MAX, .value_depth = 1, .value_length = 4};
	char bytes[TAG_SIZE_MAX];
	struct text tag = {.bytes = bytes, .size = sizeof(bytes)};
	VALUE message = rb_utf8_str_new(RSTRING_PTR(format), RSTRING_LEN(format) - 2);

	capture_value(&tag, builtin_call0(BUILTIN_UNCAUGHT_THROW_ERROR_TAG, exception), &options);
	rb_str_cat(message, tag.bytes, (long)tag.used);
	RB_GC_GUARD(format);
	return message;
}

VALUE builtin_message(VALUE exception)
{
	VALUE text;

	if (!builtin_is_exception(exception))
		return Qnil;
	text = rb_attr_get(exception, rb_intern("mesg"));
	if (!RB_TYPE_P(text, T_STRING))
		text = builtin_call0(BUILTIN_EXCEPTION_TO_S, exception);
	else if (builtin_message_lacks_tag(exception, text))
		text = with_tag(exception, text);
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
	VALUE text = builtin_message(description->exception);

	if (!NIL_P(text))
		snprintf(description->buffer, description->size, "%.*s", (int)RSTRING_LEN(text), RSTRING_PTR(text));
	RB_GC_GUARD(text);
	return Qnil;
}

const char *builtin_describe(VALUE exception, char *buffer, size_t size)
{
	struct description description = {exception, buffer, size};
	VALUE error = rb_errinfo();
	int failed = 0;

	buffer[0] = '\0';
	rb_protect(describe, (VALUE)&description, &failed);
	exception_drop(error);
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

VALUE builtin_instruction_sequence(void)
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
	VALUE class = rb_class_of(builtin_instruction_sequence());

	if (rb_method_basic_definition_p(class, rb_intern("of")))
		return;
	rb_exc_raise(builtin_exception(rb_eRuntimeError, instructions_of_overridden));
}

void builtin_enable_for(VALUE tracepoint, VALUE target)
{
	VALUE options = rb_hash_new();

	check_instructions_of();
	rb_hash_aset(options, ID2SYM(rb_intern("target")), target);
	builtin_call_keywords(BUILTIN_TRACEPOINT_ENABLE, tracepoint, 1, &options);
	RB_GC_GUARD(options);
}

void builtin_enable_for_line(VALUE tracepoint, VALUE code, uint32_t line)
{
	VALUE options = rb_hash_new();

	check_instructions_of();
	rb_hash_aset(options, ID2SYM(rb_intern("target")), code);
	rb_hash_aset(options, ID2SYM(rb_intern("target_line")), UINT2NUM(line));
	builtin_call_keywords(BUILTIN_TRACEPOINT_ENABLE, tracepoint, 1, &options);
	RB_GC_GUARD(options);
}

VALUE builtin_scratch_module(void)
{
	VALUE module = own_module_new();

	/* The first is told of itself, too. */
	rb_define_singleton_method(module, "singleton_method_added", added_ignore, 1);
	rb_define_singleton_method(module, "method_added", added_ignore, 1);
	return module;
}

void builtin_define_method(VALUE module, const char *name, VALUE lambda)
{
	VALUE arguments[] = {ID2SYM(rb_intern(name)), lambda};

	builtin_call(BUILTIN_MODULE_DEFINE_METHOD, module, 2, arguments);
}

VALUE builtin_find_method(VALUE module, const char *name)
{
	return builtin_call1(BUILTIN_MODULE_INSTANCE_METHOD, module, ID2SYM(rb_intern(name)));
}

/* The VM has been seen to name the same next method for ever: so there is an end to the asking. */
#define SUPER_METHODS_MAX 10000

VALUE builtin_own_method(VALUE module, VALUE name)
{
	VALUE first = builtin_call1(BUILTIN_MODULE_INSTANCE_METHOD, module, name), method = first;

	for (int steps = 0; !NIL_P(method) && steps < SUPER_METHODS_MAX; steps++) {
		if (builtin_call0(BUILTIN_UNBOUND_METHOD_OWNER, method) == module)
			return method;
		method = builtin_call0(BUILTIN_UNBOUND_METHOD_SUPER_METHOD, method);
	}
	return first;
}

VALUE builtin_call_own(VALUE object, const char *name, int argc, const VALUE *argv)
{
	return rb_funcallv(object, rb_intern(name), argc, argv);
}
