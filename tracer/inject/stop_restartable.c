/*
 * Restartable sequences (rseq). See stop_check.h.
 *
 * A thread in one relies on the kernel sending it to its abort handler when it was interrupted. The kernel looks at where the
 * thread goes on after a stop: at the function that we call. It then takes the sequence for left, and when we put the
 * registers back, the thread goes on in the middle of it as if nothing had happened. So nothing is called from there: let go
 * of, it is aborted as by any other interruption.
 */

#define _GNU_SOURCE
#include "tracer/inject/stop_check.h"

#include "tracer/process/arch.h"

#include <sys/ptrace.h>

#define GET_RSEQ_CONFIGURATION 0x420f /* PTRACE_GET_RSEQ_CONFIGURATION, since Linux 5.13 */
#define SEQUENCE_AT 8                 /* in the thread's rseq area: the address of the sequence that it is in, or was in last */

struct configuration {
	uint64_t area;
	uint32_t area_size, signature, flags, unused;
};

struct sequence {
	uint32_t version, flags;
	uint64_t start, size, abort;
};

const char *stop_check_restartable(const struct stop_check *check, const struct injection *injection)
{
	struct configuration configuration = {0};
	struct sequence sequence;
	uint64_t address, pc = arch.pc(&injection->registers);
	// NOLINTNEXTLINE(performance-no-int-to-ptr): how ptrace takes a size
	long size = ptrace(GET_RSEQ_CONFIGURATION, injection->pid, (void *)sizeof(configuration), &configuration);

	/* Older kernels do not say where the area is; a thread need not have one. */
	if (size <= 0 || !configuration.area ||
	    !remote_read(check->remote, configuration.area + SEQUENCE_AT, &address, sizeof(address)) || !address ||
	    !remote_read(check->remote, address, &sequence, sizeof(sequence)))
		return NULL;
	return pc - sequence.start < sequence.size ? "it was in a restartable sequence" : NULL;
}
