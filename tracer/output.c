/* Writing results in large pieces, and what happens when that fails. See output.h. */

#define _GNU_SOURCE
#include "output.h"

#include "proto/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

int output_open(struct output *output, const char *path, bool append, struct error *err)
{
	memset(output, 0, sizeof(*output));
	output->fd = STDOUT_FILENO;
	output->name = path ? path : "standard output";
	if (!path)
		return 0;
	output->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (append ? O_APPEND : O_TRUNC), 0666);
	if (output->fd < 0)
		return error_set(err, -errno, "cannot write to %s: %s", path, strerror(errno));
	output->own_fd = true;
	return 0;
}

static void output_fail(struct output *output, int code)
{
	if (code == EPIPE)
		output->reader_gone = true;
	else if (output->status == 0)
		output->status = error_set(&output->error, -code, "cannot write to %s: %s; what came after that is not in it",
		                           output->name, strerror(code));
}

void output_flush(struct output *output)
{
	const char *from = output->buffer.bytes;
	size_t left = output->buffer.size;
	uint64_t began_ns;

	if (!left)
		return;
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

int output_close(struct output *output)
{
	output_flush(output);
	if (output->own_fd && close(output->fd) != 0 && errno != EINTR)
		output_fail(output, errno);
	output->fd = -1;
	buffer_free(&output->buffer);
	return output->status;
}
