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

static ssize_t task_file(int task_directory, const char *tid, const char *name, char *text, size_t size)
{
	char path[NAME_MAX + 8];
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

/* The state letter of /proc/PID/task/TID/stat stands behind the command's closing parenthesis. */
static char task_state(int task_directory, const char *tid)
{
	char text[512];
	const char *parenthesis;

	if (task_file(task_directory, tid, "stat", text, sizeof(text)) <= 0)
		return 0;
	parenthesis = strrchr(text, ')');
	return parenthesis && parenthesis[1] == ' ' ? parenthesis[2] : 0;
}

static DIR *tasks_open(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	return opendir(path);
}

pid_t bell_thread(pid_t pid)
{
	DIR *directory = tasks_open(pid);
	struct dirent *entry;
	pid_t found = 0;
	char name[32];

	while (directory && !found && (entry = readdir(directory)))
		if (atoi(entry->d_name) > 0 && task_file(dirfd(directory), entry->d_name, "comm", name, sizeof(name)) > 0 &&
		    strcmp(name, BELL_THREAD_NAME "\n") == 0)
			found = atoi(entry->d_name);
	if (directory)
		closedir(directory);
	return found;
}

/* To the process, and to who runs. */
static int signal_all(pid_t pid)
{
	DIR *directory;
	struct dirent *entry;

	if (kill(pid, SIGURG) != 0)
		return -errno;
	directory = tasks_open(pid);
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

int bell_ring(pid_t pid, bool interrupt)
{
	siginfo_t info = {.si_signo = SIGURG, .si_code = SI_QUEUE};
	pid_t thread = bell_thread(pid);

	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_int = interrupt ? BELL_INTERRUPT : 0;
	if (!thread)
		return signal_all(pid);
	return syscall(SYS_rt_tgsigqueueinfo, pid, thread, SIGURG, &info) == 0 ? 0 : -errno;
}
