/*
 * Starting a command that is traced from its first line. See launch.h.
 *
 * The child waits before its exec until what an earlier process with its PID may have left behind (a queue) is removed: the
 * extension would find it in its way, and we would take it for the child's.
 */

#define _GNU_SOURCE
#include "tracer/attach/launch.h"

#include "tracer/attach/queue.h"
#include "tracer/base/signals.h"
#include "tracer/process/container.h"

#include "proto/names.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Puts `first` before what an environment variable has already. */
static int environment_prepend(const char *name, const char *first, char separator)
{
	const char *before = getenv(name);
	char *value;
	int status;

	if (!before || !*before)
		return setenv(name, first, 1);
	if (asprintf(&value, "%s%c%s", first, separator, before) < 0)
		return -1;
	status = setenv(name, value, 1);
	free(value);
	return status;
}

/* RUBYOPT knows no quoting: a path with a blank in it goes into RUBYLIB. */
int launch_require(const char *directory)
{
	char option[PATH_MAX + 32];

	if (strpbrk(directory, " \t\n")) {
		if (environment_prepend("RUBYLIB", directory, ':') != 0)
			return -1;
		snprintf(option, sizeof(option), "-rrbprobe");
	} else {
		snprintf(option, sizeof(option), "-I%s -rrbprobe", directory);
	}
	return environment_prepend("RUBYOPT", option, ' ');
}

static int environment_prepare(const char *directory, uint64_t wait_ms)
{
	char number[32];

	if (launch_require(directory) != 0)
		return -1;
	snprintf(number, sizeof(number), "%d", (int)getpid());
	if (setenv(EXEC_ENV, number, 1) != 0)
		return -1;
	snprintf(number, sizeof(number), "%" PRIu64, wait_ms);
	return setenv(EXEC_WAIT_ENV, number, 1);
}

static _Noreturn void child_run(char **command, const char *directory, uint64_t wait_ms, int go, int failed)
{
	char byte;
	int code;

	signals_restore();
	if (read(go, &byte, 1) == 1 && environment_prepare(directory, wait_ms) == 0)
		execvp(command[0], command);
	code = errno;
	if (write(failed, &code, sizeof(code)) < 0)
		_exit(126);
	_exit(127);
}

pid_t launch(char **command, const char *extensions, uint64_t wait_ms, struct error *err)
{
	int go[2], failed[2], code = 0;
	struct target target;
	pid_t pid;

	code = container_check_surroundings(err);
	if (code < 0)
		return code;
	if (pipe2(go, O_CLOEXEC) != 0)
		return error_set(err, -errno, "cannot make a pipe: %s", strerror(errno));
	if (pipe2(failed, O_CLOEXEC) != 0) {
		code = errno;
		close(go[0]);
		close(go[1]);
		return error_set(err, -code, "cannot make a pipe: %s", strerror(code));
	}
	pid = fork();
	if (pid == 0) {
		close(go[1]);
		child_run(command, extensions, wait_ms, go[0], failed[1]);
	}
	close(go[0]);
	close(failed[1]);
	if (pid < 0) {
		error_set(err, -errno, "cannot start a process: %s", strerror(errno));
	} else {
		if (target_describe(&target, pid, TARGET_BASIC, NULL) == 0)
			queue_remove(&target);
		if (write(go[1], "", 1) != 1)
			code = errno;
		/* Ends without a word when the exec has closed the other end. */
		while (read(failed[0], &code, sizeof(code)) < 0 && errno == EINTR)
			;
		if (code) {
			waitpid(pid, NULL, 0);
			pid = error_set(err, -code, "cannot run %s: %s", command[0], strerror(code));
		}
	}
	close(go[1]);
	close(failed[0]);
	return pid < 0 ? (err->code < 0 ? err->code : -EIO) : pid;
}
