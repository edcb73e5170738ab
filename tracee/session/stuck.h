#ifndef RBPROBE_TRACEE_STUCK_H
#define RBPROBE_TRACEE_STUCK_H

#include "proto/stuck.h"

#include <ruby.h>

/*
 * Answering where no job runs: C code holds the GVL and does not come back. Called by the bell's handler, which runs on the
 * thread that was sent the signal. If that thread has the GVL, and a client's question waits in the queue, its frames are sent to
 * that client. Async-signal-safe; returns at once where nothing is asked.
 */
void stuck_answer_if_asked(int queue_id);

/* --- For stuck_look.c as well. Async-signal-safe. */

#define STUCK_FRAMES_LOOKED_AT ((int)STUCK_FRAMES_MAX + 1)

struct stuck_frames {
	VALUE frames[STUCK_FRAMES_LOOKED_AT];
	int lines[STUCK_FRAMES_LOOKED_AT];
};

/* Who answers, and whether the garbage collector is at work: then nothing else may be read. */
void stuck_answer_begin(struct stuck_answer *answer);
void stuck_add_frames(struct stuck_answer *answer, const struct stuck_frames *frames, int count);

#endif
