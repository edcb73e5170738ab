#ifndef RBPROBE_BACKTRACE_NATIVE_H
#define RBPROBE_BACKTRACE_NATIVE_H

#include "proto/clock.h"
#include "tracer/attach/stuck.h"
#include "tracer/backtrace/native_stack.h"
#include "tracer/base/buffer.h"
#include "tracer/process/target.h"

#include <stdbool.h>
#include <stdint.h>

/* Native stacks in backtraces, and what is said of a process whose VM is stuck. */

#define NATIVE_BUDGET_NS (5 * NS_PER_S) /* for all threads of a process */

/* The line about a thread that is none of Ruby's, or not known to be. */
void native_heading_text(struct buffer *buffer, const struct native_thread *thread);
/* A thread's frames, one a line, marked as native; or as JSON: the elements of an array. */
void native_frames_text(struct buffer *buffer, const struct native_thread *thread);
void native_thread_json(struct buffer *buffer, int pid, const struct native_thread *thread);

/*
 * Everything that can be had of a process whose VM has reached no safe point for waited_ns: the Ruby frames of the
 * thread with the GVL, the native stacks of all, and what it is in. False: nothing at all could be had. What could not
 * is said on standard error.
 */
bool stuck_write(struct buffer *buffer, const struct target *target, uint64_t waited_ns, bool json);

#endif
