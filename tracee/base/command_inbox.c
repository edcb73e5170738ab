/*
 * Messages between the kernel's queue and the job. See command_inbox.h.
 *
 * They lie one behind the other in a mapping, which is there while more is expected or something is unread. It is not allocated:
 * a thread that allocates gets an arena that outlives it. The lock is held for copying, and for one message by the job. A fork
 * while a writer has it leaves the child the mapping, which it then cannot trust: it makes a lock and a mapping of its own.
 */

#define _GNU_SOURCE
#include "tracee/base/command_inbox.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/msg.h>

#define BUFFER_SIZE (16u << 20) /* what does not fit stays in the kernel's queue until a job has come */

static struct {
	pthread_mutex_t lock;
	atomic_int queue_id; /* where more is expected; NOWHERE */
	/* Under the lock. */
	uint8_t *messages; /* each with its size in front, a size_t; or NULL */
	size_t filled, read;
	struct chunk chunk; /* being received */
} inbox;

#define NOWHERE (-1)

/* Under the lock. */
static void drop_messages(void)
{
	if (inbox.messages)
		munmap(inbox.messages, BUFFER_SIZE);
	inbox.messages = NULL;
	inbox.filled = inbox.read = 0;
}

void command_inbox_init(void)
{
	static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;

	atomic_store(&inbox.queue_id, NOWHERE);
	if (pthread_mutex_trylock(&inbox.lock) == 0) {
		drop_messages();
		pthread_mutex_unlock(&inbox.lock);
		return;
	}
	/* A writer had it as the process forked, and may have been half through: 16 MiB of address space are left behind. */
	inbox.messages = NULL;
	inbox.filled = inbox.read = 0;
	inbox.lock = unlocked;
}

static ssize_t receive(int queue_id, struct chunk *chunk, long type)
{
	return msgrcv(queue_id, chunk, sizeof(*chunk) - sizeof(chunk->type), type, IPC_NOWAIT | MSG_NOERROR);
}

ssize_t command_inbox_next(int queue_id, struct chunk *chunk)
{
	size_t size;
	ssize_t received;

	pthread_mutex_lock(&inbox.lock);
	if (inbox.read == inbox.filled) {
		if (atomic_load(&inbox.queue_id) == NOWHERE)
			drop_messages();
		received = receive(queue_id, chunk, 0);
	} else {
		memcpy(&size, inbox.messages + inbox.read, sizeof(size));
		memcpy(&chunk->header, inbox.messages + inbox.read + sizeof(size), size);
		inbox.read += sizeof(size) + size;
		received = (ssize_t)size;
		if (inbox.read == inbox.filled)
			inbox.read = inbox.filled = 0;
	}
	pthread_mutex_unlock(&inbox.lock);
	return received;
}

void command_inbox_expect(int queue_id, bool more)
{
	atomic_store(&inbox.queue_id, more ? queue_id : NOWHERE);
}

/* Under the lock. */
static bool has_room(void)
{
	void *mapping;

	if (inbox.messages)
		return BUFFER_SIZE - inbox.filled >= sizeof(size_t) + CHUNK_SIZE_MAX;
	mapping = mmap(NULL, BUFFER_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mapping == MAP_FAILED)
		return false;
	inbox.messages = mapping;
	return true;
}

/* Under the lock. */
static void append(const struct chunk *chunk, size_t size)
{
	memcpy(inbox.messages + inbox.filled, &size, sizeof(size));
	memcpy(inbox.messages + inbox.filled + sizeof(size), &chunk->header, size);
	inbox.filled += sizeof(size) + size;
}

bool command_inbox_take(void)
{
	int queue_id = atomic_load(&inbox.queue_id);
	bool some;

	if (queue_id == NOWHERE)
		return false;
	pthread_mutex_lock(&inbox.lock);
	while (atomic_load(&inbox.queue_id) == queue_id && has_room()) {
		ssize_t size = receive(queue_id, &inbox.chunk, CHUNK_TYPE);

		if (size < 0)
			break;
		append(&inbox.chunk, (size_t)size);
	}
	some = inbox.filled > inbox.read;
	pthread_mutex_unlock(&inbox.lock);
	return some;
}

void command_inbox_end(void)
{
	atomic_store(&inbox.queue_id, NOWHERE);
	pthread_mutex_lock(&inbox.lock);
	drop_messages();
	pthread_mutex_unlock(&inbox.lock);
}
