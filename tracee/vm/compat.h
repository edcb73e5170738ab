#ifndef RBPROBE_COMPAT_H
#define RBPROBE_COMPAT_H

#include <ruby.h>

#include <stdbool.h>

/*
 * Everything that differs between Rubies is here and in compat.c, decided by extconf.rb's feature tests; the rest of the
 * extension has no #ifdef about Ruby. Context: the GVL is held, except where a function says otherwise.
 */

/* The postponed job: a function that the VM calls at a safe point, GVL held, once for any number of triggers before. */
void compat_job_register(void (*job)(void *));
/* Any context, the signal handler and threads without the GVL included. Wakes nobody. */
void compat_job_trigger(void);

/*
 * The same for the job that starts the extension in a process that did not require it. These two may be called anywhere: by the
 * loader in a stopped thread, and by threads that Ruby does not know. (Preregistering is lock-free: a compare-and-swap into a
 * table of 32.)
 */
void compat_start_register(void (*job)(void *));
void compat_start_trigger(void);

/*
 * The same for the job that takes a sample of the threads' stacks. Registered by a job, and for good; triggered by any native
 * thread.
 */
void compat_sample_register(void (*job)(void *));
void compat_sample_trigger(void);

/* Whether the caller runs in the main Ractor. Cheap, but not for every event. compat_init() first. */
bool compat_in_main_ractor(void);
/* Makes the extension's methods callable in every Ractor. Before the first is defined. */
void compat_init(void);

/* The object a singleton class belongs to, or Qundef where this Ruby does not tell. */
VALUE compat_attached_object(VALUE singleton_class);

/* A typed data object's data, which since 3.3 may lie within the object. */
void *compat_data(VALUE object);

/*
 * Whether several targeted TracePoints on one define_method method are safe. Before Ruby 3.2 the second replaces the first in the
 * method's definition, and disabling both dereferences NULL (vm_trace.c of 2.7.4 and 3.1.2; a crash was seen on 3.1.2).
 */
bool compat_block_method_shares_hooks(void);

/*
 * Whether the VM calls a C function directly where a method of its own, written in Ruby, does nothing else (vm_insnhelper.c,
 * since 3.3), and whether it says of which methods that is so (in their disassembly, since 3.4).
 */
enum compat_direct_calls { COMPAT_DIRECT_CALLS_NONE, COMPAT_DIRECT_CALLS_UNTOLD, COMPAT_DIRECT_CALLS_TOLD };
enum compat_direct_calls compat_direct_calls(void);

/*
 * To be called after a targeted TracePoint was disabled. Before Ruby 3.2, disabling one on a define_method method takes the
 * method's list of hooks for the global one and leaves the VM believing that no global hook is on: attr_* methods then give no
 * events (seen on 3.1.2).
 */
void compat_restore_global_events(void);

/*
 * Whether a targeted TracePoint may be disabled now. Before Ruby 4.0 its hooks are shared by all Ractors, without a lock: one
 * that another Ractor is just running would be freed under it (a crash seen on 3.1.2). Then it has to stay until there is one
 * Ractor again.
 */
bool compat_target_may_be_disabled(void);

/* Whether disabling a targeted TracePoint takes from global hooks what event_flags_mend() puts back. */
bool compat_target_takes_from_global(void);

/*
 * Whether a targeted TracePoint may be disabled while a global hook runs, in whatever thread. Up to 3.1 the VM looks up the
 * instructions' own hooks before it calls the global ones, and goes on with what it has found: with freed memory, where they were
 * disabled meanwhile (vm_trace() of 3.1.2; a crash seen).
 */
bool compat_target_survives_hooks(void);
/* Whether enabling a targeted TracePoint leaves others alone that are on for the same instructions (see targeted.h). */
bool compat_target_keeps_others(void);

/*
 * Lets the other threads run that wait for the GVL. From 4.0 on rb_thread_schedule() marks its caller as running
 * (thread_sched_yield() in thread_pthread.c), and a sleep that a job has interrupted ends. Leaving the GVL for a moment keeps
 * that mark, and hands the GVL to who waits (before 3.3 it may come straight back). Raises nothing.
 */
void compat_yield(void);

/* Which compiler is at work that keeps the addresses of C functions in its code: MJIT does not. Job context. */
enum compat_compiler { COMPAT_COMPILER_NONE, COMPAT_COMPILER_YJIT, COMPAT_COMPILER_OTHER };
enum compat_compiler compat_compiler(void);

/*
 * Whether code can be made to fire events now. At that YJIT drops all that it has compiled, and where several Ractors run, in
 * which it is just running, the process crashes (seen on 3.4, 4.0 and 4.1 with nothing but TracePoints; not on 3.1). Job context.
 */
bool compat_tracing_is_safe(void);
#define COMPAT_TRACING_UNSAFE "this Ruby crashes where tracing begins while YJIT is at work and several Ractors run"

/*
 * Has YJIT compile everything anew, after hooks or targeted TracePoints were on. Enabling them makes it drop all it has compiled;
 * what it then compiles while C calls are hooked leaves them to the interpreter for good; and what is called seldom while a
 * traced method, uncompiled, is called often, counts as cold (rb_yjit_threshold_hit() in vm.c of 4.0) and is never looked at
 * again. Seen on 4.0: a loop that calls nothing stayed 9 times slower after a targeted TracePoint of another method, a C call
 * twice as slow after a hook. Job context; may raise.
 */
void compat_compile_anew(void);

/*
 * Whether a define_method method's CALL event comes behind the evaluation of its default arguments; up to 3.0 it does not: they
 * are still nil (invoke_bmethod() in vm.c of 2.7.4 and 3.0.5).
 */
bool compat_block_method_defaults(void);

/*
 * Whether a define_method method's frame is still there at its RETURN event; up to 3.0 the VM has popped it, unless it is unwound
 * (invoke_bmethod() in vm.c of 2.7.4 and 3.0.6), and the event's frame is the caller's.
 */
bool compat_block_method_frame_stays(void);

/*
 * Whether instructions that stand for calls, such as that of Integer#+, give C_CALL events (compile.c of 3.1.2 marks them for
 * that); on 2.7 and 3.0 they do not.
 */
bool compat_instruction_events(void);

/* Whether calls of attr_reader and attr_writer methods give C_CALL events; on 2.7 they do not. */
bool compat_attribute_events(void);

/*
 * Whether calls of the accessors of a Struct give C_CALL events; on 3.1 and 3.2, where the VM does their work by itself, they do
 * not (vm_insnhelper.c).
 */
bool compat_struct_events(void);

/*
 * Walks over the heap: calls page() for each of its pages with the first slot, the end, and the distance between slots, until it
 * returns other than 0. It may allocate nothing of Ruby's. Garbage that no GC has found yet is there, too. False: this Ruby has
 * no such function.
 */
bool compat_each_page(int (*page)(void *start, void *end, size_t stride, void *data), void *data);

/* How many bytes the object takes, with what belongs to it alone. 0: not known. */
size_t compat_object_bytes(VALUE object);

/* Whether a slot of a page is free: only this may be asked of a slot that is. */
bool compat_slot_is_free(VALUE slot);

/*
 * A thread's frames as rb_profile_frames() gives those of the current one, innermost first; returns how many, or -1 where they
 * cannot be had. frames must be memory that the GC marks. Runs no code of Ruby's and allocates nothing.
 */
int compat_thread_frames(VALUE thread, int limit, VALUE *frames, int *lines);
/* Whether methods written in C are among them; on 2.7 they are not. */
bool compat_thread_frames_with_c(void);
/*
 * The RubyVM::InstructionSequence of such a frame that is no method's: of the top level, a class body or a block there. Qnil: it
 * is another frame, or this Ruby does not tell. any: some InstructionSequence, to tell by. May raise.
 */
VALUE compat_frame_instructions(VALUE frame, VALUE any);
/* Whether the labels of a backtrace name the class, too: "Order#save". To ask the VM would need a thread with a backtrace. */
bool compat_labels_have_classes(void);
/*
 * Calls each() with every object that this one refers to; a Thread refers to what its stack holds. Nothing of Ruby's may be
 * allocated in it.
 */
void compat_each_reference(VALUE object, void (*each)(VALUE reference, void *data), void *data);
/*
 * The same for what the VM itself and C code refer to, but not for the native stack, which is searched for whatever looks like an
 * object.
 */
void compat_each_root(void (*each)(VALUE reference, void *data), void *data);

/*
 * For a signal handler. Whether it runs on a thread that has the GVL (or waits to get it back), and rb_profile_frames() there
 * tells that thread's own frames.
 */
bool compat_may_look_in_handler(void);
/*
 * The same for a thread that is stopped, whose native stack is in use from stack_low to stack_high: on Ruby 2.7 it can be told
 * there. Async-signal-safe.
 */
bool compat_may_look_stopped(uintptr_t stack_low, uintptr_t stack_high);
/*
 * The frames of a thread other than the running one, while that has the GVL: of the Thread or, before 3.3, of its execution
 * context. To be called in a stopped thread, which takes no signal meanwhile. Nothing of this may be called before
 * compat_may_look_stopped() has said yes.
 */
int compat_stopped_frames(VALUE thread, void *context, int limit, VALUE *frames, int *lines);
/* What the running thread's execution context is, where that has to be known for the above; else NULL. */
void *compat_stopped_context(void);
/* Whether the names of symbols can be looked up without a lock: while there is but one Ractor. */
bool compat_names_need_no_lock(void);

/*
 * Whether there is no Ractor but the main one. A fork would leave behind whatever locks others hold, and stopping them for it is
 * no way: with the VM's own barrier (rb_vm_lock_with_barrier) around the fork, Ruby 4.0.5 with YJIT and two busy Ractors hung now
 * and then. Calls a method of Ruby's.
 */
bool compat_is_only_ractor(void);

/*
 * Whether the VM has made all of its classes. It installs its signal handlers in the middle of that, and runs jobs from then on
 * (inits.c of 2.7 to 3.1: Thread and TracePoint come after Signal); ARGV is defined right after. 3.1 then says that YJIT is on,
 * and runs jobs before it has made YJIT's tables (rb_yjit_init()); RUBY_DESCRIPTION is defined after that. Then the VM defines
 * its methods that are written in Ruby, such as TracePoint#enable, and runs jobs between them (rb_call_builtin_inits() in ruby.c
 * of 2.7 to 4.1; the prelude comes last): what is looked for or tried before would be missing for good. Job.
 */
bool compat_vm_is_ready(void);

/* compat_in_main_ractor(), before compat_init(). */
bool compat_starts_in_main_ractor(void);

/*
 * Whether the VM has a thread of its own that wakes the main one for signals (from 3.3 on), and no timer that goes on meanwhile.
 */
bool compat_timer_thread_wakes(void);

/*
 * Has Ruby collect so much of what C code writes into an IO before it writes it out, where it does that in a buffer of the IO's
 * own: from 3.0 to 3.3 the objspace extension's dump goes through one of 8 KiB. Before and after, it goes through stdio, and this
 * does nothing to it. For an IO that was not written to yet; may raise.
 */
void compat_io_buffer(VALUE io, size_t size);

#endif
