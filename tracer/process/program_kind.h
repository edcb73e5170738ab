#ifndef RBPROBE_PROGRAM_KIND_H
#define RBPROBE_PROGRAM_KIND_H

#include <stddef.h>
#include <sys/types.h>

/* What kind of program a process runs, as far as it matters for loading a library into it. */
enum program_kind {
	PROGRAM_OURS, /* nothing against it, or not known */
	PROGRAM_OTHER_MACHINE,
	PROGRAM_STATIC,
};

enum program_kind program_kind(pid_t pid);

/* From the auxiliary vector (/proc/PID/auxv). */
enum program_kind program_kind_of_auxv(const void *bytes, size_t size);

#endif
