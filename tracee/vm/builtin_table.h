#ifndef RBPROBE_BUILTIN_TABLE_H
#define RBPROBE_BUILTIN_TABLE_H

/*
 * The one table of Ruby's methods that we call: name here, class, method, and what is special about it.
 * tests/live/overrides_test.rb reads it, too, and overrides each in turn.
 *
 * SINGLETON: a method of the class or module itself. NOT_EVERYWHERE: this Ruby may have none. OWN_FRAME: see builtin_methods.c.
 */
#define BUILTIN_TABLE(METHOD)                                                                                                    \
	METHOD(MODULE_TO_S, "Module", "to_s", 0)                                                                                 \
	METHOD(MODULE_INSTANCE_METHOD, "Module", "instance_method", BUILTIN_OWN_FRAME)                                           \
	METHOD(MODULE_METHOD_DEFINED, "Module", "method_defined?", 0)                                                            \
	METHOD(MODULE_PRIVATE_METHOD_DEFINED, "Module", "private_method_defined?", 0)                                            \
	METHOD(MODULE_PROTECTED_METHOD_DEFINED, "Module", "protected_method_defined?", 0)                                        \
	METHOD(MODULE_PUBLIC, "Module", "public", 0)                                                                             \
	METHOD(MODULE_PROTECTED, "Module", "protected", 0)                                                                       \
	METHOD(MODULE_PRIVATE, "Module", "private", 0)                                                                           \
	METHOD(MODULE_SINGLETON_CLASS_P, "Module", "singleton_class?", 0)                                                        \
	METHOD(MODULE_MODULE_EVAL, "Module", "module_eval", BUILTIN_OWN_FRAME)                                                   \
	METHOD(MODULE_DEFINE_METHOD, "Module", "define_method", BUILTIN_OWN_FRAME)                                               \
	METHOD(MODULE_MODULE_EXEC, "Module", "module_exec", 0)                                                                   \
	METHOD(KERNEL_CALLER_LOCATIONS, "Kernel", "caller_locations", 0)                                                         \
	METHOD(KERNEL_METHODS, "Kernel", "methods", 0)                                                                           \
	METHOD(KERNEL_PRIVATE_METHODS, "Kernel", "private_methods", 0)                                                           \
	METHOD(BASIC_OBJECT_INSTANCE_EXEC, "BasicObject", "instance_exec", 0)                                                    \
	METHOD(BINDING_EVAL, "Binding", "eval", 0)                                                                               \
	METHOD(BINDING_DUP, "Binding", "dup", 0)                                                                                 \
	METHOD(BINDING_RECEIVER, "Binding", "receiver", 0)                                                                       \
	METHOD(BINDING_LOCAL_VARIABLES, "Binding", "local_variables", 0)                                                         \
	METHOD(BINDING_LOCAL_VARIABLE_GET, "Binding", "local_variable_get", 0)                                                   \
	METHOD(BINDING_LOCAL_VARIABLE_SET, "Binding", "local_variable_set", 0)                                                   \
	METHOD(BINDING_LOCAL_VARIABLE_DEFINED_P, "Binding", "local_variable_defined?", 0)                                        \
	METHOD(PROC_BINDING, "Proc", "binding", 0)                                                                               \
	METHOD(PROC_SOURCE_LOCATION, "Proc", "source_location", 0)                                                               \
	METHOD(UNBOUND_METHOD_BIND, "UnboundMethod", "bind", 0)                                                                  \
	METHOD(UNBOUND_METHOD_BIND_CALL, "UnboundMethod", "bind_call", 0)                                                        \
	METHOD(UNBOUND_METHOD_SOURCE_LOCATION, "UnboundMethod", "source_location", 0)                                            \
	METHOD(UNBOUND_METHOD_OWNER, "UnboundMethod", "owner", 0)                                                                \
	METHOD(UNBOUND_METHOD_NAME, "UnboundMethod", "name", 0)                                                                  \
	METHOD(UNBOUND_METHOD_ORIGINAL_NAME, "UnboundMethod", "original_name", 0)                                                \
	METHOD(UNBOUND_METHOD_ARITY, "UnboundMethod", "arity", 0)                                                                \
	METHOD(UNBOUND_METHOD_PARAMETERS, "UnboundMethod", "parameters", 0)                                                      \
	METHOD(UNBOUND_METHOD_SUPER_METHOD, "UnboundMethod", "super_method", BUILTIN_OWN_FRAME)                                  \
	METHOD(NAME_ERROR_RECEIVER, "NameError", "receiver", 0)                                                                  \
	METHOD(UNCAUGHT_THROW_ERROR_TAG, "UncaughtThrowError", "tag", 0)                                                         \
	METHOD(METHOD_TO_PROC, "Method", "to_proc", 0)                                                                           \
	METHOD(METHOD_OWNER, "Method", "owner", 0)                                                                               \
	METHOD(METHOD_NAME, "Method", "name", 0)                                                                                 \
	METHOD(METHOD_SOURCE_LOCATION, "Method", "source_location", 0)                                                           \
	METHOD(TIME_UTC_P, "Time", "utc?", 0)                                                                                    \
	METHOD(TIME_INITIALIZE_COPY, "Time", "initialize_copy", 0)                                                               \
	METHOD(DATE_ISO8601, "Date", "iso8601", BUILTIN_LIBRARY)                                                                 \
	METHOD(DATE_RFC3339, "Date", "rfc3339", BUILTIN_LIBRARY)                                                                 \
	METHOD(BIG_DECIMAL_INSPECT, "BigDecimal", "inspect", BUILTIN_LIBRARY)                                                    \
	METHOD(IO_INSPECT, "IO", "inspect", 0)                                                                                   \
	METHOD(IO_SYSREAD, "IO", "sysread", 0)                                                                                   \
	METHOD(IO_SYSWRITE, "IO", "syswrite", 0)                                                                                 \
	METHOD(HASH_COMPARE_BY_IDENTITY, "Hash", "compare_by_identity", 0)                                                       \
	METHOD(THREAD_HANDLE_INTERRUPT, "Thread", "handle_interrupt", BUILTIN_SINGLETON)                                         \
	METHOD(THREAD_PENDING_INTERRUPT_P, "Thread", "pending_interrupt?", BUILTIN_SINGLETON)                                    \
	METHOD(THREAD_LIST, "Thread", "list", BUILTIN_SINGLETON)                                                                 \
	METHOD(THREAD_NAME, "Thread", "name", 0)                                                                                 \
	METHOD(THREAD_SET_NAME, "Thread", "name=", 0)                                                                            \
	METHOD(THREAD_STATUS, "Thread", "status", 0)                                                                             \
	METHOD(THREAD_TO_S, "Thread", "to_s", 0)                                                                                 \
	METHOD(THREAD_PRIORITY, "Thread", "priority", 0)                                                                         \
	METHOD(THREAD_SET_PRIORITY, "Thread", "priority=", 0)                                                                    \
	METHOD(THREAD_GROUP, "Thread", "group", 0)                                                                               \
	METHOD(THREAD_KEYS, "Thread", "keys", 0)                                                                                 \
	METHOD(THREAD_VARIABLES, "Thread", "thread_variables", 0)                                                                \
	METHOD(THREAD_VARIABLE_GET, "Thread", "thread_variable_get", 0)                                                          \
	METHOD(THREAD_VARIABLE_SET, "Thread", "thread_variable_set", 0)                                                          \
	METHOD(THREAD_LOCATIONS, "Thread", "backtrace_locations", 0)                                                             \
	METHOD(THREAD_NATIVE_ID, "Thread", "native_thread_id", BUILTIN_NOT_EVERYWHERE)                                           \
	METHOD(THREAD_SET_REPORT, "Thread", "report_on_exception=", 0)                                                           \
	METHOD(THREAD_SET_ABORT, "Thread", "abort_on_exception=", 0)                                                             \
	METHOD(THREAD_ALIVE_P, "Thread", "alive?", 0)                                                                            \
	METHOD(THREAD_RAISE, "Thread", "raise", 0)                                                                               \
	METHOD(THREAD_KILL, "Thread", "kill", 0)                                                                                 \
	METHOD(THREAD_JOIN, "Thread", "join", 0)                                                                                 \
	METHOD(THREAD_GROUP_ADD, "ThreadGroup", "add", 0)                                                                        \
	METHOD(THREAD_GROUP_LIST, "ThreadGroup", "list", 0)                                                                      \
	METHOD(LOCATION_PATH, "Thread::Backtrace::Location", "path", 0)                                                          \
	METHOD(LOCATION_LINE, "Thread::Backtrace::Location", "lineno", 0)                                                        \
	METHOD(LOCATION_LABEL, "Thread::Backtrace::Location", "label", 0)                                                        \
	METHOD(LOCATION_BASE_LABEL, "Thread::Backtrace::Location", "base_label", 0)                                              \
	METHOD(EACH_OBJECT, "ObjectSpace", "each_object", BUILTIN_SINGLETON)                                                     \
	METHOD(SIGNAL_TRAP, "Signal", "trap", BUILTIN_SINGLETON)                                                                 \
	METHOD(TRACEPOINT_ENABLE, "TracePoint", "enable", 0)                                                                     \
	METHOD(TRACEPOINT_CODE, "TracePoint", "instruction_sequence", 0)                                                         \
	METHOD(TRACEPOINT_EVAL_SCRIPT, "TracePoint", "eval_script", 0)                                                           \
	METHOD(EXCEPTION_TO_S, "Exception", "to_s", 0)                                                                           \
	METHOD(ISEQ_COMPILE, "RubyVM::InstructionSequence", "compile", BUILTIN_SINGLETON)                                        \
	METHOD(ISEQ_OF, "RubyVM::InstructionSequence", "of", BUILTIN_SINGLETON)                                                  \
	METHOD(ISEQ_EVAL, "RubyVM::InstructionSequence", "eval", 0)                                                              \
	METHOD(ISEQ_LABEL, "RubyVM::InstructionSequence", "label", 0)                                                            \
	METHOD(ISEQ_TO_A, "RubyVM::InstructionSequence", "to_a", 0)                                                              \
	METHOD(ISEQ_DISASM, "RubyVM::InstructionSequence", "disasm", 0)                                                          \
	METHOD(ISEQ_EACH_CHILD, "RubyVM::InstructionSequence", "each_child", 0)                                                  \
	METHOD(ISEQ_TRACE_POINTS, "RubyVM::InstructionSequence", "trace_points", 0)                                              \
	METHOD(ISEQ_PATH, "RubyVM::InstructionSequence", "path", 0)                                                              \
	METHOD(ISEQ_ABSOLUTE_PATH, "RubyVM::InstructionSequence", "absolute_path", 0)                                            \
	METHOD(YJIT_ENABLED_P, "RubyVM::YJIT", "enabled?", BUILTIN_SINGLETON | BUILTIN_NOT_EVERYWHERE)                           \
	METHOD(ZJIT_ENABLED_P, "RubyVM::ZJIT", "enabled?", BUILTIN_SINGLETON | BUILTIN_NOT_EVERYWHERE)                           \
	METHOD(RJIT_ENABLED_P, "RubyVM::RJIT", "enabled?", BUILTIN_SINGLETON | BUILTIN_NOT_EVERYWHERE)                           \
	METHOD(FIBER_TO_S, "Fiber", "to_s", 0)                                                                                   \
	METHOD(FIBER_LOCATIONS, "Fiber", "backtrace_locations", BUILTIN_NOT_EVERYWHERE)                                          \
	METHOD(RACTOR_COUNT, "Ractor", "count", BUILTIN_SINGLETON | BUILTIN_NOT_EVERYWHERE)                                      \
	METHOD(GC_STRESS, "GC", "stress", BUILTIN_SINGLETON)                                                                     \
	METHOD(GC_STAT_HEAP, "GC", "stat_heap", BUILTIN_SINGLETON | BUILTIN_NOT_EVERYWHERE)                                      \
	METHOD(GC_TOTAL_TIME, "GC", "total_time", BUILTIN_SINGLETON | BUILTIN_NOT_EVERYWHERE)                                    \
	METHOD(GC_MEASURE_TOTAL_TIME, "GC", "measure_total_time", BUILTIN_SINGLETON | BUILTIN_NOT_EVERYWHERE)                    \
	METHOD(OBJSPACE_START, "ObjectSpace", "trace_object_allocations_start", BUILTIN_SINGLETON | BUILTIN_LIBRARY)             \
	METHOD(OBJSPACE_STOP, "ObjectSpace", "trace_object_allocations_stop", BUILTIN_SINGLETON | BUILTIN_LIBRARY)               \
	METHOD(OBJSPACE_CLEAR, "ObjectSpace", "trace_object_allocations_clear", BUILTIN_SINGLETON | BUILTIN_LIBRARY)             \
	METHOD(OBJSPACE_GENERATION, "ObjectSpace", "allocation_generation", BUILTIN_SINGLETON | BUILTIN_LIBRARY)                 \
	METHOD(OBJSPACE_DUMP_ALL, "ObjectSpace", "dump_all", BUILTIN_SINGLETON | BUILTIN_LIBRARY)                                \
	METHOD(OBJSPACE_DUMP_ALL_RAW, "ObjectSpace", "_dump_all", BUILTIN_SINGLETON | BUILTIN_LIBRARY)

#endif
