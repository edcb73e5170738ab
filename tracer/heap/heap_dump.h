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
	uint64_t allocations_ns;       /* record allocation sites for so long first; 0: not */
	bool others;                   /* are dumped by others of us, at a time: no progress is shown */
	bool agreed;                   /* that the process stands still for HEAP_DUMP_IN_PROCESS */
};

/* Says on stderr what went wrong, or what was written. Returns an enum exit_status. */
int heap_dump_take(const struct heap_dump_order *order);

#endif
