/* The console's history file. See console_history.h. */

#define _GNU_SOURCE
#include "tracer/console/console_history.h"

#include "tracer/base/buffer.h"
#include "tracer/base/place.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_SIZE_MAX (16 << 20) /* of a file that somebody else has made there, no more is looked at */

char *history_path(void)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	char *path = NULL;
	int size = -1;

	/* The specification says that a relative one is to be ignored. */
	if (state && state[0] == '/')
		size = asprintf(&path, "%s/rbprobe/console_history", state);
	else if (home && home[0] == '/')
		size = asprintf(&path, "%s/.local/state/rbprobe/console_history", home);
	return size < 0 ? NULL : path;
}

/* One step down; a link is followed only where we or root have made it. Negative errno. */
static int step(int directory, const char *name)
{
	struct stat status;
	int fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), code = 0;

	if (fd < 0 && errno == ENOENT) {
		/* Also in a directory of root's that everybody may write to, such as /tmp. */
		if (mkdirat(directory, name, 0700) != 0 && errno != EEXIST)
			return -errno;
		fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR) && fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
		if (!place_is_trusted(&status))
			return -EPERM;
		fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) != 0)
		code = -errno;
	else if (!place_is_trusted(&status))
		code = -EPERM;
	if (code < 0)
		close(fd);
	return code < 0 ? code : fd;
}

/*
 * The directory that the file is in, which is made where it is missing, and the file's name. With sudo HOME may be another
 * user's, who could lead root anywhere by links: then there is no history. Negative errno.
 */
static int directory_open(const char *path, const char **name)
{
	char *copy = strdup(path), *at = copy;
	int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (char *slash; copy && fd >= 0 && (slash = strchr(at, '/')); at = slash + 1) {
		int above = fd;

		*slash = '\0';
		if (!*at)
			continue;
		fd = step(above, at);
		close(above);
	}
	*name = copy ? path + (at - copy) : path;
	free(copy);
	return fd;
}

static int file_check(int fd)
{
	struct stat status;

	if (fstat(fd, &status) != 0)
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	/* A second name may be that of a file which somebody wants to have changed. */
	if (status.st_uid != geteuid() || status.st_nlink > 1)
		return -EPERM;
	return (status.st_mode & 07777) == 0600 || fchmod(fd, 0600) == 0 ? 0 : -errno;
}

/* The file, locked; whoever shortened it meanwhile has put another one into its place. Negative errno. */
static int open_locked(int directory, const char *name)
{
	for (;;) {
		int fd = openat(directory, name, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW,
		                0600);
		struct stat opened, there;
		int code;

		if (fd < 0)
			return errno == ELOOP ? -EPERM : -errno;
		while (flock(fd, LOCK_EX) != 0 && errno == EINTR)
			;
		if (fstat(fd, &opened) == 0 && fstatat(directory, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
		    there.st_ino == opened.st_ino && there.st_dev == opened.st_dev) {
			code = file_check(fd);
			if (code == 0)
				return fd;
			close(fd);
			return code;
		}
		close(fd);
	}
}

static int read_all(int fd, struct buffer *bytes)
{
	for (;;) {
		char *to = buffer_reserve(bytes, 65536);
		ssize_t size = pread(fd, to, 65536, (off_t)bytes->size);

		if (size < 0 && errno == EINTR)
			continue;
		if (size < 0)
			return -errno;
		if (size == 0 || bytes->size > FILE_SIZE_MAX)
			return 0;
		bytes->size += (size_t)size;
	}
}

static void unescape(const char *from, size_t size, struct buffer *entry)
{
	entry->size = 0;
	for (size_t i = 0; i < size; i++) {
		if (from[i] == '\\' && i + 1 < size) {
			i++;
			buffer_add_char(entry, from[i] == 'n' ? '\n' : from[i]);
		} else if (from[i] != '\0') {
			buffer_add_char(entry, from[i]);
		}
	}
	buffer_add_char(entry, '\0');
}

/* Where the last HISTORY_MAX lines begin. */
static size_t start_of_newest(const struct buffer *bytes)
{
	size_t lines = 0;

	for (size_t i = bytes->size; i > 0; i--)
		if (bytes->bytes[i - 1] == '\n' && ++lines > HISTORY_MAX)
			return i;
	return 0;
}

/* Puts a shorter file into the place of the one that is open and locked. Where that fails the long one stays. */
static void replace(int directory, const char *name, const char *bytes, size_t size)
{
	char *other = NULL;
	uint64_t random;
	int fd;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random) || asprintf(&other, ".%s.%016" PRIx64, name, random) < 0)
		return;
	fd = openat(directory, other, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0) {
		bool whole = write(fd, bytes, size) == (ssize_t)size;

		if (close(fd) != 0 || !whole || renameat(directory, other, directory, name) != 0)
			unlinkat(directory, other, 0);
	}
	free(other);
}

/* The file of this history, and its directory, which the caller closes as well. Negative errno. */
static int history_file(const struct history *history, int *directory, const char **name)
{
	int fd;

	*directory = history->path ? directory_open(history->path, name) : -ENOENT;
	if (*directory < 0)
		return *directory;
	fd = open_locked(*directory, *name);
	if (fd < 0)
		close(*directory);
	return fd;
}

int history_open(struct history *history, void (*add)(const char *entry))
{
	struct buffer bytes = {0}, entry = {0};
	const char *name;
	int fd, directory;
	size_t begin;

	fd = history_file(history, &directory, &name);
	if (fd < 0) {
		history_close(history);
		return fd;
	}
	read_all(fd, &bytes);
	begin = start_of_newest(&bytes);
	/* Not for every entry too many. */
	if (begin > bytes.size / 4)
		replace(directory, name, bytes.bytes + begin, bytes.size - begin);
	close(directory);
	close(fd);
	while (begin < bytes.size) {
		const char *end = memchr(bytes.bytes + begin, '\n', bytes.size - begin);
		size_t size = end ? (size_t)(end - bytes.bytes) - begin : bytes.size - begin;

		unescape(bytes.bytes + begin, size, &entry);
		if (entry.size > 1)
			add(entry.bytes);
		begin += size + 1;
	}
	buffer_free(&entry);
	buffer_free(&bytes);
	return 0;
}

static bool ends_with_newline(int fd)
{
	struct stat status;
	char last;

	return fstat(fd, &status) != 0 || status.st_size == 0 || pread(fd, &last, 1, status.st_size - 1) != 1 || last == '\n';
}

void history_add(struct history *history, const char *entry)
{
	struct buffer line = {0};
	const char *name;
	int fd, directory;

	if (!history->path || entry[0] == ' ' || entry[0] == '\0')
		return;
	fd = history_file(history, &directory, &name);
	if (fd < 0)
		return;
	close(directory);
	/* A line that was torn by a full disk is no part of this one. */
	if (!ends_with_newline(fd))
		buffer_add_char(&line, '\n');
	for (; *entry; entry++) {
		if (*entry == '\n' || *entry == '\\')
			buffer_add_char(&line, '\\');
		buffer_add_char(&line, *entry == '\n' ? 'n' : *entry);
	}
	buffer_add_char(&line, '\n');
	if (write(fd, line.bytes, line.size) != (ssize_t)line.size)
		history_close(history); /* a full disk: what is torn is one line of text */
	close(fd);
	buffer_free(&line);
}

void history_close(struct history *history)
{
	free(history->path);
	history->path = NULL;
}
