#ifndef RBPROBE_PROFILE_GC_H
#define RBPROBE_PROFILE_GC_H

#include <stdbool.h>
#include <stdint.h>

/*
 * How long the process has been in garbage collections, by the VM's own count, which is in milliseconds and costs nothing (since
 * 3.1). Hooks would tell more, and slow down every allocation on Rubies up to 3.2. Job context.
 */

/* Whether this Ruby tells. Raises nothing. */
bool profile_gc_known(void);
/* Since the process began. Allocates nothing, calls nothing. */
uint64_t profile_gc_ns(void);

#endif
