#ifndef RBPROBE_BUILTIN_METHODS_H
#define RBPROBE_BUILTIN_METHODS_H

#include "tracee/vm/builtin_table.h"

#include <ruby.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Ruby's own implementation of the methods in builtin_table.h, whatever the application did to them: Module#name is a favourite
 * to be overridden. They are taken once and called on any receiver, so no application code runs. Nothing else in the extension
 * calls a Ruby method by its name (`make lint` says so): but for methods of our own, and by builtin_ask(). Job or event context,
 * GVL held; may raise, so callers are under rb_protect.
 */
enum builtin_method {
#define BUILTIN_NAME(name, class_name, method_name, flags) BUILTIN_##name,
	BUILTIN_TABLE(BUILTIN_NAME)
#undef BUILTIN_NAME
		BUILTIN_COUNT,
};

enum builtin_flag {
	BUILTIN_SINGLETON = 1,
	BUILTIN_OWN_FRAME = 2,
	BUILTIN_NOT_EVERYWHERE = 4,
	BUILTIN_LIBRARY = 8, /* comes with a library that may be loaded later; found when it is first called */
};

/*
 * Where the application was first, Ruby's own is looked for under an alias and behind prepended modules. Where it is gone, what
 * needs it fails with an error that names the method. builtin_begin() takes what an interrupt could hurt otherwise, and runs no
 * Ruby code; builtin_init() takes the rest. Both raise nothing.
 */
void builtin_begin(void);
void builtin_init(void);

/* Whether this Ruby has such a method. One that the application took away counts as had: to call it tells. */
bool builtin_has(enum builtin_method method);

/* Whether it can be called: Ruby's own was found. */
bool builtin_is_found(enum builtin_method method);

/* As an UnboundMethod. May raise. */
VALUE builtin_method(enum builtin_method method);

/* NULL: it can be called. Else why it cannot, until the next call of this; builtin_lack_text: it may be found later. */
extern const char builtin_lack_text[];
const char *builtin_missing(enum builtin_method method);

/* What a call failed with because of that, the first time; NULL: none did. */
const char *builtin_missed(void);

VALUE builtin_call(enum builtin_method method, VALUE receiver, int argc, const VALUE *argv);
VALUE builtin_call0(enum builtin_method method, VALUE receiver);
VALUE builtin_call1(enum builtin_method method, VALUE receiver, VALUE argument);

/* With a block: a Proc, or a C function and its data. */
VALUE builtin_call_with(enum builtin_method method, VALUE receiver, int argc, const VALUE *argv, VALUE block);
/*
 * A block for builtin_call_with(), to be kept and used again and again. Qnil where builtin_init() has not been, or could not make
 * frames of its own.
 */
VALUE builtin_block(rb_block_call_func_t function);
VALUE builtin_iterate(enum builtin_method method, VALUE receiver, int argc, const VALUE *argv, rb_block_call_func_t function,
                      VALUE data);

/* The same with keywords, which the last argument holds. */
VALUE builtin_call_keywords(enum builtin_method method, VALUE receiver, int argc, const VALUE *argv);

/* One of them for one receiver, so that rb_method_call_with_block() calls it without a frame in between. */
VALUE builtin_bind(enum builtin_method method, VALUE receiver);

/* For calling a method of ours again and again: what rb_method_call_with_block() takes, the receiver coming first. */
VALUE builtin_caller(VALUE unbound_method);

/* As Ruby dispatches it: what the application wants to be asked by this name. */
VALUE builtin_ask(VALUE object, const char *name);
VALUE builtin_ask_keywords(VALUE object, const char *name, VALUE keywords);
bool builtin_is_answered(VALUE object, const char *name);

/* Without its initialize, which may be the application's. May raise: NoMemoryError. */
VALUE builtin_exception(VALUE class, const char *message);

/*
 * What unwinds a frame (`$!`) may also be a throw, an internal object without a class, or a number: the thread is being killed.
 * Any context with the GVL.
 */
bool builtin_is_exception(VALUE error);

/*
 * Whether what an exception was raised with is not yet what it says: an UncaughtThrowError keeps "uncaught throw %p", and its
 * to_s fills in the tag, by the tag's inspect. Any context with the GVL.
 */
bool builtin_message_lacks_tag(VALUE exception, VALUE message);

/* What an exception says, without asking the application: as a String, or nil where there is nothing to say. May raise. */
VALUE builtin_message(VALUE exception);

/* As builtin_message(), into a buffer: "an exception" where that is all there is to say. Never raises. Returns the buffer. */
const char *builtin_describe(VALUE exception, char *buffer, size_t size);

/* RubyVM::InstructionSequence. Job context. */
VALUE builtin_instruction_sequence(void);

/*
 * Enables a TracePoint for one method or Proc, which no function of the C API does. Raises ArgumentError where that has no
 * events.
 */
void builtin_enable_for(VALUE tracepoint, VALUE target);
/* The same for a line of an InstructionSequence, and of what is written within it. */
void builtin_enable_for_line(VALUE tracepoint, VALUE code, uint32_t line);

/*
 * The value of Ruby code of our own, named "(rbprobe)", which runs as a program of its own: its outer scope is the top level, and
 * its compile options are fixed, whatever RubyVM::InstructionSequence.compile_option says.
 * rb_eval_string() would take the method that the job has interrupted for that: a closure made there moves that method's
 * variables to the heap, and as the block that jobs run in is not told, the next one that is made in it crashes the VM (seen on
 * 3.1). Job context; may raise.
 */
VALUE builtin_run(const char *source);

/* The same where the code's value is a lambda, or another Proc. Raises if it is none. */
VALUE builtin_lambda(const char *source);

/*
 * An anonymous module for methods of our own, to try something on: no method_added of the application's hears of them. Job
 * context; may raise.
 */
VALUE builtin_scratch_module(void);

/* A method of our own in such a module, or of an object extended by one. The block is a lambda. */
void builtin_define_method(VALUE module, const char *name, VALUE lambda);
VALUE builtin_find_method(VALUE module, const char *name);

/*
 * The module's own method, also where a prepended module has one of that name, which a call finds first. That one where the
 * module has none.
 */
VALUE builtin_own_method(VALUE module, VALUE name);
VALUE builtin_call_own(VALUE object, const char *name, int argc, const VALUE *argv);

#endif
