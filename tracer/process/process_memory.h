#ifndef RBPROBE_PROCESS_MEMORY_H
#define RBPROBE_PROCESS_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A process's memory as the kernel counts it, in bytes. */
struct process_memory {
	bool known; /* false: /proc could not be read */
	uint64_t resident;
	uint64_t proportional; /* shared pages divided by those who share them */
	uint64_t private_dirty;
	uint64_t swapped;
};

/* Reads /proc/PID/smaps_rollup, or statm where that may not be read or the kernel has none. */
void process_memory_read(struct process_memory *memory, pid_t pid);

#endif
