/*
 * Making and removing the private directory. See rendezvous_keeper.h.
 *
 * The /tmp may be anybody's, and what was made there may be replaced by something else a moment later, by renaming or
 * mounting. So nothing here is done with another user's rights than the target's: whatever its user can make of it, he
 * could have done himself. There is no chown.
 */

#define _GNU_SOURCE
#include "tracer/attach/rendezvous_keeper.h"

#include "proto/clock.h"
#include "proto/names.h"
#include "tracer/process/confined.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define NAMES_TRIED 100
#define CLEANING_NS (100 * NS_PER_MS) /* of CPU time, less what the keeper has taken before */

/*
 * Where a directory may be made, in this order: below the process's root directory, or its current one; and as the
 * process calls it.
 */
static const struct place {
	const char *path; /* NULL: the current directory */
	const char *theirs;
} places[] = {
	{"tmp", "/tmp"},
	{"var/tmp", "/var/tmp"},
	{"dev/shm", "/dev/shm"},
	{NULL, "."}, /* not by its /proc, which a root directory of its own may lack */
};

#define PLACE_COUNT ((int)(sizeof(places) / sizeof(*places)))

const char *keeper_place(int place)
{
	return place >= 0 && place < PLACE_COUNT ? places[place].theirs : NULL;
}

static int open_resolved(int above, const char *path, unsigned long resolve)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = resolve};
	int fd = (int)syscall(__NR_openat2, above, path, &how, sizeof(how));

	/* Before Linux 5.6, or a filter does not know it. */
	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		fd = openat(above, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Is it ours, for us alone, on the same file system as what it is in? */
static bool is_own_directory(int directory, int above)
{
	struct stat status, outside;

	return fstat(directory, &status) == 0 && fstat(above, &outside) == 0 && status.st_uid == geteuid() &&
	       (status.st_mode & 07777) == 0700 && status.st_dev == outside.st_dev;
}

static int own_directory_open(int above, const char *name)
{
	int directory = open_resolved(above, name, RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);

	if (directory >= 0 && !is_own_directory(directory, above)) {
		close(directory);
		return -EPERM;
	}
	return directory;
}

static void directory_remove(int above, int directory, const char *name)
{
	unlinkat(directory, SOCKET_NAME, 0);
	unlinkat(above, name, AT_REMOVEDIR);
}

/*
 * Of clients that were killed with their keepers: the PID in the name is dead. When all else is done, and not for long:
 * anybody may have made a million such names.
 */
static void leftovers_remove(int above)
{
	int fd = openat(above, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	while (stream && clock_ns(CLOCK_PROCESS_CPUTIME_ID) < CLEANING_NS && (entry = readdir(stream))) {
		int pid, directory;

		if (strncmp(entry->d_name, SOCKET_DIRECTORY_PREFIX, strlen(SOCKET_DIRECTORY_PREFIX)) != 0)
			continue;
		pid = atoi(entry->d_name + strlen(SOCKET_DIRECTORY_PREFIX));
		if (pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH)
			continue;
		directory = own_directory_open(above, entry->d_name);
		if (directory < 0)
			continue;
		directory_remove(above, directory, entry->d_name);
		close(directory);
	}
	if (stream)
		closedir(stream);
	else if (fd >= 0)
		close(fd);
}

static int name_choose(char name[64], pid_t client)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	unsigned char random[8];
	size_t length;

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return -EIO;
	length = (size_t)snprintf(name, 32, SOCKET_DIRECTORY_PREFIX "%d-", (int)client);
	for (size_t i = 0; i < sizeof(random); i++)
		name[length + i] = letters[random[i] % (sizeof(letters) - 1)];
	name[length + sizeof(random)] = '\0';
	return 0;
}

/* The descriptor of a new directory in `above`, or -errno. */
static int directory_make(int above, char name[64], pid_t client)
{
	int directory, status = -EEXIST;

	for (int i = 0; i < NAMES_TRIED && status == -EEXIST; i++) {
		status = name_choose(name, client);
		if (status == 0 && mkdirat(above, name, 0700) != 0)
			status = -errno;
	}
	if (status < 0)
		return status;
	directory = own_directory_open(above, name);
	if (directory < 0)
		unlinkat(above, name, AT_REMOVEDIR);
	return directory;
}

/* The path that bind takes has no room for a long one; so it goes from the directory itself. */
static int socket_make(int directory, int listener)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = SOCKET_NAME};

	if (fchdir(directory) != 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    fchmodat(directory, SOCKET_NAME, 0600, 0) != 0)
		return -errno;
	return 0;
}

static int place_open(const struct confined *confined, const struct place *place)
{
	if (place->path)
		return confined->root < 0 ? -ENOENT : open_resolved(confined->root, place->path, RESOLVE_IN_ROOT);
	return confined->directory < 0 ? -ENOENT : dup(confined->directory);
}

/* Returns the directory's descriptor, and in *above that of what it is in; or -errno. */
static int place_take(const struct confined *confined, const struct place *place, int listener, pid_t client, char name[64],
                      int *above)
{
	int directory, status;

	*above = place_open(confined, place);
	if (*above < 0)
		return *above;
	directory = directory_make(*above, name, client);
	status = directory < 0 ? directory : socket_make(directory, listener);
	if (status == 0)
		return directory;
	if (directory >= 0) {
		directory_remove(*above, directory, name);
		close(directory);
	}
	close(*above);
	return status;
}

/* Nothing that is sent to it ends it before its work is done, short of SIGKILL; it has no terminal's keys. */
static void settle(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setpgid(0, 0);
	prctl(PR_SET_NAME, "rbprobe-socket");
	umask(0077);
}

_Noreturn void keeper_main(const struct target *target, int listener, int control, pid_t client)
{
	int kept[] = {listener, control}, above = -1, directory = -1;
	struct keeper_report report = {.status = -EPERM};
	struct confined confined;
	bool inside;
	char byte;

	confined_leave_ours(kept, 2);
	settle();
	if (!confined_take(&confined, target) || !confined_become(&confined, target, &inside) || geteuid() != target->euid) {
		report.place = PLACE_COUNT;
	} else {
		for (report.place = 0; report.place < PLACE_COUNT && directory < 0; report.place += directory < 0) {
			directory = place_take(&confined, &places[report.place], kept[0], client, report.name, &above);
			if (report.place == 0 || directory >= 0)
				report.status = directory < 0 ? directory : 0;
		}
	}
	/* Who listens is the parent alone: nobody connects to what it has closed. */
	close(kept[0]);
	if (write(kept[1], &report, sizeof(report)) == (ssize_t)sizeof(report) && directory >= 0)
		while (read(kept[1], &byte, 1) < 0 && errno == EINTR)
			;
	if (directory >= 0) {
		directory_remove(above, directory, report.name);
		if (target->same_pid_namespace) /* else the numbers in the names may be of another namespace */
			leftovers_remove(above);
	}
	_exit(0);
}
