/* Code from a file. See code.h. */

#define _GNU_SOURCE
#include "tracer/cli/code.h"

#include "proto/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define READ_SIZE (64u << 10)
#define CODE_MAX (COMMAND_SIZE_MAX - 8192u) /* the rest of a command is less */

int code_read(struct buffer *code, const char *path, struct error *err)
{
	bool is_stdin = strcmp(path, "-") == 0;
	int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	int status = 0;

	if (fd < 0)
		return error_set(err, -errno, "cannot open %s: %s", path, strerror(errno));
	for (;;) {
		ssize_t size = read(fd, buffer_reserve(code, READ_SIZE), READ_SIZE);

		if (size < 0 && errno == EINTR)
			continue;
		if (size < 0)
			status =
				error_set(err, -errno, "cannot read %s: %s", is_stdin ? "standard input" : path, strerror(errno));
		if (size <= 0)
			break;
		code->size += (size_t)size;
		if (code->size > CODE_MAX) {
			status = error_set(err, -EFBIG, "%s is larger than the %u bytes of code that can be sent",
			                   is_stdin ? "standard input" : path, CODE_MAX);
			break;
		}
	}
	if (!is_stdin)
		close(fd);
	return status;
}
