/* A process, from one look at it to the next. See target.h. */

#define _GNU_SOURCE
#include "tracer/process/target.h"

#include "proto/clock.h"
#include "tracer/base/proc_file.h"

#include <unistd.h>

char target_state(const struct target *target)
{
	uint64_t start_ticks;
	char state;

	if (proc_stat_read(target->pid, &state, &start_ticks) != 0 || start_ticks != target->start_ticks)
		return 0;
	return state;
}

bool target_is_same(const struct target *target)
{
	char state = target_state(target);

	return state != 0 && state != 'Z' && state != 'X';
}

int64_t target_start_time(const struct target *target)
{
	struct timespec boot, wall;
	double since_boot = (double)target->start_ticks / (double)sysconf(_SC_CLK_TCK);

	clock_gettime(CLOCK_BOOTTIME, &boot);
	clock_gettime(CLOCK_REALTIME, &wall);
	return (int64_t)((double)wall.tv_sec + (double)wall.tv_nsec / 1e9 - (double)boot.tv_sec - (double)boot.tv_nsec / 1e9 +
	                 since_boot);
}

void target_command_line(const struct target *target, char *text, size_t size)
{
	ssize_t length = proc_file_read(target->pid, "cmdline", text, size);

	if (length <= 0) {
		text[0] = '\0';
		return;
	}
	while (length > 0 && text[length - 1] == '\0')
		length--;
	for (ssize_t i = 0; i < length; i++)
		if (text[i] == '\0')
			text[i] = ' ';
}
