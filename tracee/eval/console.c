/*
 * What a console session keeps, and the request that changes its self. See console.h. Context: job; console_set_subject() also
 * the thread that runs a line; GVL held.
 *
 * How self is changed with all local variables in sight: a block that is compiled in the binding where we are runs with the
 * object as self, and its own binding is the new one. For a module the string form of module_eval then adds its constants and
 * makes `def` define its methods.
 */

#include "tracee/eval/console.h"

#include "tracee/session/request.h"
#include "tracee/session/ruby_msgpack.h"
#include "tracee/session/session.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/capture.h"
#include "tracee/vm/class_name.h"

#include <errno.h>
#include <stdlib.h>

#define FILE_NAME "(rbprobe)"
#define DESCRIPTION_SIZE 256
#define STRING_SHOWN_MAX 40 /* bytes of a string that the prompt shows as it is */

struct console {
	VALUE bindings; /* Array; the last is where we are */
	VALUE subject;
};

static VALUE evaluate(VALUE binding, const char *code)
{
	VALUE arguments[] = {rb_str_new_cstr(code), rb_str_new_cstr(FILE_NAME)};

	return builtin_call(BUILTIN_BINDING_EVAL, binding, 2, arguments);
}

static VALUE top_binding(void)
{
	return builtin_call0(BUILTIN_BINDING_DUP, rb_const_get(rb_cObject, rb_intern("TOPLEVEL_BINDING")));
}

static struct console *console_of(struct session *session)
{
	struct console *console = session->console;
	VALUE bindings;

	if (console)
		return console;
	bindings = rb_ary_new_from_args(1, top_binding());
	console = calloc(1, sizeof(*console));
	if (!console)
		rb_raise(rb_eNoMemError, "no memory for a console");
	console->subject = Qundef;
	rb_gc_register_address(&console->subject);
	rb_gc_register_address(&console->bindings);
	console->bindings = bindings;
	RB_GC_GUARD(bindings); /* until here: registering allocates, and may collect */
	session->console = console;
	return console;
}

VALUE console_binding(struct session *session)
{
	VALUE bindings = console_of(session)->bindings;

	return rb_ary_entry(bindings, RARRAY_LEN(bindings) - 1);
}

void console_set_subject(struct session *session, VALUE subject)
{
	console_of(session)->subject = subject;
}

VALUE console_subject(const struct session *session)
{
	return session->console ? session->console->subject : Qundef;
}

static void release(struct session *session)
{
	struct console *console = session->console;

	if (!console)
		return;
	session->console = NULL;
	rb_gc_unregister_address(&console->bindings);
	rb_gc_unregister_address(&console->subject);
	free(console);
}

const struct session_part console_part = {.release = release};

static bool is_simple(VALUE object)
{
	return RB_SPECIAL_CONST_P(object) || RB_FLOAT_TYPE_P(object) || RB_TYPE_P(object, T_SYMBOL) ||
	       RB_TYPE_P(object, T_BIGNUM) ||
	       (RB_TYPE_P(object, T_STRING) && rb_obj_class(object) == rb_cString && RSTRING_LEN(object) <= STRING_SHOWN_MAX);
}

VALUE console_describe(VALUE object)
{
	char bytes[DESCRIPTION_SIZE];
	struct text text = {.bytes = bytes, .size = sizeof(bytes)};
	const struct trace_options options = {.value_size = DESCRIPTION_SIZE, .value_depth = 1, .value_length = 1};

	if (object == builtin_call0(BUILTIN_BINDING_RECEIVER, rb_const_get(rb_cObject, rb_intern("TOPLEVEL_BINDING")))) {
		text_append_cstr(&text, "main");
	} else if (is_simple(object)) {
		capture_value(&text, object, &options);
	} else if (RB_TYPE_P(object, T_CLASS) || RB_TYPE_P(object, T_MODULE)) {
		class_name_add(&text, object);
	} else {
		text_append_cstr(&text, "#<");
		class_name_add(&text, rb_obj_class(object));
		text_printf(&text, ":0x%llx>", (unsigned long long)object);
	}
	return rb_utf8_str_new(bytes, (long)text.used);
}

static VALUE binding_within(VALUE binding, VALUE object)
{
	VALUE block = evaluate(binding, "proc { ::Kernel.binding }");
	bool is_module = RB_TYPE_P(object, T_CLASS) || RB_TYPE_P(object, T_MODULE);
	enum builtin_method method = is_module ? BUILTIN_MODULE_MODULE_EXEC : BUILTIN_BASIC_OBJECT_INSTANCE_EXEC;

	binding = builtin_call_with(method, object, 0, NULL, block);
	if (!is_module)
		return binding;
	return evaluate(binding, "::Module.instance_method(:module_eval).bind_call(self, '::Kernel.binding', '" FILE_NAME "')");
}

static void enter(VALUE bindings, VALUE object)
{
	rb_ary_push(bindings, binding_within(rb_ary_entry(bindings, RARRAY_LEN(bindings) - 1), object));
}

/* ENTER: `cd`, and where we are. */
static void enter_begin(struct request *request, const struct command *command)
{
	struct console *console = console_of(request->session);
	uint32_t flags = command->arguments.flags;
	VALUE answer;

	if (flags & ENTER_SUBJECT) {
		if (console->subject == Qundef) {
			request_finish(request, EINVAL, "there is no object to enter");
			return;
		}
		enter(console->bindings, console->subject);
		console->subject = Qundef;
	}
	while ((flags & (ENTER_UP | ENTER_TOP)) && RARRAY_LEN(console->bindings) > 1) {
		rb_ary_pop(console->bindings);
		if (!(flags & ENTER_TOP))
			break;
	}
	answer = rb_hash_new();
	rb_hash_aset(answer, rb_str_new_cstr("self"),
	             console_describe(builtin_call0(BUILTIN_BINDING_RECEIVER, console_binding(request->session))));
	rb_hash_aset(answer, rb_str_new_cstr("depth"), LONG2FIX(RARRAY_LEN(console->bindings) - 1));
	ruby_msgpack_send(request, answer);
	request_finish(request, 0, "%s", "");
}

const struct request_kind request_enter = {.name = "enter", .begin = enter_begin};
