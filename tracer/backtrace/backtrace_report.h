#ifndef RBPROBE_BACKTRACE_REPORT_H
#define RBPROBE_BACKTRACE_REPORT_H

#include "tracer/backtrace/native_stack.h"
#include "tracer/base/buffer.h"
#include "tracer/process/tasks.h"
#include "tracer/process/waits_on.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* One look at one process, put together from DATA records and written out when it is complete. */

struct stack {
	uint64_t id;
	pid_t native_id; /* as the process sees it; 0: not known */
	bool fiber;
	/* As text; label and state are parts of the heading: which it is, where it is. In JSON frames are an array's elements. */
	struct buffer heading, label, state, frames;
	size_t cpu_end;  /* where in the heading its CPU time ends; 0: it has none */
	size_t json_end; /* where in the report's lines more may be said of it; 0: nowhere */
	uint64_t cpu_ns; /* that the thread has used */
	bool cpu_known;
	uint64_t mutex, monitor; /* which Mutex it waits for, and of which Monitor that is; 0: none */
	uint64_t owner;          /* the id of the thread that holds it, or that is joined; 0: none, or not known */
	bool timed;              /* a join that ends after a while */
	uint64_t waits_for;      /* the Queue, SizedQueue or ConditionVariable; 0: none, or not known */
	bool endless;            /* it waits, and only another thread or a signal's handler ends that */
	uint64_t since_ns;       /* the first look that saw it where it is: report.time_ns of that */
};

struct report_style {
	bool group; /* threads with the same frames together */
	bool app;   /* frames of libraries are folded */
};

struct report {
	pid_t pid;
	struct tasks tasks; /* before its bell was rung */
	int *descriptors;   /* for which each of them waited; -1: none, or not known */
	struct socket_table sockets;
	char command[256];
	bool json;
	const struct report_style *style;
	uint64_t time_ns; /* of the target's answer, since 1970 */
	uint64_t threads; /* that the process has, shown or not */
	bool ractors;     /* it has others than the main one */
	bool compiler;    /* because of one, frames were not looked into */
	struct buffer head;
	struct stack *stacks;
	size_t count;
	struct stack_index {
		uint32_t *places; /* 1 + a number in stacks; 0: none */
		size_t capacity;  /* 0, or a power of two above the double number of stacks */
	} by_id;
	struct buffer lines; /* JSON, but for groups */
	size_t json_end;     /* of the line that was added last */
};

void report_begin(struct report *report, pid_t pid, bool json, const struct report_style *style);
void report_add(struct report *report, const msgpack_object *map);
/* The number of the stack whose thread this one waits for; report->count: none. */
size_t report_waits_for(const struct report *report, size_t number);
/* The same thread or fiber, in another look; NULL: it is not there. */
const struct stack *report_find(const struct report *report, const struct stack *stack);
/* The CPU time that a thread has used since then; false: not known. */
bool report_cpu_since(const struct stack *stack, const struct report *before, uint64_t *used_ns);
/* The same place and state as in the look before, and no CPU time used meanwhile: that stack there; NULL: not so. */
const struct stack *report_unmoved(const struct report *report, const struct stack *stack, const struct report *before);
/*
 * Adds the native frames, to the threads whose native id is known and else as threads of their own; only_known: not the
 * latter.
 */
void report_add_native(struct report *report, const struct native_stacks *stacks, bool only_known);
/* before: the look before this one, of which only the differences are shown; or NULL. */
void report_write(struct report *report, const struct report *before, const struct report_style *style, struct buffer *out);
void report_free(struct report *report);

#endif
