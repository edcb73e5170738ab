/*
 * The private socket, the client's side. See rendezvous.h.
 *
 * A child makes the directory and binds the socket (rendezvous_keeper.c), with the target's user: so nothing that a
 * hostile /tmp does concerns anybody else, and a file system that hangs holds up only the child. Who listens and
 * accepts is this process, as the target can check.
 */

#define _GNU_SOURCE
#include "tracer/attach/rendezvous.h"

#include "proto/clock.h"
#include "tracer/attach/rendezvous_keeper.h"
#include "tracer/base/poll_until.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* the same for all processors that we know */
#endif

#define BACKLOG 1024         /* forked children of a process that come at once */
#define KEEPER_DESCRIPTORS 8 /* that it has open at a time, at most */
#define ENOUGH_FILES 64ull   /* to be open, for one process */
#define MAKING_NS (5 * NS_PER_S)
#define ENDING_NS (2000 * NS_PER_MS)

/*
 * The process at the other end sees as whom we listened. In a user namespace of its own, root of the host is nobody
 * that it knows or trusts; its own user it does. Of the raw system call only this thread takes notice.
 */
static int listen_as(int listener, const struct target *target)
{
	uid_t own = geteuid();
	bool change = own == 0 && target->euid != own;
	int status;

	if (change && syscall(SYS_setresuid, -1, target->euid, -1) != 0)
		return -errno;
	status = listen(listener, BACKLOG) == 0 ? 0 : -errno;
	if (change && syscall(SYS_setresuid, -1, own, -1) != 0)
		return -errno;
	return status;
}

/* Since Linux 6.16. Whoever connects may then send none: to let go of one may take as long as its sender likes. */
static void refuse_descriptors(int listener)
{
	static const int none = 0;

	setsockopt(listener, SOL_SOCKET, SO_PASSRIGHTS, &none, sizeof(none));
}

static int keeper_start(struct rendezvous *rendezvous, const struct target *target, bool descriptors)
{
	pid_t client = getpid();
	int ends[2];

	rendezvous->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (rendezvous->listener < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return -errno;
	if (!descriptors)
		refuse_descriptors(rendezvous->listener);
	rendezvous->keeper = ends[0];
	rendezvous->keeper_pid = fork();
	if (rendezvous->keeper_pid == 0)
		keeper_main(target, rendezvous->listener, ends[1], client);
	close(ends[1]);
	return rendezvous->keeper_pid < 0 ? -errno : 0;
}

/* What it says is as good as the target's user's word. */
static int keeper_await(struct rendezvous *rendezvous, struct keeper_report *report)
{
	struct pollfd keeper = {.fd = rendezvous->keeper, .events = POLLIN};
	uint64_t deadline_ns = clock_now_ns() + MAKING_NS;

	/* Signals have their turn when it is done: a terminal that changes its size is no reason to give up. */
	while (!poll_until(&keeper, 1, deadline_ns))
		if (clock_now_ns() >= deadline_ns)
			return -ETIMEDOUT;
	/* Ready: it does not wait. */
	if (read(rendezvous->keeper, report, sizeof(*report)) != (ssize_t)sizeof(*report))
		return -EIO;
	if (report->status == 0 && !keeper_place(report->place))
		return -EPROTO;
	report->name[sizeof(report->name) - 1] = '\0';
	return report->status;
}

/* Whether the keeper, which starts with ours, may have failed for want of them. *limit: how many there may be. */
static bool few_descriptors_left(unsigned long long *limit)
{
	int made[KEEPER_DESCRIPTORS], count = 0;
	struct rlimit files;

	while (count < KEEPER_DESCRIPTORS && (made[count] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0)
		count++;
	for (int i = 0; i < count; i++)
		close(made[i]);
	*limit = getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur : 0;
	return count < KEEPER_DESCRIPTORS;
}

int rendezvous_open(struct rendezvous *rendezvous, const struct target *target, bool descriptors, struct error *err)
{
	struct keeper_report report = {.place = -1};
	int pid = (int)target->pid, status;
	unsigned long long limit;

	*rendezvous = RENDEZVOUS_CLOSED;
	status = keeper_start(rendezvous, target, descriptors);
	if (status == 0)
		status = keeper_await(rendezvous, &report);
	if (status == 0)
		status = listen_as(rendezvous->listener, target);
	if (status == 0) {
		snprintf(rendezvous->socket_path, sizeof(rendezvous->socket_path), "%s/%s/" SOCKET_NAME,
		         keeper_place(report.place), report.name);
		return 0;
	}
	rendezvous_close(rendezvous);
	if ((status == -EIO || status == -EMFILE) && few_descriptors_left(&limit))
		return error_set(
			err, -EMFILE,
			"cannot make a socket for process %d: no more than %llu files may be open here, which is too few; "
			"`ulimit -n %llu` before rbprobe allows more",
			pid, limit, limit < ENOUGH_FILES / 2 ? ENOUGH_FILES : limit * 2);
	if (status == -ETIMEDOUT)
		return error_set(err, status, "cannot make a socket for process %d: the file system of its /tmp does not answer",
		                 pid);
	return error_set(err, status,
	                 "cannot make a socket for process %d in its /tmp (/proc/%d/root/tmp), as its user: %s; nor in its "
	                 "/var/tmp, /dev/shm or current directory; one of them has to be writable (docker run --tmpfs /tmp)",
	                 pid, pid, strerror(-status));
}

/* pid and user: who may be at the other end; 0 and -1: any. Fills *peer. */
static int accept_from(const struct rendezvous *rendezvous, pid_t pid, uid_t user, struct ucred *peer)
{
	socklen_t size = sizeof(*peer);
	int fd = accept4(rendezvous->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return -EAGAIN;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &size) == 0 && (!pid || peer->pid == pid) &&
	    (user == (uid_t)-1 || peer->uid == user))
		return fd;
	close(fd);
	return -EAGAIN;
}

int rendezvous_accept(struct rendezvous *rendezvous, const struct target *target)
{
	struct ucred peer;

	return accept_from(rendezvous, target->pid, (uid_t)-1, &peer);
}

int rendezvous_accept_other(struct rendezvous *rendezvous, uid_t user, pid_t *pid)
{
	struct ucred peer = {.pid = 0};
	int fd = accept_from(rendezvous, 0, user, &peer);

	*pid = peer.pid;
	return fd;
}

/*
 * So that nothing is left when the client is gone. One that the target's user has stopped is not waited for. One that hangs in a
 * file system, or gets no processor, is not waited for long: it still removes what it made when it can.
 */
static void keeper_end(pid_t pid)
{
	uint64_t deadline_ns = clock_now_ns() + ENDING_NS;
	struct timespec pause = {.tv_nsec = 50 * (long)NS_PER_US};
	int how = 0;

	while (waitpid(pid, &how, WNOHANG | WUNTRACED) == 0 && clock_now_ns() < deadline_ns)
		nanosleep(&pause, NULL);
	if (WIFSTOPPED(how))
		kill(pid, SIGKILL);
}

void rendezvous_close(struct rendezvous *rendezvous)
{
	if (rendezvous->keeper >= 0)
		close(rendezvous->keeper);
	if (rendezvous->keeper_pid > 0)
		keeper_end(rendezvous->keeper_pid);
	if (rendezvous->listener >= 0)
		close(rendezvous->listener);
	*rendezvous = RENDEZVOUS_CLOSED;
}
