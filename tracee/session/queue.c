/* The command queue, the target's side. See queue.h. */

#define _GNU_SOURCE
#include "tracee/session/queue.h"

#include "proto/clock.h"
#include "proto/queue_key.h"
#include "tracee/base/command_inbox.h"
#include "tracee/session/bell.h"
#include "tracee/session/debug.h"
#include "tracee/session/ringer.h"
#include "tracee/session/wake.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id /* glibc has the kernel's field under its own name only */
#define sigev_notify_thread_id _sigev_un._tid
#endif

/*
 * A job that does not come is asked for again: soon after the queue was made, then now and then. Each ring of the timer sets the
 * next in the handler, so that they end by themselves where an application takes the signal.
 */
#define RING_AGAIN_MS 20
#define RING_AGAIN_LATER_MS 500
#define NO_TIMER (-1)
#define TIMER_ATTEMPTS 3
/* The first is known, and may be taken; each further one is in a hundred tries, even if others made all queues there can be. */
#define KEYS_TRIED 64

/* Values of queue.id that are no queue's. */
#define NONE (-1)
#define MAKING (-2)

static struct {
	/*
	 * The handler's as well, on any thread: the queue that this process made, and no other; NONE, or MAKING while one is
	 * being made.
	 */
	_Atomic int id;
	pid_t owner; /* the process that id belongs to: who forks past libc leaves its child a copy */

	struct chunk_assembly *assembly;
	struct chunk chunk; /* what is being received; too large for a foreign stack */
	/* The kernel's number for it; NO_TIMER. Of the ringer and of jobs: who takes it out deletes it. */
	_Atomic int timer;
	_Atomic pid_t timer_rings; /* the thread; 0: any */
	bool expiring;
	uint64_t expires_at_ns;
} queue = {.id = NONE, .timer = NO_TIMER};

void queue_init(void)
{
	atomic_store(&queue.id, NONE);
	queue.owner = getpid();
	queue.expiring = false;
	/* Timers are not inherited by a child: it makes its own. */
	atomic_store(&queue.timer, NO_TIMER);
	command_inbox_init();
}

/*
 * The timer is there while a queue is. By the kernel's own calls, as libc's are not async-signal-safe. It is for the ringer
 * alone: any other thread would come out of what it waits in.
 */
static void timer_remove(void)
{
	int timer = atomic_exchange(&queue.timer, NO_TIMER);

	if (timer != NO_TIMER)
		syscall(SYS_timer_delete, timer);
}

static void timer_make(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGURG};
	pid_t ringer = ringer_thread();
	int timer, none = NO_TIMER;

	/* One for a ringer that has ended since rings nobody. */
	if (atomic_load(&queue.timer_rings) != ringer)
		timer_remove();
	if (atomic_load(&queue.timer) != NO_TIMER)
		return;
	if (ringer) {
		event.sigev_notify = SIGEV_THREAD_ID;
		event.sigev_notify_thread_id = ringer;
	}
	if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) != 0)
		return;
	if (atomic_compare_exchange_strong(&queue.timer, &none, timer))
		atomic_store(&queue.timer_rings, ringer);
	else
		syscall(SYS_timer_delete, timer);
}

/* Async-signal-safe. 0: no more. */
static void ring_in_ms(unsigned milliseconds)
{
	struct itimerspec when = {.it_value = {.tv_sec = milliseconds / 1000, .tv_nsec = (long)(milliseconds % 1000) * 1000000}};

	/* Another thread may take it away meanwhile, with the queue before this one: then it is made again. */
	for (unsigned attempt = 0; attempt < TIMER_ATTEMPTS; attempt++) {
		int timer;

		if (milliseconds)
			timer_make();
		timer = atomic_load(&queue.timer);
		if (timer == NO_TIMER ? milliseconds == 0 : syscall(SYS_timer_settime, timer, 0, &when, NULL) == 0)
			return;
	}
}

/* Whether it is there, and only our user and root can write into it. Async-signal-safe, as all up to queue_own(). */
static bool is_trusted(int id, struct msqid_ds *status)
{
	uid_t own = geteuid();

	return msgctl(id, IPC_STAT, status) == 0 && status->msg_perm.cuid == own && status->msg_perm.uid == own &&
	       (status->msg_perm.mode & 0777) == 0600;
}

/* The kernel notes who received last: so a client knows whose queue it is, whatever its key. */
static void stamp(int id)
{
	struct {
		long type;
		char nothing[1];
	} message = {.type = QUEUE_STAMP_TYPE};

	if (msgsnd(id, &message, 0, IPC_NOWAIT) == 0)
		msgrcv(id, &message, 0, QUEUE_STAMP_TYPE, IPC_NOWAIT | MSG_NOERROR);
}

/* Left by a process that had this PID before, or by the program that this one replaced. True: it is gone. */
static bool remove_stale(key_t key)
{
	struct msqid_ds status;
	int id = msgget(key, 0);

	if (id < 0)
		return errno == ENOENT;
	if (!is_trusted(id, &status))
		return false;
	/* A process of another PID namespace has stamped its own, and is not seen from here. */
	if (status.msg_lrpid != getpid() && status.msg_rtime != 0)
		return false;
	return msgctl(id, IPC_RMID, NULL) == 0 || errno == EIDRM || errno == EINVAL;
}

/* Which key does not matter to who looks for it, so that nobody can take them all. */
static key_t other_key(unsigned attempt)
{
	struct timespec now;
	uint64_t mixed;

	clock_gettime(CLOCK_MONOTONIC, &now);
	mixed = ((uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec << 8 ^ (uint64_t)getpid() ^ attempt) * 0x9e3779b97f4a7c15u;
	return queue_key((pid_t)(mixed >> 40));
}

static int make(void)
{
	key_t key = queue_key(getpid());

	for (unsigned attempt = 0; attempt < KEYS_TRIED; attempt++) {
		int id = msgget(key, 0600 | IPC_CREAT | IPC_EXCL);

		if (id >= 0) {
			stamp(id);
			return id;
		}
		if (errno != EEXIST)
			return NONE;
		if (!remove_stale(key))
			key = other_key(attempt);
	}
	return NONE;
}

int queue_own(void)
{
	int id = atomic_load(&queue.id);

	return id >= 0 && queue.owner == getpid() ? id : -1;
}

/* By our timer. */
bool queue_rings_itself(void)
{
	return ringer_thread() != 0 || bell_is_ours();
}

void queue_create(void)
{
	struct msqid_ds status;
	int id = atomic_load(&queue.id);

	if (queue.owner != getpid()) {
		queue.owner = getpid();
		id = NONE;
		atomic_store(&queue.id, id);
	}
	if (id >= 0 && is_trusted(id, &status)) {
		if (status.msg_lrpid != getpid())
			stamp(id);
		return;
	}
	if (id == MAKING || !atomic_compare_exchange_strong(&queue.id, &id, MAKING))
		return;
	id = make();
	atomic_store(&queue.id, id);
	/* Who rings without the signal, as the application has it, does so again himself. */
	if (id >= 0 && queue_rings_itself())
		ring_in_ms(RING_AGAIN_MS);
}

bool queue_exists(void)
{
	return queue_own() >= 0;
}

void queue_ring_in(unsigned milliseconds)
{
	if (queue_rings_itself())
		ring_in_ms(milliseconds);
}

void queue_ring_soon(void)
{
	queue_ring_in(RING_AGAIN_MS);
}

void queue_ring_no_more(void)
{
	timer_remove();
}

void queue_timer_rang(void)
{
	ring_in_ms(RING_AGAIN_LATER_MS);
}

int queue_drain(bool (*run)(const struct assembled_command *command), struct error *err)
{
	struct assembled_command command;
	struct msqid_ds status;
	int taken = 0;
	int id = queue_own();

	if (id < 0)
		return 0;
	if (!is_trusted(id, &status)) {
		/* Somebody has removed it, or this process has become another user since. */
		if (atomic_compare_exchange_strong(&queue.id, &id, NONE))
			msgctl(id, IPC_RMID, NULL);
		return 0;
	}
	if (!queue.assembly && !(queue.assembly = chunk_assembly_new()))
		return error_set(err, -ENOMEM, "no memory for commands");
	for (;;) {
		ssize_t size = command_inbox_next(id, &queue.chunk);
		bool complete;

		if (size < 0) {
			if (taken)
				debug_all(DEBUG_QUEUE, "took %d messages from queue %d", taken, id);
			return taken;
		}
		taken++;
		complete = chunk_assemble(queue.assembly, &queue.chunk, (size_t)size, &command, NULL) > 0;
		command_inbox_expect(id, chunk_assembly_expects(queue.assembly));
		if (complete && !run(&command)) {
			queue_ring_soon();
			return taken;
		}
	}
}

void queue_remove(void)
{
	int id = queue_own();

	if (id >= 0 && atomic_compare_exchange_strong(&queue.id, &id, NONE))
		msgctl(id, IPC_RMID, NULL);
	command_inbox_end();
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
	if (queue_rings_itself())
		ring_in_ms(seconds * 1000);
	else
		wake_ring_after(seconds, bell_ring_self);
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
