/* Ruby's own methods, whatever the application did to them. See core.h. */

#include "core.h"

#include <stdbool.h>
#include <string.h>

static const struct {
	const char *class_name;
	const char *method_name;
	bool singleton; /* a method of the class or module itself */
	bool own_frame; /* called below a frame of ours; see below */
} core_names[CORE_COUNT] = {
	[CORE_MODULE_TO_S] = {"Module", "to_s"},
	[CORE_MODULE_INSTANCE_METHOD] = {"Module", "instance_method", .own_frame = true},
	[CORE_MODULE_INSTANCE_METHODS] = {"Module", "instance_methods"},
	[CORE_MODULE_PRIVATE_INSTANCE_METHODS] = {"Module", "private_instance_methods"},
	[CORE_MODULE_METHOD_DEFINED] = {"Module", "method_defined?"},
	[CORE_MODULE_PRIVATE_METHOD_DEFINED] = {"Module", "private_method_defined?"},
	[CORE_MODULE_PROTECTED_METHOD_DEFINED] = {"Module", "protected_method_defined?"},
	[CORE_MODULE_PUBLIC] = {"Module", "public"},
	[CORE_MODULE_PROTECTED] = {"Module", "protected"},
	[CORE_MODULE_PRIVATE] = {"Module", "private"},
	[CORE_MODULE_SINGLETON_CLASS_P] = {"Module", "singleton_class?"},
	[CORE_MODULE_MODULE_EVAL] = {"Module", "module_eval"},
	[CORE_MODULE_DEFINE_METHOD] = {"Module", "define_method"},
	[CORE_MODULE_MODULE_EXEC] = {"Module", "module_exec"},
	[CORE_MODULE_CONSTANTS] = {"Module", "constants"},
	[CORE_MODULE_CLASS_VARIABLES] = {"Module", "class_variables"},
	[CORE_MODULE_ANCESTORS] = {"Module", "ancestors"},
	[CORE_KERNEL_METHODS] = {"Kernel", "methods"},
	[CORE_KERNEL_PRIVATE_METHODS] = {"Kernel", "private_methods"},
	[CORE_KERNEL_INSTANCE_VARIABLES] = {"Kernel", "instance_variables"},
	[CORE_KERNEL_GLOBAL_VARIABLES] = {"Kernel", "global_variables"},
	[CORE_BASIC_OBJECT_INSTANCE_EXEC] = {"BasicObject", "instance_exec"},
	[CORE_BINDING_EVAL] = {"Binding", "eval"},
	[CORE_BINDING_DUP] = {"Binding", "dup"},
	[CORE_BINDING_RECEIVER] = {"Binding", "receiver"},
	[CORE_BINDING_LOCAL_VARIABLES] = {"Binding", "local_variables"},
	[CORE_BINDING_LOCAL_VARIABLE_GET] = {"Binding", "local_variable_get"},
	[CORE_UNBOUND_METHOD_SOURCE_LOCATION] = {"UnboundMethod", "source_location"},
	[CORE_UNBOUND_METHOD_OWNER] = {"UnboundMethod", "owner"},
	[CORE_UNBOUND_METHOD_NAME] = {"UnboundMethod", "name"},
	[CORE_UNBOUND_METHOD_ORIGINAL_NAME] = {"UnboundMethod", "original_name"},
	[CORE_UNBOUND_METHOD_ARITY] = {"UnboundMethod", "arity"},
	[CORE_UNBOUND_METHOD_SUPER_METHOD] = {"UnboundMethod", "super_method", .own_frame = true},
	[CORE_NAME_ERROR_RECEIVER] = {"NameError", "receiver"},
	[CORE_UNCAUGHT_THROW_ERROR_TAG] = {"UncaughtThrowError", "tag"},
	[CORE_ISEQ_TO_A] = {"RubyVM::InstructionSequence", "to_a"},
	[CORE_THREAD_NAME] = {"Thread", "name"},
	[CORE_THREAD_LIST] = {"Thread", "list", .singleton = true},
	[CORE_THREAD_TO_S] = {"Thread", "to_s"},
	[CORE_THREAD_PRIORITY] = {"Thread", "priority"},
	[CORE_THREAD_GROUP] = {"Thread", "group"},
	[CORE_THREAD_KEYS] = {"Thread", "keys"},
	[CORE_THREAD_VARIABLES] = {"Thread", "thread_variables"},
	[CORE_THREAD_VARIABLE_GET] = {"Thread", "thread_variable_get"},
	[CORE_THREAD_LOCATIONS] = {"Thread", "backtrace_locations"},
	[CORE_LOCATION_PATH] = {"Thread::Backtrace::Location", "path"},
	[CORE_LOCATION_LINE] = {"Thread::Backtrace::Location", "lineno"},
	[CORE_LOCATION_LABEL] = {"Thread::Backtrace::Location", "label"},
	[CORE_LOCATION_BASE_LABEL] = {"Thread::Backtrace::Location", "base_label"},
	[CORE_EACH_OBJECT] = {"ObjectSpace", "each_object", .singleton = true},
	[CORE_FIBER_TO_S] = {"Fiber", "to_s"},
	[CORE_GC_STRESS] = {"GC", "stress", .singleton = true},
	[CORE_GC_SET_STRESS] = {"GC", "stress=", .singleton = true},
	[CORE_THREAD_NATIVE_ID] = {"Thread", "native_thread_id"},
	[CORE_FIBER_LOCATIONS] = {"Fiber", "backtrace_locations"},
	[CORE_RACTOR_COUNT] = {"Ractor", "count", .singleton = true},
	[CORE_GC_STAT_HEAP] = {"GC", "stat_heap", .singleton = true},
	[CORE_GC_TOTAL_TIME] = {"GC", "total_time", .singleton = true},
	[CORE_GC_MEASURE_TOTAL_TIME] = {"GC", "measure_total_time", .singleton = true},
};

#define CORE_ARGUMENTS_MAX 8

static VALUE core_methods[CORE_COUNT];
static ID id_bind_call;

/*
 * The frame of ours. instance_method and super_method obey the refinements of the nearest Ruby frame, which in a job is whatever
 * was interrupted. Where that says `using`, String.instance_method(:upcase) is the refinement's, and super_method of a refined
 * method is the same method, for ever (2.7 to 4.0). Code that is compiled at the top level has no refinements: what is called from
 * it finds the class's own method.
 */
static const char frame_source[] = "->(frame, call) { frame.run(call) }";

static struct {
	VALUE lambda, object;
} frame;

struct framed_call {
	VALUE method;
	int argc;
	const VALUE *argv;
};

/* The pointer comes as a Fixnum: it is even. */
static VALUE frame_run(VALUE self, VALUE pointer)
{
	const struct framed_call *call = (const struct framed_call *)(pointer & ~(VALUE)RUBY_FIXNUM_FLAG);

	(void)self;
	return rb_funcallv(call->method, id_bind_call, call->argc, call->argv);
}

static VALUE call_in_own_frame(VALUE method, int argc, const VALUE *argv)
{
	const struct framed_call call = {method, argc, argv};
	VALUE arguments[] = {frame.object, (VALUE)&call | RUBY_FIXNUM_FLAG};

	return rb_proc_call_with_block(frame.lambda, 2, arguments, Qnil);
}

static void frame_init(void)
{
	frame.lambda = frame.object = Qnil;
	rb_gc_register_address(&frame.lambda);
	rb_gc_register_address(&frame.object);
	frame.object = core_scratch_module();
	rb_define_singleton_method(frame.object, "run", frame_run, 1);
	frame.lambda = core_run(frame_source);
}

/*
 * Qnil where this Ruby has none. The C API's ways of asking whether there is one leave an entry in a module's own table, which
 * breaks 4.0: see doc/vm-facts.md.
 */
static VALUE find_core_method(VALUE arguments)
{
	return rb_funcallv(((VALUE *)arguments)[0], rb_intern("instance_method"), 1, (VALUE *)arguments + 1);
}

static VALUE core_method_or_nil(VALUE class, const char *name)
{
	VALUE arguments[] = {class, ID2SYM(rb_intern(name))}, method, error = rb_errinfo();
	int failed = 0;

	method = rb_protect(find_core_method, (VALUE)arguments, &failed);
	if (!failed)
		return method;
	rb_set_errinfo(error);
	return Qnil;
}

void core_init(void)
{
	id_bind_call = rb_intern("bind_call");
	for (int i = 0; i < CORE_COUNT; i++) {
		const char *class_name = core_names[i].class_name;
		VALUE class;

		/* First: registering allocates, and may collect what is not known yet. */
		core_methods[i] = Qnil;
		rb_gc_register_address(&core_methods[i]);
		if (!strchr(class_name, ':') && !rb_const_defined(rb_cObject, rb_intern(class_name)))
			continue;
		class = rb_path2class(class_name);
		if (core_names[i].singleton)
			class = rb_singleton_class(class);
		core_methods[i] = core_method_or_nil(class, core_names[i].method_name);
	}
	frame_init();
}

VALUE core_method(enum core_method method)
{
	return core_methods[method];
}

VALUE core_call(enum core_method method, VALUE receiver, int argc, const VALUE *argv)
{
	VALUE arguments[CORE_ARGUMENTS_MAX + 1] = {receiver};

	for (int i = 0; i < argc && i < CORE_ARGUMENTS_MAX; i++)
		arguments[i + 1] = argv[i];
	if (core_names[method].own_frame)
		return call_in_own_frame(core_methods[method], argc + 1, arguments);
	return rb_funcallv(core_methods[method], id_bind_call, argc + 1, arguments);
}

VALUE core_call0(enum core_method method, VALUE receiver)
{
	return core_call(method, receiver, 0, NULL);
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

void core_enable_for(VALUE tracepoint, VALUE target)
{
	VALUE options = rb_hash_new();

	rb_hash_aset(options, ID2SYM(rb_intern("target")), target);
	rb_funcallv_kw(tracepoint, rb_intern("enable"), 1, &options, RB_PASS_KEYWORDS);
	RB_GC_GUARD(options);
}

VALUE core_run(const char *source)
{
	VALUE iseq = rb_funcall(core_instruction_sequence(), rb_intern("compile"), 2, rb_str_new_cstr(source),
	                        rb_str_new_cstr("(rbprobe)"));

	return rb_funcall(iseq, rb_intern("eval"), 0);
}

VALUE core_scratch_module(void)
{
	VALUE module = rb_module_new();

	/* The first is told of itself, too. */
	rb_define_singleton_method(module, "singleton_method_added", added_ignore, 1);
	rb_define_singleton_method(module, "method_added", added_ignore, 1);
	return module;
}
