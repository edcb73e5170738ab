#ifndef RBPROBE_ARGUMENT_NAME_H
#define RBPROBE_ARGUMENT_NAME_H

#include "tracer/base/buffer.h"

#include "proto/slice.h"

/*
 * Viewers of timelines show all that is known of a call in one list, where a name may be there but once. What an argument is
 * called in it: its own name, or "result (argument)" where that word stands for something else. room: for such a one; valid
 * until the next.
 */
struct slice argument_name(struct slice label, struct buffer *room);

#endif
