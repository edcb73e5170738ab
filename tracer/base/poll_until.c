/* Waiting for descriptors and a time. See poll_until.h. */

#define _GNU_SOURCE
#include "tracer/base/poll_until.h"

#include "proto/clock.h"

#include <time.h>

bool poll_until(struct pollfd *polled, size_t count, uint64_t wake_ns)
{
	uint64_t now_ns = wake_ns == UINT64_MAX ? 0 : clock_now_ns(), left_ns = wake_ns > now_ns ? wake_ns - now_ns : 0;
	struct timespec left = {(time_t)(left_ns / NS_PER_S), (long)(left_ns % NS_PER_S)};

	if (ppoll(polled, count, wake_ns == UINT64_MAX ? NULL : &left, NULL) > 0)
		return true;
	/* Interrupted: the kernel has not written them. What is ready is ready next time, too. */
	for (size_t i = 0; i < count; i++)
		polled[i].revents = 0;
	return false;
}
