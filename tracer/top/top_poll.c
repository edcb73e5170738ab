/* What one turn waits for. See top_poll.h. */

#include "tracer/top/top_poll.h"

#include "tracer/base/buffer.h"
#include "tracer/base/poll_until.h"

#include <stdlib.h>

void top_poll_begin(struct top_poll *poll)
{
	poll->count = poll->taken = 0;
	poll->wake_ns = UINT64_MAX;
}

void top_poll_add(struct top_poll *poll, int descriptor, uint64_t wake_ns)
{
	if (poll->count == poll->room) {
		poll->room = poll->room ? 2 * poll->room : 16;
		poll->items = memory_resize(poll->items, poll->room * sizeof(*poll->items));
	}
	poll->items[poll->count++] = (struct pollfd){.fd = descriptor, .events = POLLIN};
	if (wake_ns < poll->wake_ns)
		poll->wake_ns = wake_ns;
}

void top_poll_wait(struct top_poll *poll)
{
	poll_until(poll->items, poll->count, poll->wake_ns);
}

short top_poll_take(struct top_poll *poll)
{
	return poll->taken < poll->count ? poll->items[poll->taken++].revents : 0;
}

void top_poll_free(struct top_poll *poll)
{
	free(poll->items);
	*poll = (struct top_poll){0};
}
