/*
 * Which system calls survive a stop. See thread_wait.h.
 *
 * signal(7) lists those that "can fail with EINTR after the process is stopped": epoll_wait and its kin, semop,
 * semtimedop, sigtimedwait, io_getevents, and what waits for a socket that has a timeout. A write that has written a
 * part, and a receive that wants all and has a part, end with what they have; so does a read of a terminal that waits for more
 * bytes, and one with a timeout begins anew.
 */

#define _GNU_SOURCE
#include "tracer/inject/thread_wait.h"

#include "proto/terminal.h"
#include "tracer/base/proc_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <termios.h>
#include <unistd.h>

#define DESCRIPTOR_ONLY 0
#define NO_ARGUMENT 255

enum kind {
	LASTS,
	ENDS,     /* with EINTR, or with a part */
	RECEIVES, /* ends where its socket has a timeout, or it wants all, also of a terminal */
	SENDS,    /* ends where its socket has a timeout: connect */
};

static const struct {
	long number;
	const char *name;
	enum kind kind;
	unsigned char flags; /* RECEIVES: which argument has the flags */
} calls[] = {
#ifdef SYS_epoll_wait
	{SYS_epoll_wait, "epoll_wait", ENDS, 0},
#endif
	{SYS_epoll_pwait, "epoll_pwait", ENDS, 0},
#ifdef SYS_epoll_pwait2
	{SYS_epoll_pwait2, "epoll_pwait2", ENDS, 0},
#endif
#ifdef SYS_semop /* elsewhere a form of another */
	{SYS_semop, "semop", ENDS, 0},
#endif
	{SYS_semtimedop, "semtimedop", ENDS, 0},
	{SYS_rt_sigtimedwait, "sigtimedwait", ENDS, 0},
	{SYS_io_getevents, "io_getevents", ENDS, 0},
#ifdef SYS_io_pgetevents
	{SYS_io_pgetevents, "io_pgetevents", ENDS, 0},
#endif
#ifdef SYS_io_uring_enter
	{SYS_io_uring_enter, "io_uring_enter", ENDS, 0},
#endif
	{SYS_write, "write", ENDS, 0},
	{SYS_writev, "writev", ENDS, 0},
	{SYS_sendto, "send", ENDS, 0},
	{SYS_sendmsg, "sendmsg", ENDS, 0},
	{SYS_sendmmsg, "sendmmsg", ENDS, 0},
	{SYS_sendfile, "sendfile", ENDS, 0},
	{SYS_splice, "splice", ENDS, 0},
	{SYS_tee, "tee", ENDS, 0},
	{SYS_vmsplice, "vmsplice", ENDS, 0},
	{SYS_copy_file_range, "copy_file_range", ENDS, 0},
	{SYS_recvmmsg, "recvmmsg", ENDS, 0},
	{SYS_read, "read", RECEIVES, NO_ARGUMENT},
	{SYS_readv, "readv", RECEIVES, NO_ARGUMENT},
	{SYS_accept, "accept", RECEIVES, NO_ARGUMENT},
	{SYS_accept4, "accept", RECEIVES, NO_ARGUMENT},
	{SYS_recvfrom, "recv", RECEIVES, 3},
	{SYS_recvmsg, "recvmsg", RECEIVES, 2},
	{SYS_connect, "connect", SENDS, NO_ARGUMENT},
	/* For messages only. */
	{SYS_futex, "futex", LASTS, 0},
	{SYS_ppoll, "ppoll", LASTS, 0},
	{SYS_pselect6, "pselect", LASTS, 0},
#ifdef SYS_poll
	{SYS_poll, "poll", LASTS, 0},
	{SYS_select, "select", LASTS, 0},
	{SYS_pause, "pause", LASTS, 0},
	{SYS_open, "open", LASTS, 0},
#endif
	{SYS_openat, "open", LASTS, 0},
	{SYS_flock, "flock", LASTS, 0},
	{SYS_fcntl, "fcntl", LASTS, 0},
	{SYS_nanosleep, "nanosleep", LASTS, 0},
	{SYS_clock_nanosleep, "nanosleep", LASTS, 0},
	{SYS_restart_syscall, "a wait that goes on (restart_syscall)", LASTS, 0},
	{SYS_wait4, "wait4", LASTS, 0},
	{SYS_waitid, "waitid", LASTS, 0},
	{SYS_msgrcv, "msgrcv", LASTS, 0},
	{SYS_msgsnd, "msgsnd", LASTS, 0},
};

static int call_index(long number)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (calls[i].number == number)
			return (int)i;
	return -1;
}

int thread_wait_read(struct thread_wait *wait, pid_t pid, pid_t tid)
{
	unsigned long long of[8];
	char name[32], text[256];
	ssize_t size;

	snprintf(name, sizeof(name), "task/%d/syscall", (int)tid);
	size = proc_file_read(pid, name, text, sizeof(text));
	if (size <= 0)
		return size < 0 ? (int)size : -ESRCH;
	if (sscanf(text, "%ld %llx %llx %llx %llx %llx %llx %llx %llx", &wait->number, &of[0], &of[1], &of[2], &of[3], &of[4],
	           &of[5], &of[6], &of[7]) != 9)
		return 0;
	for (int i = 0; i < 6; i++)
		wait->arguments[i] = of[i];
	wait->sp = of[6];
	wait->pc = of[7];
	return 1;
}

/* A copy of a descriptor of the process. Negative: we may not have one. */
static int copy_descriptor(pid_t pid, int descriptor)
{
	int process = (int)syscall(SYS_pidfd_open, pid, 0);
	int copy = process < 0 ? -1 : (int)syscall(__NR_pidfd_getfd, process, descriptor, 0);

	if (process >= 0)
		close(process);
	return copy;
}

static bool socket_has_timeout(int socket, int option)
{
	struct timeval timeout = {0};
	socklen_t size = sizeof(timeout);

	return getsockopt(socket, SOL_SOCKET, option, &timeout, &size) != 0 || timeout.tv_sec != 0 || timeout.tv_usec != 0;
}

static bool terminal_ends(int terminal)
{
	struct termios settings;

	return tcgetattr(terminal, &settings) != 0 || terminal_waits_for_more(&settings);
}

/* Whether waiting for that descriptor of the process ends with a stop. Where we may not know, it does. */
static bool descriptor_ends(pid_t pid, int descriptor, int option)
{
	static const char *const terminals[] = {"/dev/pts/", "/dev/tty", "/dev/console"};
	char path[64], target[64] = "";
	bool is_socket, is_terminal = false, ends;
	int copy;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, descriptor);
	if (readlink(path, target, sizeof(target) - 1) < 0)
		return false;
	is_socket = strncmp(target, "socket:", strlen("socket:")) == 0;
	for (size_t i = 0; i < sizeof(terminals) / sizeof(*terminals); i++)
		is_terminal |= strncmp(target, terminals[i], strlen(terminals[i])) == 0;
	if (!is_socket && !is_terminal)
		return false;
	copy = copy_descriptor(pid, descriptor);
	if (copy < 0 && is_terminal) /* before Linux 5.6 */
		copy = open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	ends = copy < 0 || (is_socket ? socket_has_timeout(copy, option) : terminal_ends(copy));
	if (copy >= 0)
		close(copy);
	return ends;
}

bool thread_wait_is_lasting(const struct thread_wait *wait, pid_t pid)
{
	int i = call_index(wait->number), descriptor = (int)wait->arguments[DESCRIPTOR_ONLY];

	switch (i < 0 ? LASTS : calls[i].kind) {
	case ENDS:
		return false;
	case RECEIVES:
		return !(calls[i].flags != NO_ARGUMENT && (wait->arguments[calls[i].flags] & MSG_WAITALL)) &&
		       !descriptor_ends(pid, descriptor, SO_RCVTIMEO);
	case SENDS:
		return !descriptor_ends(pid, descriptor, SO_SNDTIMEO);
	case LASTS:
		break;
	}
	return true;
}

const char *thread_wait_name(const struct thread_wait *wait)
{
	int i = call_index(wait->number);

	return i < 0 ? "a system call" : calls[i].name;
}

bool thread_wait_is_futex(const struct thread_wait *wait)
{
	return wait->number == SYS_futex;
}
