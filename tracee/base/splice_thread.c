/* Carrying bytes. See splice_thread.h. Context: splice_thread_main() in a thread of its own, the rest in a job. */

#define _GNU_SOURCE
#include "tracee/base/splice_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define STALL_MS 2000 /* how long the reader may take nothing */
#define PIECE (1u << 20)
#define STACK_SIZE (128u << 10)

struct splice_thread {
	pthread_t thread;
	int from;
	int to; /* -1: given up */
	bool lost;
};

static void give_up(struct splice_thread *pipes)
{
	close(pipes->to);
	pipes->to = -1;
	pipes->lost = true;
}

/* What is in the pipe goes nowhere. False at its end. */
static bool drain(struct splice_thread *pipes)
{
	char bytes[16384];
	ssize_t got = read(pipes->from, bytes, sizeof(bytes));

	return got > 0 || (got < 0 && errno == EINTR);
}

/* Some of what is there goes on. False at the end. */
static bool carry(struct splice_thread *pipes)
{
	struct pollfd reader = {.fd = pipes->to, .events = POLLOUT};
	ssize_t moved;

	if (poll(&(struct pollfd){.fd = pipes->from, .events = POLLIN}, 1, -1) < 0)
		return true;
	moved = splice(pipes->from, NULL, pipes->to, NULL, PIECE, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (moved >= 0)
		return moved > 0;
	if (errno == EINTR)
		return true;
	if (errno != EAGAIN || poll(&reader, 1, STALL_MS) == 0 || (reader.revents & POLLERR))
		give_up(pipes);
	return true;
}

static void *splice_thread_main(void *argument)
{
	struct splice_thread *pipes = argument;

	while (pipes->to >= 0 ? carry(pipes) : drain(pipes))
		;
	return NULL;
}

static void splice_thread_free(struct splice_thread *pipes)
{
	close(pipes->from);
	if (pipes->to >= 0)
		close(pipes->to);
	free(pipes);
}

struct splice_thread *splice_thread_start(int from, int to)
{
	struct splice_thread *pipes = calloc(1, sizeof(*pipes));
	pthread_attr_t attributes;
	sigset_t all, before;
	int status;

	if (!pipes) {
		close(from);
		close(to);
		return NULL;
	}
	pipes->from = from;
	pipes->to = to;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_SIZE);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	status = pthread_create(&pipes->thread, &attributes, splice_thread_main, pipes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (status != 0) {
		splice_thread_free(pipes);
		return NULL;
	}
	return pipes;
}

bool splice_thread_end(struct splice_thread *pipes)
{
	bool complete;

	pthread_join(pipes->thread, NULL);
	complete = !pipes->lost;
	splice_thread_free(pipes);
	return complete;
}
