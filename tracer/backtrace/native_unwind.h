#ifndef RBPROBE_NATIVE_UNWIND_H
#define RBPROBE_NATIVE_UNWIND_H

#include "tracer/backtrace/thread_snapshot.h"
#include "tracer/process/confined.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Unwinding the copies of threads, as the work of a confined child: it reads ELF and DWARF that the process chose. It answers
 * with a struct native_unwind_thread for each, in any order, and after each its frames: a struct native_unwind_frame, the
 * function's name and a NUL, the module's name and a NUL.
 */

#define NATIVE_FRAMES_MAX 256u
#define NATIVE_NAME_MAX 1024u /* bytes; longer ones are cut */

struct native_unwind_order {
	pid_t pid;
	const struct snapshot *snapshots; /* those without registers are left out */
	size_t count;
};

struct native_unwind_thread {
	uint32_t index; /* of the snapshot */
	uint32_t count; /* of frames: at most twice NATIVE_FRAMES_MAX */
	uint32_t cut;
};

struct native_unwind_frame {
	uint64_t pc, offset, start, size;    /* of its function, by the tables of frames; 0: not known */
	uint16_t function_size, module_size; /* 0: none */
	uint16_t after_gap, unused[1];
};

/* The work. argument: a struct native_unwind_order. */
void native_unwind(const struct confined *confined, const void *argument);

#endif
