/* The command queue, the target's side. See queue.h. */

#define _GNU_SOURCE
#include "queue.h"

#include "bell.h"
#include "intake.h"
#include "proto/clock.h"
#include "proto/queue_key.h"
#include "startup.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * A job that does not come is asked for again: soon after the queue was made, then now and then. Each ring of the timer sets the next in the
 * handler, so that they end by themselves where an application takes the signal.
 */
#define RING_AGAIN_MS 20
#define RING_AGAIN_LATER_MS 500
#define NO_TIMER (-1)

static struct {
	time_t began_s; /* CLOCK_MONOTONIC, when this process could first have made a queue */
	struct chunk_assembly *assembly;
	struct chunk chunk;          /* what is being received; too large for a foreign stack */
	volatile sig_atomic_t timer; /* the kernel's number for it; NO_TIMER */
	bool expiring;
	uint64_t expires_at_ns;
} queue = {.timer = NO_TIMER};

static time_t monotonic_s(void)
{
	return (time_t)(clock_now_ns() / NS_PER_S);
}

void queue_init(void)
{
	queue.began_s = monotonic_s();
	queue.expiring = false;
	/* Timers are not inherited by a child: it makes its own. */
	queue.timer = NO_TIMER;
	intake_init();
}

/* The timer is there while a queue is. By the kernel's own calls, as libc's are not async-signal-safe. */
static void timer_make(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGURG};
	int timer;

	if (queue.timer == NO_TIMER && syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) == 0)
		queue.timer = timer;
}

static void timer_remove(void)
{
	int timer = queue.timer;

	queue.timer = NO_TIMER;
	if (timer != NO_TIMER)
		syscall(SYS_timer_delete, timer);
}

/* Async-signal-safe. 0: no more. */
static void ring_in_ms(unsigned milliseconds)
{
	struct itimerspec when = {.it_value = {.tv_sec = milliseconds / 1000, .tv_nsec = (long)(milliseconds % 1000) * 1000000}};

	if (milliseconds)
		timer_make();
	if (queue.timer != NO_TIMER)
		syscall(SYS_timer_settime, queue.timer, 0, &when, NULL);
}

void queue_create(void)
{
	/* Who rings without the signal, as the application has it, does so again himself. */
	if (msgget(queue_key(getpid()), 0600 | IPC_CREAT | IPC_EXCL) >= 0 && bell_is_ours())
		ring_in_ms(RING_AGAIN_MS);
}

int queue_of_process(void)
{
	return msgget(queue_key(getpid()), 0);
}

void queue_ring_soon(void)
{
	if (bell_is_ours())
		ring_in_ms(RING_AGAIN_MS);
}

void queue_timer_rang(void)
{
	ring_in_ms(RING_AGAIN_LATER_MS);
}

/* The queue's id, or -ENOENT where there is none, or -EPERM and err where it is not ours. */
static int queue_find(struct error *err)
{
	struct msqid_ds status;
	int id = msgget(queue_key(getpid()), 0);

	if (id < 0)
		return errno == ENOENT ? -ENOENT : error_set(err, -EPERM, "the command queue belongs to somebody else");
	if (msgctl(id, IPC_STAT, &status) != 0)
		return errno == EACCES ? error_set(err, -EPERM, "the command queue belongs to somebody else") : -ENOENT;
	if (status.msg_perm.uid != geteuid() || (status.msg_perm.mode & 0077))
		return error_set(err, -EPERM, "the command queue belongs to user %u, mode %04o", status.msg_perm.uid,
		                 status.msg_perm.mode & 0777u);
	/* Through the age, since the wall clock may have been set meanwhile; less one second for the rounding. */
	if (time(NULL) - status.msg_ctime > monotonic_s() - queue.began_s + 1) {
		/* Left by a process that had this PID before. */
		msgctl(id, IPC_RMID, NULL);
		return -ENOENT;
	}
	return id;
}

int queue_drain(void (*run)(const struct assembled_command *command), struct error *err)
{
	struct assembled_command command;
	int taken = 0;
	int id = queue_find(err);

	if (id == -ENOENT)
		return 0;
	if (id < 0)
		return id;
	if (!queue.assembly && !(queue.assembly = chunk_assembly_new()))
		return error_set(err, -ENOMEM, "no memory for commands");
	for (;;) {
		ssize_t size = intake_next(id, &queue.chunk);
		bool complete;

		if (size < 0)
			return taken;
		taken++;
		complete = chunk_assemble(queue.assembly, &queue.chunk, (size_t)size, &command, NULL) > 0;
		intake_expect(id, chunk_assembly_expects(queue.assembly));
		if (complete)
			run(&command);
	}
}

bool queue_exists(void)
{
	return msgget(queue_key(getpid()), 0) >= 0 || errno != ENOENT;
}

void queue_remove(void)
{
	struct error err;
	int id = queue_find(&err);

	if (id >= 0)
		msgctl(id, IPC_RMID, NULL);
	intake_end();
	chunk_assembly_free(queue.assembly);
	queue.assembly = NULL;
	queue.expiring = false;
	timer_remove();
}

void queue_expire_after(unsigned seconds)
{
	if (queue.expiring)
		return;
	queue.expiring = true;
	queue.expires_at_ns = clock_now_ns() + seconds * NS_PER_S;
	if (bell_is_ours())
		ring_in_ms(seconds * 1000);
	else
		startup_ring_after(seconds, bell_ring_self);
}

bool queue_expired(void)
{
	return queue.expiring && clock_now_ns() >= queue.expires_at_ns;
}

void queue_keep(void)
{
	ring_in_ms(0);
	queue.expiring = false;
}
