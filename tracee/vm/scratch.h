#ifndef RBPROBE_SCRATCH_H
#define RBPROBE_SCRATCH_H

#include "tracee/vm/quiet.h"

#include <ruby.h>
#include <ruby/debug.h>
#include <stddef.h>

/*
 * Scratch methods: methods of our own, on which we try what the VM does before we touch a method of the application. This is the
 * only harness for that: layouts of the VM, the calibration of frames, engine patch's self-test and `selftest` use it.
 *
 * The methods are in an anonymous module, whose method_added the application does not have. Nothing names it: when the trial is
 * over, the GC takes it. Job context, GVL held, under rb_protect. All functions may raise.
 */

/* Only to be had on the machine stack: there the GC sees the VALUEs and does not move their objects. */
struct scratch {
	VALUE module;
	VALUE object; /* extended by the module */
};

void scratch_make(struct scratch *scratch);

/* Runs a lambda in the module, so that what it defines is defined there. Returns its value. */
VALUE scratch_exec(const struct scratch *scratch, VALUE lambda);
/* The same for the source of one. */
VALUE scratch_run(const struct scratch *scratch, const char *lambda_source);
void scratch_define_block(const struct scratch *scratch, const char *name, VALUE lambda);
/* rb_define_method(), with the type of function that it takes of C. */
void scratch_define_c(const struct scratch *scratch, const char *name, VALUE (*function)(VALUE), int arity);
/* As an UnboundMethod. */
VALUE scratch_method(const struct scratch *scratch, const char *name);
VALUE scratch_call(const struct scratch *scratch, const char *name, int argc, const VALUE *argv);

/* Running something while TracePoints are on. Designated initialisers leave the rest 0. */
#define SCRATCH_TARGETS 2

struct scratch_watch {
	rb_event_flag_t events;
	/* The TracePoints' own callback. The VM calls it with nothing in between: the callback may look at the stack above it. */
	void (*event)(VALUE tracepoint, void *nothing);
	/* Methods or Procs, a TracePoint for each; none: one for everything. */
	VALUE targets[SCRATCH_TARGETS];
	VALUE (*run)(VALUE argument);
	VALUE argument;
	void *data; /* for the callback: scratch_watched() */

	/* Filled in by scratch_watch(). */
	VALUE tracepoints[SCRATCH_TARGETS];
	struct quiet heard;
	struct scratch_watch *next;
};

/*
 * Returns what run() returns, or raises what it raises; the TracePoints are off by then. Only meanwhile do hooks hear what this
 * fiber calls: no hook of the application's may be on (foreign_hooks_on()). A TracePoint for everything makes the VM rewrite all
 * instructions, unless the caller is under engine_hook_protect().
 */
VALUE scratch_watch(struct scratch_watch *watch);

/* The watch's data; NULL: it is over, and somebody has found its TracePoint in ObjectSpace. Event context. */
void *scratch_watched(VALUE tracepoint);

#endif
