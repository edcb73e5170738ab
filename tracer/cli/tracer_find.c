/* Finding tracers, and reading their files. See tracer_find.h. */

#define _GNU_SOURCE
#include "tracer/cli/tracer_find.h"

#include "tracer/base/buffer.h"
#include "tracer/base/place.h"
#include "tracer/cli/nearest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUFFIX ".tracer"
#define OTHERS_WRITE (S_IWGRP | S_IWOTH)
#define DIRECTORIES_MAX 2

/* --- Directories */

struct directories {
	char paths[DIRECTORIES_MAX][PATH_MAX];
	size_t count;
};

static void add_own(struct directories *to)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char *path = to->paths[to->count];
	int size;

	/* The specification wants relative ones ignored. */
	if (config && config[0] == '/')
		size = snprintf(path, PATH_MAX, "%s/rbprobe/tracers", config);
	else if (home && home[0] == '/')
		size = snprintf(path, PATH_MAX, "%s/.config/rbprobe/tracers", home);
	else
		return;
	to->count += size > 0 && size < PATH_MAX;
}

/* Beside the binary where it was built, below share where it is installed. */
static void add_installed(struct directories *to)
{
	static const char *const places[] = {"tracers", "../share/rbprobe/tracers"};
	char self[PATH_MAX], candidate[PATH_MAX + 32], *slash;
	ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (size < 0)
		return;
	self[size] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		snprintf(candidate, sizeof(candidate), "%s/%s", self, places[i]);
		if (!realpath(candidate, to->paths[to->count]))
			continue;
		to->count++;
		return;
	}
}

static void directories_find(struct directories *directories)
{
	directories->count = 0;
	add_own(directories);
	add_installed(directories);
}

static int is_tracer(const struct dirent *entry)
{
	size_t size = strlen(entry->d_name);

	return size > strlen(SUFFIX) && entry->d_name[0] != '.' && strcmp(entry->d_name + size - strlen(SUFFIX), SUFFIX) == 0;
}

static bool is_in(const char *directory, const char *file)
{
	char path[2 * PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", directory, file);
	return access(path, F_OK) == 0;
}

int tracer_each(int (*each)(void *owner, const char *name, const char *path), void *owner)
{
	struct directories directories;
	int status = 0;

	directories_find(&directories);
	for (size_t i = 0; i < directories.count && status == 0; i++) {
		struct dirent **entries;
		int count = scandir(directories.paths[i], &entries, is_tracer, alphasort);

		for (int k = 0; k < count; k++) {
			char path[PATH_MAX + NAME_MAX + 2], name[NAME_MAX + 1];

			snprintf(path, sizeof(path), "%s/%s", directories.paths[i], entries[k]->d_name);
			snprintf(name, sizeof(name), "%.*s", (int)(strlen(entries[k]->d_name) - strlen(SUFFIX)),
			         entries[k]->d_name);
			if (status == 0 && (i == 0 || !is_in(directories.paths[0], entries[k]->d_name)))
				status = each(owner, name, path);
			free(entries[k]);
		}
		if (count >= 0)
			free(entries);
	}
	return status;
}

/* --- One file */

/*
 * Process substitution, `-c <(...)`: a pipe among the descriptors that we were started with. Who started us has made it, and said
 * to read it; a pipe that another user has made is refused.
 */
static bool is_given_pipe(const struct place *place, const struct stat *status, const char *path)
{
	static const char *const ours[] = {"/dev/fd/", "/proc/self/fd/", "/dev/stdin"};

	for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
		if (strncmp(path, ours[i], strlen(ours[i])) == 0)
			return place->by_descriptor && S_ISFIFO(status->st_mode) && status->st_uid == geteuid() &&
			       !(status->st_mode & OTHERS_WRITE);
	return false;
}

static int check_owner(const struct place *place, const struct stat *status, const char *path, struct error *err)
{
	if (geteuid() != 0)
		return 0;
	if (!place_is_trusted(status))
		return error_set(
			err, -EPERM,
			"tracer %s belongs to user %u, whose expressions root would run in processes; take a copy of root's own",
			path, (unsigned)status->st_uid);
	if (status->st_mode & OTHERS_WRITE)
		return error_set(err, -EPERM,
		                 "tracer %s may be written by others (mode %03o), whose expressions root would run in processes; "
		                 "chmod go-w",
		                 path, (unsigned)status->st_mode & 0777);
	if (!place->guarded)
		return error_set(
			err, -EPERM,
			"tracer %s is in a directory in which others may replace it, and root would run their expressions in "
			"processes; move it",
			path);
	return 0;
}

static int read_text(int fd, const char *path, char **text, struct error *err)
{
	struct buffer buffer = {0};
	ssize_t got = 1;

	while (got > 0 && buffer.size <= TRACER_SIZE_MAX) {
		got = read(fd, buffer_reserve(&buffer, 65536), 65536);
		buffer.size += got > 0 ? (size_t)got : 0;
	}
	buffer_add_char(&buffer, '\0');
	*text = buffer.bytes;
	if (got < 0)
		error_set(err, -errno, "cannot read tracer %s: %s", path, strerror(errno));
	else if (buffer.size > TRACER_SIZE_MAX)
		error_set(err, -EFBIG, "tracer %s is larger than %u bytes", path, TRACER_SIZE_MAX);
	else if (strlen(buffer.bytes) + 1 != buffer.size)
		error_set(err, -EINVAL, "tracer %s is no text", path);
	else
		return 0;
	buffer_free(&buffer);
	return err->code;
}

static char *copy_of(const char *text)
{
	size_t size = strlen(text) + 1;

	return memcpy(memory_resize(NULL, size), text, size);
}

/* What pipes have given, which is there but once: the options may be read for each process. They live as long as we do. */
static struct given_text {
	char *path, *text;
	struct given_text *next;
} * given_texts;

static char *given_text(const char *path)
{
	for (const struct given_text *given = given_texts; given; given = given->next)
		if (strcmp(given->path, path) == 0)
			return copy_of(given->text);
	return NULL;
}

static void keep_given_text(const char *path, const char *text)
{
	struct given_text *given = memory_zeroed(sizeof(*given));

	*given = (struct given_text){copy_of(path), copy_of(text), given_texts};
	given_texts = given;
}

static int read_place(const struct place *place, const char *path, char **text, struct error *err)
{
	struct stat status;
	bool is_pipe;
	int fd, code;

	if (fstat(place->found, &status) != 0)
		return error_set(err, -errno, "cannot read tracer %s: %s", path, strerror(errno));
	is_pipe = is_given_pipe(place, &status, path);
	if (is_pipe && (*text = given_text(path)))
		return 0;
	if (!is_pipe) {
		if (!S_ISREG(status.st_mode))
			return error_set(err, -EINVAL, "tracer %s is no file", path);
		code = check_owner(place, &status, path, err);
		if (code < 0)
			return code;
	}
	fd = place_open_found(place, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, -errno, "cannot read tracer %s: %s", path, strerror(errno));
	code = read_text(fd, path, text, err);
	close(fd);
	if (code == 0 && is_pipe)
		keep_given_text(path, *text);
	return code;
}

/* -ENOENT: there is none. */
static int read_file(struct tracer_file *file, const char *path, struct error *err)
{
	struct place place;
	struct error why = {0};
	char *text = NULL;
	int code = place_find(&place, path, &why);

	if (code < 0)
		error_set(err, code, "cannot read tracer %s: %s", path, why.text);
	else if (place.found < 0)
		code = error_set(err, -ENOENT, "cannot read tracer %s: %s", path, strerror(ENOENT));
	else
		code = read_place(&place, path, &text, err);
	place_close(&place);
	if (code < 0)
		return code;
	code = tracer_file_parse(file, path, text, err);
	if (code < 0)
		tracer_file_free(file);
	return code;
}

struct search {
	const char *wanted;
	char path[PATH_MAX + NAME_MAX + 2];
	struct nearest nearest;
	char found[NAME_MAX + 1];
};

static int look(void *owner, const char *name, const char *path)
{
	struct search *search = owner;
	const char *before = search->nearest.found;

	if (strcmp(name, search->wanted) == 0) {
		snprintf(search->path, sizeof(search->path), "%s", path);
		return 1;
	}
	nearest_consider(&search->nearest, name);
	if (search->nearest.found != before) {
		snprintf(search->found, sizeof(search->found), "%s", name);
		search->nearest.found = search->found;
	}
	return 0;
}

int tracer_find(struct tracer_file *file, const char *name, struct error *err)
{
	struct search search = {.wanted = name};
	size_t size = strlen(name);

	/* A file that somebody has called as a tracer that ships is not taken for it: names of tracers have no suffix. */
	if (strchr(name, '/') || (size > strlen(SUFFIX) && strcmp(name + size - strlen(SUFFIX), SUFFIX) == 0))
		return read_file(file, name, err);
	nearest_begin(&search.nearest, name, size);
	if (tracer_each(look, &search))
		return read_file(file, search.path, err);
	if (search.nearest.found)
		return error_set(err, -ENOENT, "there is no tracer \"%.100s\"; did you mean %s?", name, search.nearest.found);
	return error_set(err, -ENOENT,
	                 "there is no tracer \"%.100s\"; `rbprobe tracers` lists them, and a file is ./FILE or FILE.tracer",
	                 name);
}
