#ifndef RBPROBE_HEAP_RECORDING_H
#define RBPROBE_HEAP_RECORDING_H

#include "tracer/cli/request.h"

/*
 * A session in which a process records where it allocates objects, while others dump it. So each dump knows what was made since
 * it began, and when: an object that has taken the place of one that is gone is told from it.
 */
struct heap_recording {
	struct request request;
	struct command command;
	bool begun;
};

/* Waits until the process, pids[0], records. Returns an enum exit_status, after a line on stderr where it does not. */
int heap_recording_begin(struct heap_recording *recording, const struct options *options, int signals_descriptor);
/* Whether it still records. */
bool heap_recording_goes_on(struct heap_recording *recording);
/* The process forgets what it has recorded. A zeroed struct has nothing to end. */
void heap_recording_end(struct heap_recording *recording);

#endif
