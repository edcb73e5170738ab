#ifndef RBPROBE_NATIVE_STACK_H
#define RBPROBE_NATIVE_STACK_H

#include "tracer/base/buffer.h"
#include "tracer/process/target.h"
#include "tracer/process/tasks.h"

#include "proto/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The native backtraces of a process's threads, taken from outside: what the processor executes, C functions, and none of
 * Ruby's frames. They need no cooperation of the process, so they can be had where Ruby is stuck.
 */

struct native_frame {
	uint64_t pc;
	const char *function; /* NULL: not known, such as code of a JIT, or of a library without symbols */
	const char *module;   /* name of the program's or library's file, without its directory; NULL: none (a JIT's) */
	uint64_t offset;      /* of pc in the function, or else in the module */
	uint64_t start, size; /* of the function, as tables of frames have it, also where it has no name; 0: not known */
	bool after_gap;       /* between this and the one before are frames that could not be found (hand-written assembler) */
};

struct native_thread {
	struct task task;
	struct native_frame *frames; /* innermost first */
	size_t count;
	bool cut;            /* there are more, which were not looked at */
	int code;            /* 0, or why there are none: -ETIMEDOUT: it did not stop, -ESRCH: it has ended, ... */
	uint64_t stopped_ns; /* for how long it was stopped */
};

struct native_stacks {
	struct native_thread *threads;
	size_t count;
	size_t stacks_cut;    /* threads without their outer frames, as all stacks together are too large */
	int unwound;          /* 0, or why frames are missing: native_stacks_gap() says it */
	struct buffer answer; /* private: what the child said, to which frames point */
};

/*
 * Takes them, each thread being stopped for a moment, all within budget_ns. own: only of the thread with that id, as the
 * process sees it; 0: all. Returns 0; negative with err where not one could be had: -EPERM (says who may), -EBUSY (says who
 * traces it), -ESRCH.
 */
int native_stacks_take(struct native_stacks *stacks, const struct target *target, pid_t own, uint64_t budget_ns,
                       struct error *err);
/* Frames of what was copied before: of each of stacks->count threads one, in their order. It runs a child for that. */
struct snapshot;
void native_stacks_unwind(struct native_stacks *stacks, const struct snapshot *snapshots, const struct target *target);
/* Whether a module of that name is musl, which has no unwind tables, and in which each thread begins. */
bool native_module_is_musl(const char *name, size_t size);

/* A sentence's end on frames that are missing; NULL: none is. */
const char *native_stacks_gap(const struct native_stacks *stacks);
/* Reads stacks->answer, which is anybody's, into the threads. For native_stacks_take(), and for tests. */
void native_stacks_understand(struct native_stacks *stacks);
void native_stacks_free(struct native_stacks *stacks);

#endif
