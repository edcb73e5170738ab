/* Finding, checking and filling a target's System V queue. See queue.h. */

#define _GNU_SOURCE
#include "queue.h"

#include "proto/chunk.h"
#include "proto/command.h"
#include "proto/queue_key.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <unistd.h>

/* The wall clock gives a process's start to about a second, a queue's creation to a whole one. */
#define STALE_SLACK_S 3

struct outbox_entry {
	uint32_t id;
	uint32_t size;
};

/*
 * A container has System V keys of its own. Root may enter them; the namespace last entered is remembered, since most
 * runs never leave theirs. Only the calls in this file care.
 */
static int namespace_enter(const struct target *target, struct error *err)
{
	static bool away;
	static int home = -1;
	char path[64];
	int fd, status;

	if (target->same_ipc_namespace) {
		if (away && setns(home, CLONE_NEWIPC) == 0)
			away = false;
		return 0;
	}
	if (home < 0)
		home = open("/proc/self/ns/ipc", O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/ns/ipc", (int)target->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	status = fd < 0 ? -1 : setns(fd, CLONE_NEWIPC);
	if (fd >= 0)
		close(fd);
	if (status != 0)
		return error_set(
			err, -EPERM,
			"process %d is in a container with an IPC namespace of its own; run rbprobe as root, or inside with: "
			"nsenter -t %d -a",
			(int)target->pid, (int)target->pid);
	away = true;
	return 0;
}

int queue_find(const struct target *target, int *id, struct error *err)
{
	key_t key = queue_key(target->own_pid);
	struct msqid_ds queue;
	int status = namespace_enter(target, err);

	if (status < 0)
		return status;
	*id = msgget(key, 0);
	if (*id < 0)
		return errno == ENOENT ? 0
		                       : error_set(err, -errno, "cannot open the command queue of process %d: %s",
		                                   (int)target->pid, strerror(errno));
	if (msgctl(*id, IPC_STAT, &queue) != 0) {
		if (errno == EIDRM || errno == EINVAL)
			return 0;
		return error_set(
			err, -EPERM,
			"the command queue of process %d is not its own: rbprobe may not look at it; somebody else made it, see: "
			"ipcs -q -i %d",
			(int)target->pid, *id);
	}
	if (queue.msg_perm.cuid != target->euid || queue.msg_perm.uid != target->euid || (queue.msg_perm.mode & 0777) != 0600)
		return error_set(err, -EPERM,
		                 "the command queue of process %d is not its own: user %u made it, mode %o; have it removed "
		                 "with: ipcrm -q %d",
		                 (int)target->pid, (unsigned)queue.msg_perm.cuid, (unsigned)(queue.msg_perm.mode & 0777), *id);
	if ((int64_t)queue.msg_ctime + STALE_SLACK_S < target_start_time(target)) {
		if (msgctl(*id, IPC_RMID, NULL) == 0 || errno == EIDRM || errno == EINVAL)
			return 0;
		return error_set(
			err, -errno,
			"a queue left behind by a dead process stands in the way of process %d and cannot be removed: %s; try: "
			"ipcrm -q %d",
			(int)target->pid, strerror(errno), *id);
	}
	return 1;
}

bool queue_is_there(const struct target *target, int id)
{
	struct msqid_ds queue;

	return namespace_enter(target, NULL) == 0 && (msgctl(id, IPC_STAT, &queue) == 0 || (errno != EIDRM && errno != EINVAL));
}

void queue_remove(const struct target *target)
{
	struct msqid_ds queue;
	int id;

	if (namespace_enter(target, NULL) != 0)
		return;
	id = msgget(queue_key(target->own_pid), 0);
	if (id >= 0 && msgctl(id, IPC_STAT, &queue) == 0 && queue.msg_perm.cuid == target->euid)
		msgctl(id, IPC_RMID, NULL);
}

void outbox_add(struct outbox *outbox, const struct command *command)
{
	struct outbox_entry entry = {.id = command->id};
	msgpack_sbuffer encoded;

	msgpack_sbuffer_init(&encoded);
	command_encode(&encoded, command);
	entry.size = (uint32_t)encoded.size;
	buffer_add(&outbox->bytes, (const char *)&entry, sizeof(entry));
	buffer_add(&outbox->bytes, encoded.data, encoded.size);
	msgpack_sbuffer_destroy(&encoded);
}

bool outbox_is_empty(const struct outbox *outbox)
{
	return outbox->command == outbox->bytes.size;
}

void outbox_rewind(struct outbox *outbox)
{
	outbox->command = 0;
	outbox->sent = 0;
}

void outbox_free(struct outbox *outbox)
{
	buffer_free(&outbox->bytes);
	memset(outbox, 0, sizeof(*outbox));
}

/* The system's limit for one message; it is often raised and seldom lowered. */
static size_t message_limit(void)
{
	static size_t limit;
	FILE *file;

	if (limit)
		return limit;
	limit = CHUNK_SIZE_MAX;
	file = fopen("/proc/sys/kernel/msgmax", "re");
	if (file) {
		size_t read;

		if (fscanf(file, "%zu", &read) == 1 && read < limit)
			limit = read < 256 ? 256 : read;
		fclose(file);
	}
	return limit;
}

int outbox_send(struct outbox *outbox, const struct target *target, int queue, const uint8_t nonce[NONCE_SIZE], struct error *err)
{
	int status = namespace_enter(target, err);

	if (status < 0)
		return status;
	while (!outbox_is_empty(outbox)) {
		const char *at = outbox->bytes.bytes + outbox->command;
		struct outbox_entry entry;
		struct chunk chunk;
		size_t offset = outbox->sent, size;

		memcpy(&entry, at, sizeof(entry));
		size = chunk_split(&chunk, nonce, entry.id, (const uint8_t *)at + sizeof(entry), entry.size, message_limit(),
		                   &offset);
		if (msgsnd(queue, &chunk, size, IPC_NOWAIT) != 0) {
			if (errno == EAGAIN)
				return 0;
			if (errno == EINTR)
				continue;
			if (errno == EIDRM || errno == EINVAL)
				return -EIDRM;
			return error_set(err, -errno, "cannot write to the command queue of process %d: %s", (int)target->pid,
			                 strerror(errno));
		}
		outbox->sent = offset;
		if (offset == entry.size) {
			outbox->command += sizeof(entry) + entry.size;
			outbox->sent = 0;
		}
	}
	return 1;
}
