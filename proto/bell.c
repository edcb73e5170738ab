/* Sending SIGURG to where the GVL is. See bell.h. */

#define _GNU_SOURCE
#include "bell.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The state letter of /proc/PID/task/TID/stat stands behind the command's closing parenthesis. */
static char task_state(int task_directory, const char *tid)
{
	char path[NAME_MAX + 8], text[512];
	const char *parenthesis;
	ssize_t size;
	int fd;

	snprintf(path, sizeof(path), "%s/stat", tid);
	fd = openat(task_directory, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	size = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (size <= 0)
		return 0;
	text[size] = '\0';
	parenthesis = strrchr(text, ')');
	return parenthesis && parenthesis[1] == ' ' ? parenthesis[2] : 0;
}

int bell_ring(pid_t pid)
{
	char path[64];
	DIR *directory;
	struct dirent *entry;

	if (kill(pid, SIGURG) != 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	directory = opendir(path);
	if (!directory)
		return 0;
	while ((entry = readdir(directory))) {
		int tid = atoi(entry->d_name);

		if (tid > 0 && tid != pid && task_state(dirfd(directory), entry->d_name) == 'R')
			syscall(SYS_tgkill, pid, tid, SIGURG);
	}
	closedir(directory);
	return 0;
}
