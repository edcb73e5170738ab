#ifndef RBPROBE_ENDED_H
#define RBPROBE_ENDED_H

#include "tracer/base/buffer.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Where calls are told as they end (--slow, --raised), those inside a call come before it. Whoever adds up what was inside keeps
 * the calls that have ended here: those that began after the call did, and in its fiber, were inside it.
 *
 * Calls of one place, such as the same open call, are kept in a buffer, from the byte `from` to its end, oldest first. They take
 * 4 KiB at most: the oldest are put together then, and one that began among these gets none of them.
 */

#define ENDED_MAX 256u

void ended_add(struct buffer *kept, size_t from, uint64_t start_ns, uint64_t duration_ns);
/* Takes those that were inside a call that began then. The time of them together. */
uint64_t ended_take(struct buffer *kept, size_t from, uint64_t start_ns);

#endif
