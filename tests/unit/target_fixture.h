#ifndef RBPROBE_TESTS_TARGET_FIXTURE_H
#define RBPROBE_TESTS_TARGET_FIXTURE_H

/*
 * A child that does what the extension does with a command queue, as the tests tell it by a socket: no Ruby, no signals. Includes
 * child.h.
 */

#include "child.h"

#include "proto/bell.h"
#include "proto/chunk.h"
#include "proto/command.h"
#include "proto/queue_key.h"
#include "proto/record.h"
#include "tracer/process/target.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

/* What a child is told to do, by one byte, and answers with an int. */
enum target_order {
	TARGET_MAKES_QUEUE,       /* the id */
	TARGET_MAKES_OTHER_QUEUE, /* the same under another key of rbprobe's */
	TARGET_MAKES_OPEN_QUEUE,  /* one into which anybody may write */
	TARGET_READS_ATTACH,      /* messages to the end of an ATTACH, whose path and nonce are kept: 1; 0: there was none */
	TARGET_READS_ALL,         /* how many commands */
	TARGET_CONNECTS,          /* 0, or an errno */
	TARGET_HAS_BELL,          /* its thread gets the name of an extension's bell thread: 0 */
	TARGET_ENDS,
};

struct target_child {
	pid_t pid;
	int orders[2];
	struct target target; /* as it was at the beginning */
};

struct target_memory {
	int queue, connection;
	struct chunk_assembly *assembly;
	struct sockaddr_un address;
};

static inline int target_child_queue(key_t key, int mode)
{
	struct {
		long type;
		char nothing[1];
	} stamp = {.type = QUEUE_STAMP_TYPE};
	int id = msgget(key, mode | IPC_CREAT | IPC_EXCL);

	if (id >= 0 && msgsnd(id, &stamp, 0, IPC_NOWAIT) == 0)
		msgrcv(id, &stamp, 0, QUEUE_STAMP_TYPE, IPC_NOWAIT);
	return id;
}

static inline int target_child_read(struct target_memory *memory, bool attach_only)
{
	static struct chunk chunk;
	struct assembled_command assembled;
	int commands = 0;
	ssize_t size;

	while ((!attach_only || commands == 0) &&
	       (size = msgrcv(memory->queue, &chunk, sizeof(chunk) - sizeof(long), CHUNK_TYPE, IPC_NOWAIT)) >= 0) {
		struct command command;
		msgpack_zone zone;

		if (chunk_assemble(memory->assembly, &chunk, (size_t)size, &assembled, NULL) <= 0)
			continue;
		commands++;
		if (!msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE))
			return -1;
		if (command_decode(&command, assembled.bytes, assembled.size, &zone, NULL) == 0 && command.kind == COMMAND_ATTACH)
			memcpy(memory->address.sun_path, command.attach.socket_path.bytes, command.attach.socket_path.size);
		msgpack_zone_destroy(&zone);
	}
	return commands;
}

static inline int target_child_obey(struct target_memory *memory, enum target_order order)
{
	switch (order) {
	case TARGET_MAKES_QUEUE:
		return memory->queue = target_child_queue(queue_key(getpid()), 0600);
	case TARGET_MAKES_OTHER_QUEUE:
		return memory->queue = target_child_queue(queue_key(getpid() ^ 0x2aaaaa), 0600);
	case TARGET_MAKES_OPEN_QUEUE:
		return memory->queue = target_child_queue(queue_key(getpid()), 0666);
	case TARGET_READS_ATTACH:
		return target_child_read(memory, true);
	case TARGET_READS_ALL:
		return target_child_read(memory, false);
	case TARGET_CONNECTS:
		memory->connection = socket(AF_UNIX, SOCK_STREAM, 0);
		return connect(memory->connection, (struct sockaddr *)&memory->address, sizeof(memory->address)) == 0 ? 0 : errno;
	case TARGET_HAS_BELL:
		return prctl(PR_SET_NAME, BELL_THREAD_NAME);
	case TARGET_ENDS:
		break;
	}
	_exit(0);
}

static inline void target_child_main(void *argument)
{
	int orders = *(int *)argument;
	struct target_memory memory = {.queue = -1, .assembly = chunk_assembly_new(), .address = {.sun_family = AF_UNIX}};
	char order;

	while (read(orders, &order, 1) == 1) {
		int answer = target_child_obey(&memory, (enum target_order)order);

		if (write(orders, &answer, sizeof(answer)) != sizeof(answer))
			break;
	}
}

static inline int target_child_start(struct target_child *child)
{
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, child->orders) != 0)
		return -1;
	child->pid = child_run(target_child_main, &child->orders[1]);
	close(child->orders[1]);
	return child->pid > 0 ? target_describe(&child->target, child->pid, TARGET_BASIC, NULL) : -1;
}

static inline int target_child_order(struct target_child *child, enum target_order order)
{
	char byte = (char)order;
	int answer = -1;

	if (write(child->orders[0], &byte, 1) != 1 || read(child->orders[0], &answer, sizeof(answer)) != sizeof(answer))
		return -1;
	return answer;
}

/* The id of a queue that it makes; where it may not, the test is skipped. */
static inline int target_child_make(struct target_child *child, enum target_order order)
{
	int id = target_child_order(child, order);

	if (id < 0) {
		print_message("skipped: no System V queue can be made here\n");
		skip();
	}
	return id;
}

/* Ends it, and removes its queues. */
static inline void target_child_end(struct target_child *child)
{
	struct msginfo limits;
	int last = msgctl(0, MSG_INFO, (struct msqid_ds *)&limits);

	for (int i = 0; i <= last; i++) {
		struct msqid_ds queue;
		int id = msgctl(i, MSG_STAT, &queue);

		if (id >= 0 && queue_key_is_ours(queue.msg_perm.__key) && queue.msg_lrpid == child->pid)
			msgctl(id, IPC_RMID, NULL);
	}
	close(child->orders[0]);
	child_end(child->pid);
}

#endif
