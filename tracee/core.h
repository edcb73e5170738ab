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
	CORE_THREAD_NAME,
	CORE_FIBER_TO_S,
	/* Not in every Ruby: core_method() is Qnil there. */
	CORE_GC_STAT_HEAP,
	CORE_GC_TOTAL_TIME,
	CORE_GC_MEASURE_TOTAL_TIME,
	CORE_COUNT,
};

void core_init(void);
VALUE core_method(enum core_method method);
VALUE core_call(enum core_method method, VALUE receiver, int argc, const VALUE *argv);
VALUE core_call0(enum core_method method, VALUE receiver);

#endif
