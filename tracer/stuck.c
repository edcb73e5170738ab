/* Questions to a signal handler. See stuck.h. */

#define _GNU_SOURCE
#include "stuck.h"

#include "buffer.h"
#include "clock.h"
#include "queue.h"
#include "rendezvous.h"
#include "tasks.h"

#include "proto/bell.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/msg.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RING_AGAIN_MS 200
#define LOOK_INTERVAL_NS (200 * NS_PER_US)

/* Reads what has come, to the end of the stream. Returns the size, or -errno. */
static ssize_t read_all(int fd, void *bytes, size_t size, uint64_t deadline_ns)
{
	size_t filled = 0;

	for (;;) {
		struct pollfd stream = {.fd = fd, .events = POLLIN};
		uint64_t now_ns = clock_now_ns();
		ssize_t got;

		if (now_ns >= deadline_ns || poll(&stream, 1, (int)((deadline_ns - now_ns) / NS_PER_MS) + 1) <= 0)
			return -ETIMEDOUT;
		got = read(fd, (char *)bytes + filled, size - filled);
		if (got == 0)
			return (ssize_t)filled;
		if (got < 0)
			return -errno;
		filled += (size_t)got;
		if (filled == size)
			return (ssize_t)filled;
	}
}

static void ring(const struct target *target, const struct tasks *tasks)
{
	for (size_t i = 0; i < tasks->count; i++)
		if (tasks->items[i].state == 'R')
			syscall(SYS_tgkill, target->pid, tasks->items[i].tid, SIGURG);
}

static int receive(struct rendezvous *rendezvous, const struct target *target, const struct tasks *tasks,
                   const struct stuck_question *question, uint64_t deadline_ns, struct stuck_answer *answer, struct error *err)
{
	for (;;) {
		struct pollfd listener = {.fd = rendezvous->listener, .events = POLLIN};
		uint64_t now_ns = clock_now_ns();
		ssize_t size;
		int fd;

		if (now_ns >= deadline_ns)
			return error_set(err, -ETIMEDOUT, "did not answer: no running thread has the GVL");
		if (poll(&listener, 1, RING_AGAIN_MS) <= 0) {
			ring(target, tasks);
			continue;
		}
		fd = rendezvous_accept(rendezvous, target);
		if (fd < 0)
			continue;
		size = read_all(fd, answer, sizeof(*answer), deadline_ns);
		close(fd);
		if (size < 0)
			return error_set(err, -EPROTO, "began to answer and stopped");
		if (stuck_check(answer, (size_t)size, question->nonce, err) == 0 && answer->pid == (uint32_t)target->own_pid)
			return 0;
	}
}

/* One question and one signal for each thread. */
static int put_questions(const struct target *target, const struct tasks *tasks, int queue, const struct stuck_question *question)
{
	bool any_running = false;
	int asked = 0;

	for (size_t i = 0; i < tasks->count; i++)
		any_running = any_running || tasks->items[i].state == 'R';
	for (size_t i = 0; i < tasks->count; i++) {
		const struct task *task = &tasks->items[i];

		if (any_running ? task->state != 'R' : task->tid != target->pid)
			continue;
		if (msgsnd(queue, question, sizeof(*question) - sizeof(question->type), IPC_NOWAIT) != 0 ||
		    syscall(SYS_tgkill, target->pid, task->tid, SIGURG) != 0)
			break;
		asked++;
	}
	return asked;
}

/* Those that nobody took; the target drops what is left when it gets on. */
static void take_back(int queue, int count)
{
	struct stuck_question question;

	while (count-- > 0 && msgrcv(queue, &question, sizeof(question) - sizeof(question.type), STUCK_MESSAGE_TYPE,
	                             IPC_NOWAIT | MSG_NOERROR) >= 0)
		;
}

/* The queue, which the signal handler makes when it is rung. 1, 0: there is none, negative with err. */
static int queue_await(const struct target *target, uint64_t deadline_ns, int *queue, bool *made, struct error *err)
{
	struct timespec pause = {.tv_nsec = LOOK_INTERVAL_NS};
	int status = queue_find(target, queue, err);

	*made = status == 0;
	if (status == 0)
		bell_ring(target->pid);
	while (status == 0 && clock_now_ns() < deadline_ns) {
		nanosleep(&pause, NULL);
		status = queue_find(target, queue, err);
	}
	return status;
}

int stuck_ask(const struct target *target, uint64_t timeout_ns, struct stuck_answer **answer, bool *running, struct error *err)
{
	struct stuck_question question = {.type = STUCK_MESSAGE_TYPE, .version = STUCK_VERSION};
	struct rendezvous rendezvous;
	struct tasks tasks;
	uint64_t deadline_ns = clock_now_ns() + timeout_ns;
	int queue, status, asked;
	bool made;

	*answer = NULL;
	if (target->sigurg != SIGURG_CAUGHT)
		return error_set(err, -EBUSY,
		                 "is not there: the application has taken SIGURG, or the extension has not started yet");
	status = queue_await(target, deadline_ns, &queue, &made, err);
	if (status <= 0)
		return status < 0 ? status : error_set(err, -ENOENT, "is not there, or its signal is blocked");
	if (getrandom(question.nonce, NONCE_SIZE, 0) != NONCE_SIZE)
		return error_set(err, -EIO, "cannot be asked: no random numbers");
	status = rendezvous_open(&rendezvous, target, err);
	if (status < 0) {
		if (made)
			queue_remove(target);
		return status;
	}
	memcpy(question.magic, STUCK_MAGIC, sizeof(question.magic));
	memcpy(question.socket_path, rendezvous.socket_path, sizeof(question.socket_path));
	tasks_read(&tasks, target->pid);
	*answer = memory_zeroed(sizeof(**answer));
	asked = put_questions(target, &tasks, queue, &question);
	status = asked > 0 ? receive(&rendezvous, target, &tasks, &question, deadline_ns, *answer, err)
	                   : error_set(err, -EAGAIN, "could not be asked");
	take_back(queue, asked);
	if (made)
		queue_remove(target);
	rendezvous_close(&rendezvous);
	if (status < 0) {
		free(*answer);
		*answer = NULL;
	} else {
		const struct task *task = tasks_find(&tasks, (pid_t)(*answer)->native_id);

		*running = task && task->state == 'R';
	}
	tasks_free(&tasks);
	return status;
}
