#ifndef RBPROBE_TRACKS_H
#define RBPROBE_TRACKS_H

#include "tracer/base/buffer.h"
#include "tracer/stream/stream.h"

#include "proto/slice.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Viewers of timelines draw a track for each number: of a process its PID, of a fiber a number that no other fiber of the process
 * has at the time. A thread's own fiber gets the thread's native id, if it is free; others get numbers above those that Linux
 * gives. Fibers of one thread that are made at the same place one after the other share a track.
 */

#define TRACK_FREE_FROM (1u << 23)
#define TRACK_STATES_FROM (1u << 30) /* what threads do: a track of its own, by their number */

struct track {
	uint64_t key;  /* PID, and native id or the fiber's number; 0: free */
	uint64_t what; /* which thread's, and where it was made */
	uint32_t number;
};

struct tracks {
	uint32_t next;
	struct track *items; /* an open hash */
	uint32_t count, room;
};

void tracks_free(struct tracks *tracks);

/* The fiber's, which is kept in its `prepared`. *is_new: nobody has had it before. */
uint32_t tracks_number(struct tracks *tracks, struct fiber *fiber, bool *is_new);

/* What a fiber's track is called: "main", the thread's name or "thread 4711"; of another fiber also where it was made. */
void tracks_add_name(const struct fiber *fiber, struct buffer *to);

#endif
