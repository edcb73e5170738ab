#ifndef RBPROBE_FRAME_CONTEXT_H
#define RBPROBE_FRAME_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Where an execution context has its control frames: on its VM stack, the innermost first, the outermost before the stack's end.
 * A context that is being made, or has ended, has none.
 */

struct frame_range {
	uintptr_t innermost, end;
};

/* Learns it from a context whose innermost frame is known; false: that is not found. Event or job context. */
bool frame_context_find(uintptr_t context, uintptr_t frame);

/* Why the rows are not known, where they are not. */
void frame_context_not_found(void);

/* False: not known, or there are none. GVL held, any context; the memory is read through the kernel. */
bool frame_context_range(uintptr_t context, struct frame_range *range);

#endif
