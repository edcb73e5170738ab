#ifndef RBPROBE_ENCODER_H
#define RBPROBE_ENCODER_H

#include "tracee/base/ring.h"
#include "tracee/base/ticks.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>

/* Ring records become records of the protocol. Context: writer. */

struct encoder {
	struct ring *ring;
	msgpack_sbuffer *output;
	struct ticks_clock clock;
	/* Of the youngest event so far: what is younger still is not told with an older time, whatever the clocks do. */
	uint64_t ticks, ns;
	/* Position of the start that was held back when there was nothing else to do; RING_NOWHERE: none was. */
	uint64_t held_back;
	uint64_t told; /* position of a start that was told while it was held back; RING_NOWHERE: of none */
};

void encoder_open(struct encoder *encoder, struct ring *ring, msgpack_sbuffer *output);

/* Takes everything up to that position, or until the output has reached that size: then false. */
bool encoder_take(struct encoder *encoder, uint64_t end, size_t output_size);

/*
 * To be called when there is nothing to take: a call whose start has been held back since the last time is one that takes long,
 * and is told of now. True where there is one that may turn out so the next time.
 */
bool encoder_tell_held_back(struct encoder *encoder);

#endif
