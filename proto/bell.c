/* Sending SIGURG to where the GVL is. See bell.h. */

#define _GNU_SOURCE
#include "proto/bell.h"

#include "proto/task_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIDFD_OF_THREAD O_EXCL /* PIDFD_THREAD, since Linux 6.9 */

/* The state letter of /proc/PID/task/TID/stat stands after the command's closing parenthesis. */
static char task_state(int task_directory, const char *tid)
{
	char text[512];
	const char *parenthesis;

	if (task_file_read(task_directory, tid, "stat", text, sizeof(text)) <= 0)
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
		if (atoi(entry->d_name) > 0 && task_file_read(dirfd(directory), entry->d_name, "comm", name, sizeof(name)) > 0 &&
		    strcmp(name, BELL_THREAD_NAME "\n") == 0)
			found = atoi(entry->d_name);
	if (directory)
		closedir(directory);
	return found;
}

static bool has_ended(int process)
{
	struct pollfd descriptor = {.fd = process, .events = POLLIN};

	return process >= 0 && poll(&descriptor, 1, 0) != 0;
}

static bool is_thread_of(pid_t pid, pid_t thread)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)pid, (int)thread);
	return access(path, F_OK) == 0;
}

static int result(long status)
{
	return status == 0 ? 0 : -errno;
}

/*
 * By a descriptor of the thread where the kernel has such: made first, then checked, it can mean no other one any more.
 * Else the number may have been given to another process since the look at `process`.
 */
static int signal_thread(pid_t pid, int process, pid_t thread, siginfo_t *info)
{
	int descriptor = -1, status;

#if defined(SYS_pidfd_open) && defined(SYS_pidfd_send_signal)
	if (process >= 0)
		descriptor = (int)syscall(SYS_pidfd_open, thread, PIDFD_OF_THREAD);
#endif
	if ((descriptor >= 0 && !is_thread_of(pid, thread)) || has_ended(process))
		status = -ESRCH;
#ifdef SYS_pidfd_send_signal
	else if (descriptor >= 0)
		status = result(syscall(SYS_pidfd_send_signal, descriptor, SIGURG, info, 0));
#endif
	else if (info)
		status = result(syscall(SYS_rt_tgsigqueueinfo, pid, thread, SIGURG, info));
	else
		status = result(syscall(SYS_tgkill, pid, thread, SIGURG));
	if (descriptor >= 0)
		close(descriptor);
	return status;
}

int bell_ring_thread(pid_t pid, int process, pid_t thread)
{
	return signal_thread(pid, process, thread, NULL);
}

static int signal_process(pid_t pid, int process)
{
	int status = -ENOSYS;

#ifdef SYS_pidfd_send_signal
	if (process >= 0)
		status = result(syscall(SYS_pidfd_send_signal, process, SIGURG, NULL, 0));
#endif
	/* Before Linux 5.1, or a filter does not know it. */
	if (status == -ENOSYS || status == -EINVAL)
		status = has_ended(process) ? -ESRCH : result(kill(pid, SIGURG));
	return status;
}

/* To the process, and to who runs. */
static int signal_all(pid_t pid, int process)
{
	int status = signal_process(pid, process);
	struct dirent *entry;
	DIR *directory = status < 0 ? NULL : tasks_open(pid);

	while (directory && (entry = readdir(directory))) {
		int tid = atoi(entry->d_name);

		if (tid > 0 && tid != pid && task_state(dirfd(directory), entry->d_name) == 'R')
			bell_ring_thread(pid, process, tid);
	}
	if (directory)
		closedir(directory);
	return status;
}

int bell_ring(pid_t pid, int process, bool interrupt)
{
	siginfo_t info = {.si_signo = SIGURG, .si_code = SI_QUEUE};
	pid_t thread = bell_thread(pid);

	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_int = interrupt ? BELL_INTERRUPT : 0;
	return thread ? signal_thread(pid, process, thread, &info) : signal_all(pid, process);
}
