#ifndef RBPROBE_STACK_ROOM_H
#define RBPROBE_STACK_ROOM_H

#include <stdbool.h>

/*
 * Whether this thread's VM stack has room for work of ours. Where the application is in a deep recursion, the work would end in
 * the middle, and a moment later there is room again. Where there is none, the answer stays the same for ten times as long as it
 * took to find out. Job context; some microseconds; raises nothing.
 */
bool stack_room_is_enough(void);

#endif
