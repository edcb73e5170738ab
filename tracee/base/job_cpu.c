/* See job_cpu.h. */

#include "tracee/base/job_cpu.h"

__thread uint64_t job_cpu_ns;
