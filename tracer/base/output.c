/* Writing results in large pieces, and what happens when that fails. See output.h. */

#define _GNU_SOURCE
#include "tracer/base/output.h"

#include "proto/clock.h"
#include "tracer/base/fold.h"
#include "tracer/base/place.h"
#include "tracer/base/term.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A descriptor, or negative. What is there is opened as it was found, and what is new is made: no link is followed once more. */
static int open_place(const struct place *place, int flags)
{
	return place->found >= 0 ? place_open_found(place, flags)
	                         : openat(place->directory, place->name, flags | O_CREAT | O_EXCL, OUTPUT_MODE);
}

/*
 * Where all may make files, another user may have made this one, to read what we write. The kernel has the same rule, which not
 * all systems switch on (fs.protected_regular, fs.protected_fifos).
 */
static bool is_planted(const struct place *place, struct stat *found)
{
	struct stat directory;

	return place->found >= 0 && !place->by_descriptor && fstat(place->found, found) == 0 &&
	       (S_ISREG(found->st_mode) || S_ISFIFO(found->st_mode)) && !place_is_trusted(found) &&
	       fstat(place->directory, &directory) == 0 && directory.st_mode & S_IWOTH && directory.st_uid != found->st_uid;
}

int output_open(struct output *output, const char *path, bool append, struct error *err)
{
	struct place place;
	struct stat found;
	struct error why;
	int status;

	memset(output, 0, sizeof(*output));
	output->fd = STDOUT_FILENO;
	output->name = path ? path : "standard output";
	if (!path)
		return 0;
	status = place_find(&place, path, &why);
	if (status < 0) {
		place_close(&place);
		return error_set(err, status, "cannot write to %s: %s", path, why.text);
	}
	if (is_planted(&place, &found)) {
		place_close(&place);
		return error_set(err, -EPERM,
		                 "cannot write to %s: another user (%u) has made it, in a directory for all, and could read it; "
		                 "name another file",
		                 path, (unsigned)found.st_uid);
	}
	output->fd = open_place(&place, O_WRONLY | O_CLOEXEC | (append ? O_APPEND : 0));
	status = output->fd < 0 ? -errno : 0;
	output->replaces = !append && place.found >= 0;
	if (status == 0 && place.found < 0)
		output->made = strdup(path);
	place_close(&place);
	if (status < 0)
		return error_set(err, status, "cannot write to %s: %s", path,
		                 status == -EEXIST ? "it is a link that leads nowhere" : strerror(-status));
	output->own_fd = true;
	if (append && fstat(output->fd, &found) == 0 && S_ISREG(found.st_mode))
		output->before = (uint64_t)found.st_size;
	return 0;
}

int output_lock(const struct output *output, struct error *err)
{
	struct stat found;

	if (fstat(output->fd, &found) != 0 || !S_ISREG(found.st_mode) || flock(output->fd, LOCK_EX | LOCK_NB) == 0 ||
	    errno != EWOULDBLOCK)
		return 0;
	return error_set(err, -EBUSY, "another rbprobe is writing to %s; name another file", output->name);
}

static void output_fail(struct output *output, int code)
{
	if (code == EPIPE)
		output->reader_gone = true;
	else if (output->status == 0 && code == EBADF)
		output->status = error_set(&output->error, -code, "cannot write to %s: it is closed", output->name);
	else if (output->status == 0)
		output->status = error_set(&output->error, -code, "cannot write to %s: %s; what came after that is not in it",
		                           output->name, strerror(code));
}

bool output_is_regular(const struct output *output)
{
	struct stat found;

	return fstat(output->fd, &found) == 0 && S_ISREG(found.st_mode);
}

static void empty(struct output *output)
{
	if (output->replaces && output_is_regular(output) && ftruncate(output->fd, 0) != 0)
		output_fail(output, errno);
	output->replaces = false;
}

static void forget_made(struct output *output)
{
	free(output->made);
	output->made = NULL;
}

/* Somebody may have put another file there meanwhile. */
static void remove_made(struct output *output)
{
	struct stat own, there;

	if (output->made && fstat(output->fd, &own) == 0 && S_ISREG(own.st_mode) && own.st_size == 0 &&
	    lstat(output->made, &there) == 0 && own.st_dev == there.st_dev && own.st_ino == there.st_ino)
		unlink(output->made);
	forget_made(output);
}

void output_release(struct output *output)
{
	output->held = false;
	if (output->width)
		output->width = term_width(output->fd); /* which somebody may have made wider */
	if (output->width)
		buffer_fold(&output->buffer, 0, output->width, OUTPUT_FOLD_INDENTATION);
}

void output_flush(struct output *output)
{
	const char *from;
	size_t left;
	uint64_t began_ns;

	if (!output->buffer.size || (output->held && output->buffer.size < OUTPUT_HELD_MAX))
		return;
	output_release(output);
	from = output->buffer.bytes;
	left = output->buffer.size;
	empty(output);
	forget_made(output);
	began_ns = clock_now_ns();
	output->flushed += left;
	while (left && !output_is_over(output)) {
		ssize_t written = write(output->fd, from, left);

		if (written >= 0) {
			from += written;
			left -= (size_t)written;
		} else if (errno == EAGAIN) { /* somebody we share the terminal with made it so */
			poll(&(struct pollfd){.fd = output->fd, .events = POLLOUT}, 1, -1);
		} else if (errno != EINTR) {
			output_fail(output, errno);
		}
	}
	output->buffer.size = 0;
	output->written_ns += clock_now_ns() - began_ns;
}

int output_give_up(struct output *output)
{
	output_flush(output);
	remove_made(output);
	if (output->own_fd && close(output->fd) != 0 && errno != EINTR)
		output_fail(output, errno);
	output->fd = -1;
	buffer_free(&output->buffer);
	return output->status;
}

int output_close(struct output *output)
{
	if (!output->is_spared || output->flushed) {
		empty(output);
		forget_made(output);
	}
	return output_give_up(output);
}

bool output_is_file(const struct output *output, const char *path)
{
	struct stat own, other;

	return output->own_fd && fstat(output->fd, &own) == 0 && S_ISREG(own.st_mode) &&
	       (strcmp(path, "-") == 0 ? fstat(STDIN_FILENO, &other) : stat(path, &other)) == 0 && own.st_dev == other.st_dev &&
	       own.st_ino == other.st_ino;
}
