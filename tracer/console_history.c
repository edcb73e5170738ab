/* The console's history file. See console_history.h. */

#define _GNU_SOURCE
#include "console_history.h"

#include "buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
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

static int make_directories(const char *path)
{
	char *part = strdup(path);
	int status = part ? 0 : -ENOMEM;

	for (char *slash = part ? strchr(part + 1, '/') : NULL; slash && status == 0; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(part, 0700) != 0 && errno != EEXIST)
			status = -errno;
		*slash = '/';
	}
	free(part);
	return status;
}

/* The file, locked; whoever shortened it meanwhile has put another one into its place. Negative errno. */
static int open_locked(const char *path)
{
	for (;;) {
		int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
		struct stat opened, there;

		if (fd < 0)
			return -errno;
		if (fstat(fd, &opened) != 0 || !S_ISREG(opened.st_mode)) {
			close(fd);
			return -EINVAL;
		}
		while (flock(fd, LOCK_EX) != 0 && errno == EINTR)
			;
		if (stat(path, &there) == 0 && there.st_ino == opened.st_ino && there.st_dev == opened.st_dev)
			return fd;
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
static void replace(const char *path, const char *bytes, size_t size)
{
	char *other = NULL;
	int fd;

	if (asprintf(&other, "%s.XXXXXX", path) < 0)
		return;
	fd = mkostemp(other, O_CLOEXEC);
	if (fd >= 0) {
		bool whole = write(fd, bytes, size) == (ssize_t)size;

		if (close(fd) != 0 || !whole || rename(other, path) != 0)
			unlink(other);
	}
	free(other);
}

int history_open(struct history *history, void (*add)(const char *entry))
{
	struct buffer bytes = {0}, entry = {0};
	int status, fd;
	size_t begin;

	status = history->path ? make_directories(history->path) : -ENOENT;
	fd = status < 0 ? status : open_locked(history->path);
	if (fd < 0) {
		history_close(history);
		return fd;
	}
	fchmod(fd, 0600);
	read_all(fd, &bytes);
	begin = start_of_newest(&bytes);
	/* Not for every entry too many. */
	if (begin > bytes.size / 4)
		replace(history->path, bytes.bytes + begin, bytes.size - begin);
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
	int fd;

	if (!history->path || entry[0] == ' ' || entry[0] == '\0')
		return;
	fd = open_locked(history->path);
	if (fd < 0)
		return;
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
