#ifndef RBPROBE_CALL_STACKS_H
#define RBPROBE_CALL_STACKS_H

#include "tracer/profile/profile.h"
#include "tracer/stream/sink.h"

/*
 * Recorded calls as a profile: the frames of a stack are the recorded calls that were open, and its time is that of the innermost
 * one without the calls inside it. The ticks of a sum are calls that have ended there, which is exact.
 */

struct call_stacks;

/* Of a stack. Formats write each from its first frame on: those of a method that calls itself 10,000 times took gigabytes. */
#define CALL_STACKS_LEVELS_MAX 1024u

/* Ends the program without memory, as buffers do. */
struct call_stacks *call_stacks_new(void);
void call_stacks_free(struct call_stacks *stacks);

/* A sink that adds the calls it gets. sink_free() frees it, and not the stacks. */
struct sink *call_stacks_sink(struct call_stacks *stacks, struct output *output, const struct sink_style *style);

/* What they add up to so far; it stays theirs. */
const struct profile *call_stacks_profile(const struct call_stacks *stacks);
/* Calls that have not ended in the recording, and have no time; those that are in the time of the call around them. */
uint64_t call_stacks_open(const struct call_stacks *stacks);
uint64_t call_stacks_folded(const struct call_stacks *stacks);

#endif
