/* Questions to a signal handler. See stuck.h. */

#define _GNU_SOURCE
#include "stuck.h"

#include "buffer.h"
#include "proto/clock.h"
#include "queue.h"
#include "rendezvous.h"
#include "tasks.h"
#include "thread_wait.h"

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

#define ASK_AGAIN_MS 200
#define LOOKS_A_RING 200
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

/* A signal would cut short what a thread waits in, which then does not run Ruby anyway. */
static bool may_be_asked(const struct target *target, const struct task *task)
{
	struct thread_wait wait;

	return task->state == 'R' && thread_wait_read(&wait, target->pid, task->tid) != 1;
}

/* One question and one signal for each thread that runs, or only for that one. Returns how many. */
static int put_questions(const struct target *target, const struct tasks *tasks, pid_t only, int queue,
                         const struct stuck_question *question)
{
	int asked = 0;

	for (size_t i = 0; i < tasks->count; i++) {
		const struct task *task = &tasks->items[i];

		if ((only && task->own_tid != only) || !may_be_asked(target, task))
			continue;
		if (msgsnd(queue, question, sizeof(*question) - sizeof(question->type), IPC_NOWAIT) != 0 ||
		    syscall(SYS_tgkill, target->pid, task->tid, SIGURG) != 0)
			break;
		asked++;
	}
	return asked;
}

/*
 * Where nothing comes, or another thread has answered that believed to have the GVL as well (it waits for it, and the bell has woken it), the question is put
 * again.
 */
static int receive(struct rendezvous *rendezvous, const struct target *target, const struct tasks *tasks, pid_t only, int queue,
                   const struct stuck_question *question, uint64_t deadline_ns, struct stuck_answer *answer, struct error *err)
{
	while (clock_now_ns() < deadline_ns) {
		struct pollfd listener = {.fd = rendezvous->listener, .events = POLLIN};
		ssize_t size;
		int fd = -1;

		if (poll(&listener, 1, ASK_AGAIN_MS) > 0)
			fd = rendezvous_accept(rendezvous, target);
		if (fd >= 0) {
			size = read_all(fd, answer, sizeof(*answer), deadline_ns);
			close(fd);
			if (size >= 0 && stuck_check(answer, (size_t)size, question->nonce, err) == 0 &&
			    answer->pid == (uint32_t)target->own_pid && (!only || answer->native_id == (uint32_t)only))
				return 0;
		}
		put_questions(target, tasks, only, queue, question);
	}
	return error_set(err, -ETIMEDOUT, "did not answer: no running thread has the GVL");
}

/* The queue, which the signal handler makes when it is rung. 1, 0: there is none, negative with err. */
static int queue_await(const struct target *target, uint64_t deadline_ns, int *queue, bool *made, struct error *err)
{
	struct timespec pause = {.tv_nsec = LOOK_INTERVAL_NS};
	int status = queue_find(target, queue, err);

	*made = status == 0;
	/* A ring that meets one of the target's own timer is lost. */
	for (unsigned looks = 0; status == 0 && clock_now_ns() < deadline_ns; looks++) {
		if (looks % LOOKS_A_RING == 0)
			bell_ring(target->pid, false);
		nanosleep(&pause, NULL);
		status = queue_find(target, queue, err);
	}
	return status;
}

int stuck_ask(const struct target *target, pid_t only, uint64_t timeout_ns, struct stuck_answer **answer, struct error *err)
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
	question.client_pid = target->same_pid_namespace ? (uint32_t)getpid() : 0;
	memcpy(question.socket_path, rendezvous.socket_path, sizeof(question.socket_path));
	tasks_read(&tasks, target->pid);
	*answer = memory_zeroed(sizeof(**answer));
	asked = put_questions(target, &tasks, only, queue, &question);
	status = asked > 0 ? receive(&rendezvous, target, &tasks, only, queue, &question, deadline_ns, *answer, err)
	                   : error_set(err, -EAGAIN, "could not be asked: no thread runs");
	if (made)
		queue_remove(target);
	rendezvous_close(&rendezvous);
	if (status < 0) {
		free(*answer);
		*answer = NULL;
	}
	tasks_free(&tasks);
	return status;
}
