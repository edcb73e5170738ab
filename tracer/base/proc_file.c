/* Files of /proc/PID. See proc_file.h. */

#define _GNU_SOURCE
#include "tracer/base/proc_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ssize_t text_file_read(const char *path, char *text, size_t size)
{
	size_t filled = 0;
	ssize_t got = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	while (filled < size - 1 && (got = read(fd, text + filled, size - 1 - filled)) > 0)
		filled += (size_t)got;
	if (got < 0)
		got = -errno;
	close(fd);
	text[filled] = '\0';
	return filled ? (ssize_t)filled : got;
}

ssize_t proc_file_read(pid_t pid, const char *name, char *text, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return text_file_read(path, text, size);
}

/* The state, field 3, and another one; the command's name before them may hold anything, parentheses included. */
static int stat_read(pid_t pid, char *state, int number, uint64_t *value)
{
	char text[1024], *field;
	ssize_t size = proc_file_read(pid, "stat", text, sizeof(text));

	if (size <= 0)
		return size < 0 ? (int)size : -ESRCH;
	field = strrchr(text, ')');
	if (!field || field[1] != ' ')
		return -EPROTO;
	field += 2;
	*state = *field;
	for (int i = 3; i < number; i++) {
		field = strchr(field, ' ');
		if (!field)
			return -EPROTO;
		field++;
	}
	*value = strtoull(field, NULL, 10);
	return 0;
}

int proc_stat_read(pid_t pid, char *state, uint64_t *start_ticks)
{
	return stat_read(pid, state, 22, start_ticks);
}

uint64_t proc_children_faults(pid_t pid)
{
	uint64_t faults;
	char state;

	return stat_read(pid, &state, 11, &faults) == 0 ? faults : 0;
}
