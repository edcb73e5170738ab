/* Finding, checking and filling a target's System V queue. See queue.h. */

#define _GNU_SOURCE
#include "tracer/attach/queue.h"

#include "tracer/base/debug.h"

#include "proto/chunk.h"
#include "proto/command.h"
#include "proto/queue_key.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/utsname.h>
#include <time.h>
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
		return error_set(err, -EPERM,
		                 "process %d is in a container with an IPC namespace of its own; run rbprobe in that container, "
		                 "as root on the "
		                 "host, or where that namespace is shared (docker run --ipc=container:NAME)",
		                 (int)target->pid);
	away = true;
	return 0;
}

/* A queue as the kernel shows it; ids name one queue for good, as they count up. */
struct found {
	int id;
	struct msqid_ds status;
};

static bool is_private_to(const struct found *queue, uid_t user)
{
	const struct ipc_perm *owner = &queue->status.msg_perm;

	return owner->cuid == user && owner->uid == user && (owner->mode & 0777) == 0600;
}

/* Linux before 4.17 notes the PID as the receiver sees it; later ones tell it as whoever asks does. */
static bool receivers_are_as_they_see(void)
{
	static int known = -1;
	struct utsname kernel;
	unsigned major = 0, minor = 0;

	if (known < 0)
		known = uname(&kernel) == 0 && sscanf(kernel.release, "%u.%u", &major, &minor) == 2 &&
		        (major < 4 || (major == 4 && minor < 17));
	return known;
}

/*
 * The target's own, says the kernel: made by its user, and last received from by it, as it does when it has made one. In a
 * namespace of its own its PID there may be that of another process here.
 */
static bool is_of(const struct found *queue, const struct target *target)
{
	pid_t receiver = queue->status.msg_lrpid;

	if (!is_private_to(queue, target->euid))
		return false;
	return receiver == target->pid ||
	       (receiver == target->own_pid && !target->same_pid_namespace && receivers_are_as_they_see()) ||
	       (queue->status.msg_rtime == 0 && queue->status.msg_perm.__key == queue_key(target->own_pid));
}

static bool is_older_than(const struct found *queue, const struct target *target)
{
	return (int64_t)queue->status.msg_ctime + STALE_SLACK_S < target_start_time(target);
}

/*
 * Whether another process than the target has made it for itself. The key says nothing: two processes in two namespaces may have
 * the same PID, and a process whose key is taken makes its queue with any other. A receiver in a namespace that is not seen from
 * here has no number.
 */
static bool is_in_use(const struct found *queue)
{
	struct target other;
	pid_t receiver = queue->status.msg_lrpid;
	uid_t user = queue->status.msg_perm.cuid;

	if (queue->status.msg_rtime == 0 || !is_private_to(queue, user))
		return false;
	return receiver == 0 || (target_describe(&other, receiver, TARGET_BASIC, NULL) == 0 && other.euid == user);
}

/*
 * Who makes a queue receives from it at once. One that ends between the two calls leaves a queue from which nobody has received:
 * its key names him then. Others have had time for the second call.
 */
static bool is_of_dead(const struct found *queue)
{
	const struct msqid_ds *status = &queue->status;
	pid_t maker = status->msg_lrpid;

	if (status->msg_rtime == 0 && (int64_t)status->msg_ctime + STALE_SLACK_S < (int64_t)time(NULL))
		maker = queue_key_pid(status->msg_perm.__key);
	return maker > 0 && kill(maker, 0) != 0 && errno == ESRCH;
}

/*
 * Other programs may have keys that begin as ours do, and leave messages for later. Where the kernel does not let one look, only
 * a queue without messages is known to hold none. Ours are chunks, and stamps without a byte.
 */
static bool holds_others_message(const struct found *queue)
{
	struct chunk chunk;
	ssize_t size;

	if (queue->status.msg_qnum == 0)
		return false;
	size = msgrcv(queue->id, &chunk, sizeof(chunk) - sizeof(chunk.type), 0, IPC_NOWAIT | MSG_COPY | MSG_NOERROR);
	if (size < 0)
		return errno != ENOMSG && errno != EIDRM; /* EINVAL: one that is larger than all of ours */
	if (chunk.type == QUEUE_STAMP_TYPE)
		return size > 0;
	return chunk.type != CHUNK_TYPE || (size_t)size < sizeof(chunk.header) ||
	       memcmp(chunk.header.magic, CHUNK_MAGIC, sizeof(chunk.header.magic)) != 0;
}

/* Whoever made it is dead, or made it under a key of the target's, to which he has no right. */
static bool is_rubbish(const struct found *queue, const struct target *target)
{
	const struct ipc_perm *owner = &queue->status.msg_perm;

	if (is_of(queue, target))
		return is_older_than(queue, target);
	if (target->same_pid_namespace && is_private_to(queue, owner->uid) && is_of_dead(queue))
		return !holds_others_message(queue);
	return geteuid() == 0 && owner->__key == queue_key(target->own_pid) && owner->cuid != target->euid && !is_in_use(queue) &&
	       !holds_others_message(queue);
}

/*
 * The next queue of ours after *index, whoever's. They are looked through instead of asked for by their keys: anybody
 * may have taken a key before its process, which then has another one. Those that may not be read are not the target's.
 */
static bool queue_next(int *index, struct found *queue)
{
	struct msginfo limits;
	int last = msgctl(0, MSG_INFO, (struct msqid_ds *)&limits);

	while (++*index <= last) {
		queue->id = msgctl(*index, MSG_STAT, &queue->status);
		if (queue->id >= 0 && queue_key_is_ours(queue->status.msg_perm.__key))
			return true;
	}
	return false;
}

void queue_debug(const struct target *target)
{
	struct found queue;

	if (!(debug_wanted & DEBUG_QUEUE) || namespace_enter(target, NULL) != 0)
		return;
	for (int index = -1; queue_next(&index, &queue);) {
		const struct ipc_perm *owner = &queue.status.msg_perm;

		debug(DEBUG_QUEUE,
		      "process %d: queue %d, key 0x%x, creator %u, owner %u, mode %o, last receiver %d, %lu messages: %s",
		      (int)target->pid, queue.id, (unsigned)owner->__key, (unsigned)owner->cuid, (unsigned)owner->uid,
		      (unsigned)owner->mode & 0777, (int)queue.status.msg_lrpid, (unsigned long)queue.status.msg_qnum,
		      is_of(&queue, target)        ? "its own"
		      : is_rubbish(&queue, target) ? "left behind"
		                                   : "of another process");
	}
}

static bool is_gone(int id, bool removed)
{
	struct msqid_ds status;

	return removed || errno == EIDRM || errno == EINVAL || (msgctl(id, IPC_STAT, &status) != 0 && errno != EACCES);
}

int queue_check_namespace(const struct target *target, struct error *err)
{
	return namespace_enter(target, err);
}

int queue_find(const struct target *target, int *id, struct error *err)
{
	struct found queue;
	int64_t newest = -1;
	int status = namespace_enter(target, err);

	if (status < 0)
		return status;
	for (int index = -1; queue_next(&index, &queue);) {
		bool rubbish = is_rubbish(&queue, target), own = is_of(&queue, target);

		if (rubbish && is_gone(queue.id, msgctl(queue.id, IPC_RMID, NULL) == 0)) {
			debug(DEBUG_QUEUE, "process %d: removed queue %d, which somebody left behind", (int)target->pid,
			      queue.id);
			continue;
		}
		if (rubbish && own)
			return error_set(err, -EPERM,
			                 "a queue left behind by a dead process stands in the way of process %d and cannot be "
			                 "removed: %s; try: ipcrm -q %d",
			                 (int)target->pid, strerror(errno), queue.id);
		/* Where there are two, one is a little older than the process, and not its own. */
		if (own && (int64_t)queue.status.msg_ctime > newest) {
			newest = (int64_t)queue.status.msg_ctime;
			*id = queue.id;
		}
	}
	return newest >= 0;
}

bool queue_is_there(const struct target *target, int id)
{
	struct msqid_ds queue;

	return namespace_enter(target, NULL) == 0 && (msgctl(id, IPC_STAT, &queue) == 0 || (errno != EIDRM && errno != EINVAL));
}

void queue_remove(const struct target *target)
{
	struct found queue;

	if (namespace_enter(target, NULL) != 0)
		return;
	for (int index = -1; queue_next(&index, &queue);)
		if (is_of(&queue, target)) {
			debug(DEBUG_QUEUE, "process %d: removing its queue %d", (int)target->pid, queue.id);
			msgctl(queue.id, IPC_RMID, NULL);
		}
}

void queue_remove_old(const struct target *target, int id)
{
	struct found queue = {.id = id};

	if (namespace_enter(target, NULL) != 0 || msgctl(id, IPC_STAT, &queue.status) != 0 || !is_of(&queue, target))
		return;
	debug(DEBUG_QUEUE, "process %d: removing queue %d of the program that it was", (int)target->pid, id);
	msgctl(id, IPC_RMID, NULL);
}

/* Who has made most of all queues, of which /proc shows every one to everybody. */
static unsigned owner_of_most(uid_t *user)
{
	struct {
		uid_t user;
		unsigned queues;
	} owners[64] = {{0}};
	unsigned most = 0, known = 0;
	FILE *list = fopen("/proc/sysvipc/msg", "re");
	char line[512];

	while (list && fgets(line, sizeof(line), list)) {
		unsigned creator, i = 0;

		if (sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %*s %*s %u", &creator) != 1)
			continue;
		while (i < known && owners[i].user != creator)
			i++;
		if (i == sizeof(owners) / sizeof(*owners))
			continue;
		if (i == known)
			owners[known++].user = creator;
		owners[i].queues++;
		if (owners[i].queues > most) {
			most = owners[i].queues;
			*user = creator;
		}
	}
	if (list)
		fclose(list);
	return most;
}

int queue_check_room(const struct target *target, struct error *err)
{
	struct msginfo used, limits;
	uid_t user = 0;
	unsigned most;

	if (namespace_enter(target, NULL) != 0 || msgctl(0, MSG_INFO, (struct msqid_ds *)&used) < 0 ||
	    msgctl(0, IPC_INFO, (struct msqid_ds *)&limits) < 0 || used.msgpool < limits.msgmni)
		return 0;
	most = owner_of_most(&user);
	return error_set(
		err, -ENOSPC,
		"process %d cannot make its command queue: all %d System V queues that there can be (kernel.msgmni) exist, "
		"%u of them user %u's; remove those that nobody needs with ipcrm -q, or raise the limit with sysctl",
		(int)target->pid, limits.msgmni, most, (unsigned)user);
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
	struct found found = {.id = queue};
	int status = namespace_enter(target, err);

	if (status < 0)
		return status;
	/* Ids do come again, after some millions. */
	if (!outbox_is_empty(outbox) && (msgctl(queue, IPC_STAT, &found.status) != 0 || !is_private_to(&found, target->euid)))
		return -EIDRM;
	while (!outbox_is_empty(outbox)) {
		const char *at = outbox->bytes.bytes + outbox->command;
		struct outbox_entry entry;
		struct chunk chunk;
		size_t offset = outbox->sent, size;

		memcpy(&entry, at, sizeof(entry));
		size = chunk_split(&chunk, nonce, entry.id, (const uint8_t *)at + sizeof(entry), entry.size, message_limit(),
		                   &offset);
		if (msgsnd(queue, &chunk, size, IPC_NOWAIT) != 0) {
			if (errno == EAGAIN) {
				debug(DEBUG_QUEUE, "process %d: queue %d is full at byte %zu of command %u", (int)target->pid,
				      queue, outbox->sent, entry.id);
				return 0;
			}
			if (errno == EINTR)
				continue;
			if (errno == EIDRM || errno == EINVAL)
				return -EIDRM;
			return error_set(err, -errno, "cannot write to the command queue of process %d: %s", (int)target->pid,
			                 strerror(errno));
		}
		outbox->sent = offset;
		if (offset == entry.size) {
			debug(DEBUG_QUEUE, "process %d: command %u is in queue %d, %u bytes", (int)target->pid, entry.id, queue,
			      entry.size);
			outbox->command += sizeof(entry) + entry.size;
			outbox->sent = 0;
		}
	}
	return 1;
}
