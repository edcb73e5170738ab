/* Questions to a signal handler. See stuck.h. */

#define _GNU_SOURCE
#include "tracer/attach/stuck.h"

#include "proto/clock.h"
#include "tracer/attach/queue.h"
#include "tracer/attach/rendezvous.h"
#include "tracer/base/buffer.h"
#include "tracer/inject/thread_wait.h"
#include "tracer/process/tasks.h"

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
#define COMPUTES_LOOK_MS 5
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

struct asking {
	const struct target *target;
	int process; /* pidfd; -1 where the kernel has none */
	pid_t only;  /* who must answer, as the process sees it; 0: any */
	int queue;
	struct tasks before; /* what they had used when the question was first to be put */
	struct stuck_question question;
	uint64_t deadline_ns;
};

/*
 * A signal would cut short what a thread waits in, which then does not run Ruby anyway. That it is runnable is not
 * enough: its wait may just have ended, or have been stopped by a tracer, and it is still in the call. So it must have
 * used the CPU since the first look.
 */
static bool may_be_asked(const struct asking *asking, const struct task *task)
{
	const struct task *before = tasks_find(&asking->before, task->own_tid);
	struct thread_wait wait;

	return task->state == 'R' && before && task->cpu_ns > before->cpu_ns &&
	       thread_wait_read(&wait, asking->target->pid, task->tid) != 1;
}

/*
 * One question and one signal for each thread that computes, or only for that one. Returns how many. *run: whether any
 * is runnable.
 */
static int put_questions(const struct asking *asking, bool *run)
{
	const struct stuck_question *question = &asking->question;
	struct tasks tasks;
	int asked = 0;

	*run = false;
	tasks_read(&tasks, asking->target->pid);
	for (size_t i = 0; i < tasks.count; i++) {
		const struct task *task = &tasks.items[i];

		if (asking->only && task->own_tid != asking->only)
			continue;
		*run = *run || task->state == 'R';
		if (!may_be_asked(asking, task))
			continue;
		if (msgsnd(asking->queue, question, sizeof(*question) - sizeof(question->type), IPC_NOWAIT) != 0 ||
		    bell_ring_thread(asking->target->pid, asking->process, task->tid) != 0)
			break;
		asked++;
	}
	tasks_free(&tasks);
	return asked;
}

/* Whether a question could be put before the deadline. */
static bool put_first(const struct asking *asking)
{
	struct timespec pause = {.tv_nsec = (long)(COMPUTES_LOOK_MS * NS_PER_MS)};
	bool run;

	while (put_questions(asking, &run) == 0) {
		if (!run || clock_now_ns() >= asking->deadline_ns)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

/*
 * Where nothing comes, or another thread has answered that believed to have the GVL as well (it waits for it, and the
 * bell has woken it), the question is put again.
 */
static int receive(const struct asking *asking, struct rendezvous *rendezvous, struct stuck_answer *answer, struct error *err)
{
	bool run;

	while (clock_now_ns() < asking->deadline_ns) {
		struct pollfd listener = {.fd = rendezvous->listener, .events = POLLIN};
		ssize_t size;
		int fd = -1;

		if (poll(&listener, 1, ASK_AGAIN_MS) > 0)
			fd = rendezvous_accept(rendezvous, asking->target);
		if (fd >= 0) {
			size = read_all(fd, answer, sizeof(*answer), asking->deadline_ns);
			close(fd);
			if (size >= 0 && stuck_check(answer, (size_t)size, asking->question.nonce, err) == 0 &&
			    answer->pid == (uint32_t)asking->target->own_pid &&
			    (!asking->only || answer->native_id == (uint32_t)asking->only))
				return 0;
		}
		put_questions(asking, &run);
	}
	return error_set(err, -ETIMEDOUT, "did not answer: no running thread has the GVL");
}

/* The queue, which the signal handler makes when it is rung. 1, 0: there is none, negative with err. */
static int queue_await(struct asking *asking, bool *made, struct error *err)
{
	struct timespec pause = {.tv_nsec = LOOK_INTERVAL_NS};
	int status = queue_find(asking->target, &asking->queue, err);

	*made = status == 0;
	/* A ring that meets one of the target's own timer is lost. */
	for (unsigned looks = 0; status == 0 && clock_now_ns() < asking->deadline_ns; looks++) {
		if (looks % LOOKS_A_RING == 0)
			bell_ring(asking->target->pid, asking->process, false);
		nanosleep(&pause, NULL);
		status = queue_find(asking->target, &asking->queue, err);
	}
	return status;
}

static int put_and_receive(struct asking *asking, struct stuck_answer *answer, struct error *err)
{
	struct stuck_question *question = &asking->question;
	struct rendezvous rendezvous;
	int status;

	if (getrandom(question->nonce, NONCE_SIZE, 0) != NONCE_SIZE)
		return error_set(err, -EIO, "cannot be asked: no random numbers");
	status = rendezvous_open(&rendezvous, asking->target, false, err);
	if (status < 0)
		return status;
	memcpy(question->magic, STUCK_MAGIC, sizeof(question->magic));
	question->client_pid = asking->target->same_pid_namespace ? (uint32_t)getpid() : 0;
	memcpy(question->socket_path, rendezvous.socket_path, sizeof(question->socket_path));
	tasks_read(&asking->before, asking->target->pid);
	status = put_first(asking) ? receive(asking, &rendezvous, answer, err)
	                           : error_set(err, -EAGAIN, "could not be asked: no thread computes");
	rendezvous_close(&rendezvous);
	tasks_free(&asking->before);
	return status;
}

int stuck_ask(const struct target *target, pid_t only, uint64_t timeout_ns, struct stuck_answer **answer, struct error *err)
{
	struct asking asking = {.target = target,
	                        .only = only,
	                        .question = {.type = STUCK_MESSAGE_TYPE, .version = STUCK_VERSION},
	                        .deadline_ns = clock_now_ns() + timeout_ns};
	bool made = false;
	int status;

	*answer = NULL;
	if (target->sigurg != SIGURG_CAUGHT)
		return error_set(err, -EBUSY,
		                 "is not there: the application has taken SIGURG, or the extension has not started yet");
	asking.process = (int)syscall(SYS_pidfd_open, target->pid, 0);
	status = target_is_same(target) ? queue_await(&asking, &made, err) : error_set(err, -ESRCH, "is not there any more");
	if (status == 0)
		status = error_set(err, -ENOENT, "is not there, or its signal is blocked");
	if (status > 0) {
		*answer = memory_zeroed(sizeof(**answer));
		status = put_and_receive(&asking, *answer, err);
	}
	if (made)
		queue_remove(target);
	if (asking.process >= 0)
		close(asking.process);
	if (status < 0) {
		free(*answer);
		*answer = NULL;
	}
	return status;
}
