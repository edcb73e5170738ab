/* Carrying bytes. See pump.h. Context: pump_main() in a thread of its own, the rest in a job. */

#define _GNU_SOURCE
#include "pump.h"

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

struct pump {
	pthread_t thread;
	int from;
	int to; /* -1: given up */
	bool lost;
};

static void give_up(struct pump *pump)
{
	close(pump->to);
	pump->to = -1;
	pump->lost = true;
}

/* What is in the pipe goes nowhere. False at its end. */
static bool drain(struct pump *pump)
{
	char bytes[16384];
	ssize_t got = read(pump->from, bytes, sizeof(bytes));

	return got > 0 || (got < 0 && errno == EINTR);
}

/* Some of what is there goes on. False at the end. */
static bool carry(struct pump *pump)
{
	struct pollfd reader = {.fd = pump->to, .events = POLLOUT};
	ssize_t moved;

	if (poll(&(struct pollfd){.fd = pump->from, .events = POLLIN}, 1, -1) < 0)
		return true;
	moved = splice(pump->from, NULL, pump->to, NULL, PIECE, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (moved >= 0)
		return moved > 0;
	if (errno == EINTR)
		return true;
	if (errno != EAGAIN || poll(&reader, 1, STALL_MS) == 0 || (reader.revents & POLLERR))
		give_up(pump);
	return true;
}

static void *pump_main(void *argument)
{
	struct pump *pump = argument;

	while (pump->to >= 0 ? carry(pump) : drain(pump))
		;
	return NULL;
}

static void pump_free(struct pump *pump)
{
	close(pump->from);
	if (pump->to >= 0)
		close(pump->to);
	free(pump);
}

struct pump *pump_start(int from, int to)
{
	struct pump *pump = calloc(1, sizeof(*pump));
	pthread_attr_t attributes;
	sigset_t all, before;
	int status;

	if (!pump) {
		close(from);
		close(to);
		return NULL;
	}
	pump->from = from;
	pump->to = to;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_SIZE);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	status = pthread_create(&pump->thread, &attributes, pump_main, pump);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (status != 0) {
		pump_free(pump);
		return NULL;
	}
	return pump;
}

bool pump_end(struct pump *pump)
{
	bool complete;

	pthread_join(pump->thread, NULL);
	complete = !pump->lost;
	pump_free(pump);
	return complete;
}
