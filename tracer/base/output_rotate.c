/* The next file of an output. See output_rotate.h. */

#define _GNU_SOURCE
#include "tracer/base/output_rotate.h"

#include "tracer/base/place.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* number 0: the newest, which has none. */
static void add_name(struct buffer *name, const struct place *place, uint32_t number)
{
	name->size = 0;
	buffer_add_text(name, place->name);
	if (number)
		buffer_add_format(name, ".%" PRIu32, number);
	buffer_add_char(name, '\0');
}

/* Oldest first, which takes the place of the one that is kept no longer. */
static int rename_all(const struct place *place, uint32_t files)
{
	struct buffer from = {0}, to = {0};
	int status = 0;

	for (uint32_t number = files - 1; number > 0 && status == 0; number--) {
		add_name(&from, place, number - 1);
		add_name(&to, place, number);
		if (renameat(place->directory, from.bytes, place->directory, to.bytes) != 0 && errno != ENOENT)
			status = -errno;
	}
	buffer_free(&from);
	buffer_free(&to);
	return status;
}

static int begin(struct output *output, const struct place *place, uint32_t files)
{
	int status = rename_all(place, files), fd;

	if (status < 0)
		return status;
	/* Whoever has made one meanwhile could read it. */
	fd = openat(place->directory, place->name, O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL, OUTPUT_MODE);
	if (fd < 0)
		return -errno;
	flock(fd, LOCK_EX | LOCK_NB); /* as the one before was */
	if (close(output->fd) != 0 && errno != EINTR)
		status = -errno;
	output->fd = fd;
	return status;
}

int output_rotate(struct output *output, const char *path, uint32_t files)
{
	struct place place;
	struct error err;
	int status;

	output_flush(output);
	if (output->status)
		return output->status;
	status = place_find(&place, path, &err);
	if (status == 0) {
		status = begin(output, &place, files);
		error_set(&err, status, "%s", strerror(-status));
	}
	place_close(&place);
	if (status < 0)
		output->status =
			error_set(&output->error, status, "cannot begin the next file of %s: %s", output->name, err.text);
	return output->status;
}
