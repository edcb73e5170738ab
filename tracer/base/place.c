/* Where a path leads. See place.h. */

#define _GNU_SOURCE
#include "tracer/base/place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define LINKS_MAX 40 /* as the kernel */
#define OTHERS_WRITE (S_IWGRP | S_IWOTH)

/* What is left of the way. */
struct way {
	struct place *place;
	int at; /* the directory reached so far */
	unsigned links;
	char rest[PATH_MAX]; /* names from there */
};

bool place_is_trusted(const struct stat *status)
{
	return status->st_uid == 0 || status->st_uid == geteuid();
}

static bool may_follow(const struct stat *link, const struct stat *directory)
{
	return place_is_trusted(link) || (place_is_trusted(directory) && !(directory->st_mode & OTHERS_WRITE));
}

static int enter(struct way *way, int directory)
{
	struct stat status;

	if (directory < 0)
		return -errno;
	if (way->at >= 0 && way->at != way->place->directory)
		close(way->at);
	way->at = directory;
	if (fstat(directory, &status) != 0)
		return -errno;
	/* In a sticky one, such as /tmp, a file can be replaced by its owner alone. */
	if (!place_is_trusted(&status) || ((status.st_mode & S_IWOTH) && !(status.st_mode & S_ISVTX)))
		way->place->guarded = false;
	return 0;
}

/* Puts where the link leads in front of what is left. */
static int follow(struct way *way, int link, const char *more)
{
	char rest[PATH_MAX];
	ssize_t size = readlinkat(link, "", rest, sizeof(rest));

	if (size <= 0)
		return size < 0 ? -errno : -ENOENT;
	if ((size_t)size + 1 + strlen(more) >= sizeof(rest))
		return -ENAMETOOLONG;
	snprintf(rest + size, sizeof(rest) - (size_t)size, "/%s", more);
	memcpy(way->rest, rest, (size_t)size + 1 + strlen(more) + 1);
	return way->rest[0] == '/' ? enter(way, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)) : 0;
}

/* A link in /proc is the kernel's: it leads to what the descriptor has, also where that has no path. */
static bool is_of_proc(int link)
{
	struct statfs system;

	return fstatfs(link, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

/* fd: what is called `name`, the first of what is left. 1: that was all. */
static int step_from(struct way *way, int fd, const char *name, const char *more, struct error *err)
{
	struct stat status, directory;

	if (fstat(fd, &status) != 0 || fstat(way->at, &directory) != 0)
		return -errno;
	if (S_ISLNK(status.st_mode)) {
		if (!may_follow(&status, &directory))
			return error_set(err, -EPERM, "%s is a link of another user (%u), who decides where it leads", name,
			                 (unsigned)status.st_uid);
		if (++way->links > LINKS_MAX)
			return -ELOOP;
		if (!is_of_proc(fd))
			return follow(way, fd, more);
		fd = openat(way->at, name, O_PATH | O_CLOEXEC | (*more ? O_DIRECTORY : 0));
		way->place->by_descriptor = !*more;
	} else {
		fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	}
	if (fd < 0)
		return -errno;
	if (!*more) {
		way->place->found = fd;
		return 1;
	}
	memmove(way->rest, more, strlen(more) + 1);
	return enter(way, fd);
}

/* 1: there; 0: one name further. */
static int step(struct way *way, struct error *err)
{
	char name[NAME_MAX + 1];
	const char *from = way->rest + strspn(way->rest, "/"), *more;
	size_t size = strcspn(from, "/");
	int fd, code;

	if (size > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, from, size);
	name[size] = '\0';
	more = from + size + strspn(from + size, "/");
	if (!*more && way->place->directory < 0)
		way->place->directory = way->at;
	if (!size) /* only the root directory has no name */
		return (way->place->found = fcntl(way->at, F_DUPFD_CLOEXEC, 0)) < 0 ? -errno : 1;
	/* O_DIRECTORY also has file systems mounted that are mounted on demand. */
	fd = openat(way->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC | (*more ? O_DIRECTORY : 0));
	if (fd < 0 && errno == ENOTDIR && *more) {
		struct stat status;

		fd = openat(way->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && fstat(fd, &status) == 0 && !S_ISLNK(status.st_mode)) {
			close(fd);
			return -ENOTDIR;
		}
	}
	if (fd < 0)
		return errno == ENOENT && !*more ? 1 : -errno;
	code = step_from(way, fd, name, more, err);
	close(fd);
	return code;
}

int place_find(struct place *place, const char *path, struct error *err)
{
	const char *slash = strrchr(path, '/');
	struct way way = {.place = place, .at = -1};
	struct error why = {0};
	int code;

	*place = (struct place){.directory = -1, .name = slash ? slash + 1 : path, .found = -1, .guarded = true};
	if (!*path)
		return error_set(err, -ENOENT, "%s", strerror(ENOENT));
	if (strlen(path) >= sizeof(way.rest))
		return error_set(err, -ENAMETOOLONG, "%s", strerror(ENAMETOOLONG));
	memcpy(way.rest, path, strlen(path) + 1);
	code = enter(&way, open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
	while (code == 0)
		code = step(&way, &why);
	if (way.at >= 0 && way.at != place->directory)
		close(way.at);
	if (code >= 0)
		return 0;
	return error_set(err, code, "%s", why.code ? why.text : strerror(-code));
}

int place_open_found(const struct place *place, int flags)
{
	char found[64];

	snprintf(found, sizeof(found), "/proc/self/fd/%d", place->found);
	return open(found, flags);
}

void place_close(struct place *place)
{
	if (place->directory >= 0)
		close(place->directory);
	if (place->found >= 0)
		close(place->found);
	place->directory = place->found = -1;
}
