#ifndef RBPROBE_HEAP_DUMP_H
#define RBPROBE_HEAP_DUMP_H

#include "tracer/cli/options.h"
#include "tracer/heap/dump_file.h"

#include <stdbool.h>
#include <stdint.h>

/* One heap dump, from attaching to the file. */
struct heap_dump_order {
	const struct options *options; /* one PID */
	struct dump_file *file;        /* ours from here on: it is committed or discarded */
	const char *name;              /* the file's, for people; NULL: standard output */
	uint32_t flags;                /* enum heap_dump_flag */
	uint64_t
		allocations_ns; /* record allocation sites for so long first, of which less than 1 ms is not worth a word; 0: not */
	bool in_turn;           /* others are dumped at a time: begin when apart_turn_take() says so, and show no progress */
	bool agreed;            /* that the process stands still for HEAP_DUMP_IN_PROCESS */
};

/* Says on stderr what went wrong, or what was written. Returns an enum exit_status. */
int heap_dump_take(const struct heap_dump_order *order);

#endif
