#ifndef RBPROBE_STACK_ROOM_H
#define RBPROBE_STACK_ROOM_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether this thread's VM stack has room for work of ours. Where the application is in a deep recursion, the work would end in
 * the middle, and a moment later there is room again. Where there is none, the answer stays the same for ten times as long as it
 * took to find out, or until the recursion is over. Job context; some microseconds; raises nothing.
 */
bool stack_room_is_enough(void);

/* Whether the last answer was no, and stays the same for now. Nothing is tried. */
bool stack_room_is_known_to_lack(void);

/* Whether it was no at any moment since then (clock_now_ns()). */
bool stack_room_lacked_since(uint64_t began_ns);

/* Work that was begun then (clock_now_ns()) came to nothing for want of room: that is such an answer, and took so long. */
void stack_room_note_lack(uint64_t began_ns);

#endif
