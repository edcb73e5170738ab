/* Starting a Ruby that waits. See idle_ruby.h. */

#define _GNU_SOURCE
#include "tracer/attach/idle_ruby.h"

#include "tracer/attach/launch.h"
#include "tracer/attach/queue.h"
#include "tracer/base/buffer.h"
#include "tracer/base/poll_until.h"
#include "tracer/base/signals.h"
#include "tracer/process/arch.h"
#include "tracer/process/extension.h"
#include "tracer/process/target.h"

#include "proto/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Says on its standard output that it has begun. */
static char code[] = "$stdout.write('.'); $stdout.flush; sleep";
static char code_option[] = "-e";

/* What does not work out is said by whoever attaches. */
static void require_where_nothing_is_loaded(void)
{
	char extensions[PATH_MAX];
	struct error err;

	if (arch.refusal && extension_directory(extensions, sizeof(extensions), &err) == 0)
		launch_require(extensions);
}

static _Noreturn void child_run(char **command, pid_t parent, int begun)
{
	size_t count = 0;
	char **arguments;
	int nothing = open("/dev/null", O_RDONLY);
	int failed = fcntl(begun, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	while (command[count])
		count++;
	arguments = memory_zeroed((count + 3) * sizeof(*arguments));
	memcpy(arguments, command, count * sizeof(*arguments));
	arguments[count] = code_option;
	arguments[count + 1] = code;
	signals_restore();
	require_where_nothing_is_loaded();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent && dup2(nothing, STDIN_FILENO) >= 0 && dup2(begun, STDOUT_FILENO) >= 0)
		execvp(arguments[0], arguments);
	if (write(failed, (const char[]){'!', (char)errno}, 2) < 0)
		_exit(126);
	_exit(127);
}

/* What came first: '.', '!' and an errno where it could not be run, 0 where it ended, or -ETIMEDOUT. */
static int wait_for(int begun, uint64_t timeout_ns)
{
	uint64_t deadline_ns = clock_now_ns() + timeout_ns;

	for (;;) {
		struct pollfd polled = {.fd = begun, .events = POLLIN};
		char byte = 0;

		if (poll_until(&polled, 1, deadline_ns))
			return read(begun, &byte, 1) == 1 ? byte : 0;
		if (clock_now_ns() >= deadline_ns)
			return -ETIMEDOUT;
	}
}

static int explain(int what, int begun, const char *name, uint64_t timeout_ns, struct error *err)
{
	char why = 0;

	switch (what) {
	case '!':
		if (read(begun, &why, 1) != 1)
			why = ENOENT;
		return error_set(err, -why, "cannot run %s: %s", name, strerror(why));
	case -ETIMEDOUT:
		return error_set(err, what, "%s has not begun to run Ruby within %g s", name, (double)timeout_ns / 1e9);
	default:
		return error_set(err, -ECHILD, "%s ended before it ran any Ruby", name);
	}
}

pid_t idle_ruby_start(char **command, uint64_t timeout_ns, struct error *err)
{
	pid_t parent = getpid(), pid;
	int begun[2], what;

	if (pipe2(begun, O_CLOEXEC) != 0)
		return error_set(err, -errno, "cannot make a pipe: %s", strerror(errno));
	pid = fork();
	if (pid == 0)
		child_run(command, parent, begun[1]);
	close(begun[1]);
	if (pid < 0) {
		int failed = errno;

		close(begun[0]);
		return error_set(err, -failed, "cannot start a process: %s", strerror(failed));
	}
	what = wait_for(begun[0], timeout_ns);
	if (what != '.') {
		idle_ruby_end(pid);
		explain(what, begun[0], command[0], timeout_ns, err);
	}
	close(begun[0]);
	return what == '.' ? pid : err->code;
}

void idle_ruby_end(pid_t pid)
{
	struct target target;
	bool described = target_describe(&target, pid, TARGET_BASIC, NULL) == 0;

	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	/* The extension takes its queue away when the last session is over, but had no time for that. */
	if (described)
		queue_remove(&target);
}
