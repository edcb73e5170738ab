/* Files of threads in /proc. See task_file.h. */

#define _GNU_SOURCE
#include "proto/task_file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

ssize_t task_file_read(int task_directory, const char *tid, const char *name, char *text, size_t size)
{
	char path[NAME_MAX + 16];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", tid, name);
	fd = openat(task_directory, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	got = read(fd, text, size - 1);
	close(fd);
	text[got > 0 ? got : 0] = '\0';
	return got;
}

ssize_t task_file_read_own(pid_t tid, const char *name, char *text, size_t size)
{
	char directory[sizeof("/proc/self/task/") + 20];

	snprintf(directory, sizeof(directory), "/proc/self/task/%d", (int)tid);
	return task_file_read(AT_FDCWD, directory, name, text, size);
}
