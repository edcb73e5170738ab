/* Precedence, and waiting for it. See schedule.h. */

#define _GNU_SOURCE
#include "tracer/inject/schedule.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PLACE_IS_NOT_INHERITED 1 /* SCHED_FLAG_RESET_ON_FORK */

bool schedule_first(pid_t thread, enum schedule_precedence precedence, struct schedule_place *place)
{
	struct schedule_place first = {
		.size = sizeof(first), .policy = SCHED_FIFO, .flags = PLACE_IS_NOT_INHERITED, .priority = precedence};

	if (syscall(SYS_sched_getattr, thread, place, sizeof(*place), 0) != 0)
		return false;
	if (place->policy != SCHED_OTHER && place->policy != SCHED_BATCH && place->policy != SCHED_IDLE)
		return false;
	return syscall(SYS_sched_setattr, thread, &first, 0) == 0;
}

void schedule_back(pid_t thread, const struct schedule_place *place)
{
	syscall(SYS_sched_setattr, thread, place, 0);
}

int schedule_open(pid_t thread)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)thread);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Three numbers: time on a processor, time waited for one, how often it had one. */
uint64_t schedule_waited_ns(int descriptor)
{
	char text[96], *second;
	ssize_t size = descriptor < 0 ? -1 : pread(descriptor, text, sizeof(text) - 1, 0);

	if (size <= 0)
		return 0;
	text[size] = '\0';
	second = strchr(text, ' ');
	return second ? strtoull(second, NULL, 10) : 0;
}
