#ifndef RBPROBE_PROGRAM_KIND_H
#define RBPROBE_PROGRAM_KIND_H

#include "tracer/process/target.h"

#include <stddef.h>

/* What kind of program a process runs, as far as it matters for loading a library into it. */
enum program_kind {
	PROGRAM_OURS, /* nothing against it, or not known */
	PROGRAM_OTHER_MACHINE,
	PROGRAM_STATIC,
	PROGRAM_MUSL,
};

enum program_kind program_kind(const struct target *target);

/* From the auxiliary vector alone (/proc/PID/auxv), which does not show whether the C library is musl. */
enum program_kind program_kind_of_auxv(const void *bytes, size_t size);

#endif
