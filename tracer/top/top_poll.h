#ifndef RBPROBE_TOP_POLL_H
#define RBPROBE_TOP_POLL_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What one turn of the loop waits for. Everyone adds a descriptor for each thing of theirs (-1: none now), and after the wait
 * takes the results in the same order: so nothing may be opened or freed in between.
 */
struct top_poll {
	struct pollfd *items;
	size_t count, room, taken;
	uint64_t wake_ns;
};

void top_poll_begin(struct top_poll *poll);
void top_poll_add(struct top_poll *poll, int descriptor, uint64_t wake_ns);
void top_poll_wait(struct top_poll *poll);
/* The next one's revents. */
short top_poll_take(struct top_poll *poll);
void top_poll_free(struct top_poll *poll);

#endif
