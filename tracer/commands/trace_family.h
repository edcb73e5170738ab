#ifndef RBPROBE_TRACE_FAMILY_H
#define RBPROBE_TRACE_FAMILY_H

#include "proto/clock.h"
#include "tracer/cli/options.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The workers of a run: with --children, the Ruby processes below those that were named, and those that join them later.
 * They are looked for in /proc, several times a second. A new one is taken when it has been seen twice: what a fork is about to
 * replace by another program (exec) is no worker, and is left alone.
 */

#define FAMILY_LOOK_NS (100 * NS_PER_MS)
#define FAMILY_MAX 256u /* processes that are traced at a time */

struct family;

/* NULL: none is wanted. verbose: to name what is left out. */
struct family *family_open(const struct options *options);
void family_free(struct family *family);

/* Whether any of the processes that were named is there still: then others may join. */
bool family_is_alive(const struct family *family);
/* When the next look is due. */
uint64_t family_wake_ns(const struct family *family);
/* Looks, if it is time, and gives those that have joined to `join`. */
void family_step(struct family *family, uint64_t now_ns, void (*join)(void *owner, pid_t pid), void *owner);
/* That process is traced already. */
void family_knows(struct family *family, pid_t pid);

#endif
