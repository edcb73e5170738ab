#ifndef RBPROBE_FRAME_INNERMOST_H
#define RBPROBE_FRAME_INNERMOST_H

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/* Which method a context's innermost frame is a call of, for a thread that does not have the GVL. */

/*
 * Finds where that is, by a scratch method written in C that looks for itself. False: it is not known; another call tries again
 * where that is worth it. Job context; raises nothing.
 */
bool frame_innermost_find(void);

/*
 * False: no method's own frame, or not known. The context need not be there any more. Its thread may go on meanwhile: what is
 * told is then of either call, or of none. After frame_innermost_find(). Any thread, with or without the GVL.
 */
bool frame_innermost_method(uintptr_t context, VALUE *owner, ID *called);

#endif
