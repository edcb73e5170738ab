#ifndef RBPROBE_LOSSES_H
#define RBPROBE_LOSSES_H

#include "tracer/base/buffer.h"
#include "tracer/profile/profile.h"
#include "tracer/stream/thread_states.h"

#include "proto/record.h"

#include <stdbool.h>
#include <stdint.h>

/* What was lost of a recording at some time: for formats that show it there, over the whole process. */
struct loss {
	const char *name, *unit;
	uint64_t count;
	uint64_t from_ns, to_ns; /* of the target's monotonic clock; 0: unknown */
};

struct loss loss_of_calls(const struct record_lost *lost);
struct loss loss_of_states(const struct threads_gap *gap);
/* ns */
uint64_t loss_duration(const struct loss *loss);

/* What a profile, or what recorded calls add up to, does not have and should: for the comment that a format has room for. */

/* "7 calls were lost while recording, and are not in here", without a full stop. False: nothing was. */
bool losses_add(const struct profile *profile, struct buffer *to);

#endif
