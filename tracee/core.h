#ifndef RBPROBE_CORE_H
#define RBPROBE_CORE_H

#include <ruby.h>

/*
 * Ruby's own implementation of methods that an application may have overridden: Module#name is a favourite. They are kept
 * as UnboundMethods and called on any receiver, so no application code runs. Job or event context, GVL held; may raise, so
 * callers are under rb_protect.
 */
enum core_method {
	CORE_MODULE_TO_S,
	CORE_MODULE_INSTANCE_METHOD,
	CORE_MODULE_INSTANCE_METHODS,
	CORE_MODULE_PRIVATE_INSTANCE_METHODS,
	CORE_MODULE_METHOD_DEFINED,
	CORE_MODULE_PRIVATE_METHOD_DEFINED,
	CORE_MODULE_PROTECTED_METHOD_DEFINED,
	CORE_MODULE_PUBLIC,
	CORE_MODULE_PROTECTED,
	CORE_MODULE_PRIVATE,
	CORE_MODULE_SINGLETON_CLASS_P,
	CORE_MODULE_MODULE_EVAL,
	CORE_MODULE_DEFINE_METHOD,
	CORE_MODULE_MODULE_EXEC,
	CORE_MODULE_CONSTANTS,
	CORE_MODULE_CLASS_VARIABLES,
	CORE_MODULE_ANCESTORS,
	CORE_KERNEL_METHODS,
	CORE_KERNEL_PRIVATE_METHODS,
	CORE_KERNEL_INSTANCE_VARIABLES,
	CORE_KERNEL_GLOBAL_VARIABLES,
	CORE_BASIC_OBJECT_INSTANCE_EXEC,
	CORE_BINDING_EVAL,
	CORE_BINDING_DUP,
	CORE_BINDING_RECEIVER,
	CORE_BINDING_LOCAL_VARIABLES,
	CORE_BINDING_LOCAL_VARIABLE_GET,
	CORE_UNBOUND_METHOD_SOURCE_LOCATION,
	CORE_UNBOUND_METHOD_OWNER,
	CORE_UNBOUND_METHOD_NAME,
	CORE_UNBOUND_METHOD_ORIGINAL_NAME,
	CORE_UNBOUND_METHOD_ARITY,
	CORE_UNBOUND_METHOD_SUPER_METHOD,
	CORE_NAME_ERROR_RECEIVER,
	CORE_UNCAUGHT_THROW_ERROR_TAG,
	CORE_ISEQ_TO_A,
	CORE_THREAD_NAME,
	CORE_THREAD_LIST,
	CORE_THREAD_TO_S,
	CORE_THREAD_PRIORITY,
	CORE_THREAD_GROUP,
	CORE_THREAD_KEYS,
	CORE_THREAD_VARIABLES,
	CORE_THREAD_VARIABLE_GET,
	CORE_THREAD_LOCATIONS,
	CORE_LOCATION_PATH,
	CORE_LOCATION_LINE,
	CORE_LOCATION_LABEL,
	CORE_LOCATION_BASE_LABEL,
	CORE_EACH_OBJECT,
	CORE_FIBER_TO_S,
	CORE_GC_STRESS,
	CORE_GC_SET_STRESS,
	/* Not in every Ruby: core_method() is Qnil there. */
	CORE_THREAD_NATIVE_ID,
	CORE_FIBER_LOCATIONS,
	CORE_RACTOR_COUNT,
	CORE_GC_STAT_HEAP,
	CORE_GC_TOTAL_TIME,
	CORE_GC_MEASURE_TOTAL_TIME,
	CORE_COUNT,
};

void core_init(void);
VALUE core_method(enum core_method method);
VALUE core_call(enum core_method method, VALUE receiver, int argc, const VALUE *argv);
VALUE core_call0(enum core_method method, VALUE receiver);

/* RubyVM::InstructionSequence. Job context. */
VALUE core_instruction_sequence(void);

/* Enables a TracePoint for one method or Proc, which no function of the C API does. Job context; raises ArgumentError where that has no events. */
void core_enable_for(VALUE tracepoint, VALUE target);

/*
 * The value of Ruby code of our own, named "(rbprobe)", which runs as a program of its own: its outer scope is the top level. rb_eval_string() would take the
 * method that the job has interrupted for that: a closure made there moves that method's variables to the heap, and as the block that jobs run in is not
 * told, the next one that is made in it crashes the VM (seen on 3.1). Job context; may raise.
 */
VALUE core_run(const char *source);

/* An anonymous module for methods of our own, to try something on: no method_added of the application's hears of them. Job context; may raise. */
VALUE core_scratch_module(void);

#endif
