/* Pieces of work in processes of their own. See apart.h. */

#define _GNU_SOURCE
#include "tracer/base/apart.h"

#include "tracer/base/buffer.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of each process that the kernel keeps it for: of a file of the process that all pieces come from. -1: there are no pieces. */
static int turn = -1;

static bool turn_set(short type)
{
	const struct flock whole = {.l_type = type, .l_whence = SEEK_SET};

	return turn < 0 || fcntl(turn, F_SETLK, &whole) == 0 || (errno != EAGAIN && errno != EACCES);
}

bool apart_turn_take(void)
{
	return turn_set(F_WRLCK);
}

void apart_turn_end(void)
{
	turn_set(F_UNLCK);
}

struct pieces {
	const struct apart *apart;
	sigset_t awaited, before;
	pid_t self;
	pid_t *running; /* by piece; 0: it has ended */
	size_t begun, left;
	int status;
	bool over; /* no further one begins */
};

/* It is in no foreground group: a Ctrl-C comes once, from its parent, and the terminal is not its to read. */
static int child(const struct pieces *pieces)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != pieces->self)
		return STATUS_FAILED;
	if (null >= 0)
		dup2(null, STDIN_FILENO);
	sigprocmask(SIG_SETMASK, &pieces->before, NULL);
	return pieces->apart->run(pieces->apart->owner, pieces->begun);
}

static void send_to_all(const struct pieces *pieces, int number)
{
	for (size_t i = 0; i < pieces->begun; i++)
		if (pieces->running[i])
			kill(pieces->running[i], number);
}

static void begin(struct pieces *pieces)
{
	pid_t pid;

	pieces->running = memory_resize(pieces->running, (pieces->begun + 1) * sizeof(*pieces->running));
	pid = fork();
	if (pid == 0)
		_exit(child(pieces));
	if (pid > 0) {
		pieces->running[pieces->begun++] = pid;
		pieces->left++;
		return;
	}
	message("cannot start a process: %s", strerror(errno));
	pieces->status = STATUS_FAILED;
	pieces->over = true;
	send_to_all(pieces, SIGTERM);
}

static void begin_more(struct pieces *pieces)
{
	size_t count = pieces->over ? 0 : pieces->apart->count(pieces->apart->owner);

	while (pieces->begun < count && !pieces->over && (pieces->apart->together || !pieces->left))
		begin(pieces);
}

static void reap(struct pieces *pieces)
{
	int status;

	for (size_t i = 0; i < pieces->begun; i++) {
		if (!pieces->running[i] || waitpid(pieces->running[i], &status, WNOHANG) == 0)
			continue;
		pieces->running[i] = 0;
		pieces->left--;
		if (!pieces->status)
			pieces->status = WIFSIGNALED(status) ? STATUS_FAILED : WEXITSTATUS(status);
	}
}

/* Signals are blocked, and taken here. */
static void wait_for_news(struct pieces *pieces)
{
	const struct timespec second = {.tv_sec = 1};
	int number = sigtimedwait(&pieces->awaited, NULL, &second);

	if (number < 0 || number == SIGCHLD)
		return;
	pieces->over = true;
	send_to_all(pieces, number);
}

int apart_run(const struct apart *apart)
{
	struct pieces pieces = {.apart = apart, .self = getpid()};

	if (apart->together)
		turn = memfd_create("rbprobe-turn", MFD_CLOEXEC);
	sigemptyset(&pieces.awaited);
	sigaddset(&pieces.awaited, SIGINT);
	sigaddset(&pieces.awaited, SIGTERM);
	sigaddset(&pieces.awaited, SIGHUP);
	sigaddset(&pieces.awaited, SIGCHLD);
	sigprocmask(SIG_BLOCK, &pieces.awaited, &pieces.before);
	for (;;) {
		begin_more(&pieces);
		if (!pieces.left)
			break;
		wait_for_news(&pieces);
		reap(&pieces);
	}
	sigprocmask(SIG_SETMASK, &pieces.before, NULL);
	free(pieces.running);
	if (turn >= 0)
		close(turn);
	turn = -1;
	return pieces.status;
}
