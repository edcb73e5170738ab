#ifndef RBPROBE_BACKTRACE_REPORT_H
#define RBPROBE_BACKTRACE_REPORT_H

#include "tracer/backtrace/native_stack.h"
#include "tracer/base/buffer.h"
#include "tracer/process/tasks.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* One look at one process, put together from DATA records and written out when it is complete. */

struct stack {
	uint64_t id;
	pid_t native_id; /* as the process sees it; 0: not known */
	bool fiber;
	struct buffer heading, state, frames; /* as text; state is the part of the heading that says where it is */
	uint64_t cpu_ns;                      /* that the thread has used */
	bool cpu_known;
};

struct report {
	pid_t pid;
	struct tasks tasks; /* before its bell was rung */
	char command[256];
	bool json;
	uint64_t time_ns; /* of the target's answer, since 1970 */
	struct buffer head;
	struct stack *stacks;
	size_t count;
	struct stack_index {
		uint32_t *places; /* 1 + a number in stacks; 0: none */
		size_t capacity;  /* 0, or a power of two above the double number of stacks */
	} by_id;
	struct buffer lines; /* JSON */
};

struct report_style {
	bool group; /* threads with the same frames together */
};

void report_begin(struct report *report, pid_t pid, bool json);
void report_add(struct report *report, const msgpack_object *map);
/*
 * Adds the native frames, to the threads whose native id is known and else as threads of their own; only_known: not the
 * latter.
 */
void report_add_native(struct report *report, const struct native_stacks *stacks, bool only_known);
/* before: the look before this one, of which only the differences are shown; or NULL. */
void report_write(const struct report *report, const struct report *before, const struct report_style *style, struct buffer *out);
void report_free(struct report *report);

#endif
