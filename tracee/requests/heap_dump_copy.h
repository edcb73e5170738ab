#ifndef RBPROBE_HEAP_DUMP_COPY_H
#define RBPROBE_HEAP_DUMP_COPY_H

#include "proto/error.h"

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/* What a heap dump's copy is given, and, in memory that it shares with the process, what it has to say. */
struct heap_dump_report {
	bool complete;
	uint64_t own;       /* objects of rbprobe's */
	struct error error; /* where it is not, and the copy has lived to say why */
};

struct heap_dump_order {
	struct heap_dump_report *report;
	const char *library; /* objspace's */
	VALUE threads;       /* an Array of them */
	VALUE fiber_class;
	int descriptor; /* where the dump goes */
};

/* In a copy (silent_fork.h), under the GVL: dumps and exits. argument is a struct heap_dump_order. */
void heap_dump_in_copy(void *argument);

#endif
