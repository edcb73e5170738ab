/*
 * The private socket directory. See rendezvous.h.
 *
 * It is made by a client that may be root in a /tmp that the target's user may control (a container's). So nothing here follows a
 * link out of the target's root, and what is given away is given away by descriptor, the directory last: until then nobody
 * but us could have put anything into it.
 */

#define _GNU_SOURCE
#include "rendezvous.h"

#include "proto/names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET_NAME "s"
#define OPEN_MAX_AT_ONCE 64

/* Global because a signal handler must find them: what is to be removed when the program is left at once. */
static struct rendezvous *volatile open_ones[OPEN_MAX_AT_ONCE];

/* Where a directory may be made, in this order: as the kernel shows it of the process, and as the process calls it. */
static const struct place {
	const char *root; /* a link in /proc/PID */
	const char *path; /* below it; NULL: that itself */
	const char *theirs;
} places[] = {
	{"root", "tmp", "/tmp"},
	{"root", "var/tmp", "/var/tmp"},
	{"root", "dev/shm", "/dev/shm"},
	{"cwd", NULL, "/proc/self/cwd"},
};

static int place_open(const struct target *target, const struct place *place)
{
	struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
	char path[64];
	int root, fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)target->pid, place->root);
	root = open(path, (place->path ? O_PATH : O_RDONLY) | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	if (!place->path)
		return root;
	fd = (int)syscall(SYS_openat2, root, place->path, &how, sizeof(how));
	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		fd = openat(root, place->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		fd = -errno;
	close(root);
	return fd;
}

static void directory_remove(int temporary, int directory, const char *name)
{
	unlinkat(directory, SOCKET_NAME, 0);
	unlinkat(temporary, name, AT_REMOVEDIR);
}

/* Of clients that were killed while attaching: the PID in the name is dead, and the directory is ours or the target's user's. */
static void leftovers_remove(int temporary, const struct target *target)
{
	DIR *stream;
	struct dirent *entry;
	int fd;

	if (!target->same_pid_namespace) /* the numbers in the names may be of another namespace */
		return;
	fd = openat(temporary, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	stream = fd < 0 ? NULL : fdopendir(fd);
	if (!stream) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((entry = readdir(stream))) {
		struct stat status;
		int pid, directory;

		if (strncmp(entry->d_name, SOCKET_DIRECTORY_PREFIX, strlen(SOCKET_DIRECTORY_PREFIX)) != 0)
			continue;
		pid = atoi(entry->d_name + strlen(SOCKET_DIRECTORY_PREFIX));
		if (pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH)
			continue;
		directory = openat(temporary, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (directory < 0)
			continue;
		if (fstat(directory, &status) == 0 && (status.st_uid == geteuid() || status.st_uid == target->euid))
			directory_remove(temporary, directory, entry->d_name);
		close(directory);
	}
	closedir(stream);
}

static int directory_make(struct rendezvous *rendezvous)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

	for (int attempt = 0; attempt < 100; attempt++) {
		unsigned char random[8];
		size_t length;

		if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
			return -EIO;
		length = (size_t)snprintf(rendezvous->name, sizeof(rendezvous->name), SOCKET_DIRECTORY_PREFIX "%d-",
		                          (int)getpid());
		for (size_t i = 0; i < sizeof(random); i++)
			rendezvous->name[length + i] = letters[random[i] % (sizeof(letters) - 1)];
		rendezvous->name[length + sizeof(random)] = '\0';
		if (mkdirat(rendezvous->temporary, rendezvous->name, 0700) == 0) {
			rendezvous->directory =
				openat(rendezvous->temporary, rendezvous->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			return rendezvous->directory < 0 ? -errno : 0;
		}
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

/*
 * The process at the other end sees as whom we listened. In a user namespace of its own, root of the host is nobody that it knows or trusts; its
 * own user it does. Of the raw system call only this thread takes notice.
 */
static int listen_as(int listener, const struct target *target)
{
	uid_t own = geteuid();
	bool change = own == 0 && target->euid != own;
	int status;

	if (change && syscall(SYS_setresuid, -1, target->euid, -1) != 0)
		return -errno;
	status = listen(listener, 4) == 0 ? 0 : -errno;
	if (change && syscall(SYS_setresuid, -1, own, -1) != 0)
		return -errno;
	return status;
}

static int socket_listen(struct rendezvous *rendezvous, const struct target *target, const struct place *place)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int status;

	rendezvous->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (rendezvous->listener < 0)
		return -errno;
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" SOCKET_NAME, rendezvous->directory);
	if (bind(rendezvous->listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    fchmodat(rendezvous->directory, SOCKET_NAME, 0600, 0) != 0)
		return -errno;
	status = listen_as(rendezvous->listener, target);
	if (status < 0)
		return status;
	if (target->euid != geteuid() &&
	    (fchownat(rendezvous->directory, SOCKET_NAME, target->euid, target->egid, AT_SYMLINK_NOFOLLOW) != 0 ||
	     fchown(rendezvous->directory, target->euid, target->egid) != 0))
		return -errno;
	snprintf(rendezvous->socket_path, sizeof(rendezvous->socket_path), "%s/%s/" SOCKET_NAME, place->theirs, rendezvous->name);
	return 0;
}

static int place_take(struct rendezvous *rendezvous, const struct target *target, const struct place *place)
{
	int status = place_open(target, place);

	if (status < 0)
		return status;
	rendezvous->temporary = status;
	leftovers_remove(rendezvous->temporary, target);
	for (size_t i = 0; i < OPEN_MAX_AT_ONCE; i++)
		if (!open_ones[i]) {
			open_ones[i] = rendezvous;
			break;
		}
	status = directory_make(rendezvous);
	return status < 0 ? status : socket_listen(rendezvous, target, place);
}

int rendezvous_open(struct rendezvous *rendezvous, const struct target *target, struct error *err)
{
	int first = 0;

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		int status;

		*rendezvous = RENDEZVOUS_CLOSED;
		status = place_take(rendezvous, target, &places[i]);
		if (status == 0)
			return 0;
		rendezvous_close(rendezvous);
		if (i == 0)
			first = status;
	}
	return error_set(
		err, first,
		"cannot make a socket for process %d in its /tmp (/proc/%d/root/tmp): %s; nor in its /var/tmp, /dev/shm or "
		"current directory",
		(int)target->pid, (int)target->pid, strerror(-first));
}

int rendezvous_accept(struct rendezvous *rendezvous, const struct target *target)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);
	int fd = accept4(rendezvous->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return -EAGAIN;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid != target->pid) {
		close(fd);
		return -EAGAIN;
	}
	return fd;
}

void rendezvous_close(struct rendezvous *rendezvous)
{
	if (rendezvous->directory >= 0)
		directory_remove(rendezvous->temporary, rendezvous->directory, rendezvous->name);
	if (rendezvous->listener >= 0)
		close(rendezvous->listener);
	if (rendezvous->directory >= 0)
		close(rendezvous->directory);
	if (rendezvous->temporary >= 0)
		close(rendezvous->temporary);
	*rendezvous = RENDEZVOUS_CLOSED;
	for (size_t i = 0; i < OPEN_MAX_AT_ONCE; i++)
		if (open_ones[i] == rendezvous)
			open_ones[i] = NULL;
}

void rendezvous_abandon_all(void)
{
	for (size_t i = 0; i < OPEN_MAX_AT_ONCE; i++) {
		const struct rendezvous *rendezvous = open_ones[i];

		if (rendezvous && rendezvous->directory >= 0)
			directory_remove(rendezvous->temporary, rendezvous->directory, rendezvous->name);
	}
}
