/*
 * Messages between the kernel's queue and the job. See intake.h.
 *
 * They lie one behind the other in a mapping, which is there while more is expected or something is unread. It is not allocated: a thread
 * that allocates gets an arena that outlives it. The lock is held for copying, and for one message by the job. A fork while a writer has
 * it leaves the child the mapping, which it then cannot trust: it makes a lock and a mapping of its own.
 */

#define _GNU_SOURCE
#include "intake.h"

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
} intake;

#define NOWHERE (-1)

/* Under the lock. */
static void drop_messages(void)
{
	if (intake.messages)
		munmap(intake.messages, BUFFER_SIZE);
	intake.messages = NULL;
	intake.filled = intake.read = 0;
}

void intake_init(void)
{
	static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;

	atomic_store(&intake.queue_id, NOWHERE);
	if (pthread_mutex_trylock(&intake.lock) == 0) {
		drop_messages();
		pthread_mutex_unlock(&intake.lock);
		return;
	}
	/* A writer had it as the process forked, and may have been half through: 16 MiB of address space are left behind. */
	intake.messages = NULL;
	intake.filled = intake.read = 0;
	intake.lock = unlocked;
}

static ssize_t receive(int queue_id, struct chunk *chunk, long type)
{
	return msgrcv(queue_id, chunk, sizeof(*chunk) - sizeof(chunk->type), type, IPC_NOWAIT | MSG_NOERROR);
}

ssize_t intake_next(int queue_id, struct chunk *chunk)
{
	size_t size;
	ssize_t received;

	pthread_mutex_lock(&intake.lock);
	if (intake.read == intake.filled) {
		if (atomic_load(&intake.queue_id) == NOWHERE)
			drop_messages();
		received = receive(queue_id, chunk, 0);
	} else {
		memcpy(&size, intake.messages + intake.read, sizeof(size));
		memcpy(&chunk->header, intake.messages + intake.read + sizeof(size), size);
		intake.read += sizeof(size) + size;
		received = (ssize_t)size;
		if (intake.read == intake.filled)
			intake.read = intake.filled = 0;
	}
	pthread_mutex_unlock(&intake.lock);
	return received;
}

void intake_expect(int queue_id, bool more)
{
	atomic_store(&intake.queue_id, more ? queue_id : NOWHERE);
}

/* Under the lock. */
static bool has_room(void)
{
	void *mapping;

	if (intake.messages)
		return BUFFER_SIZE - intake.filled >= sizeof(size_t) + CHUNK_SIZE_MAX;
	mapping = mmap(NULL, BUFFER_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mapping == MAP_FAILED)
		return false;
	intake.messages = mapping;
	return true;
}

/* Under the lock. */
static void append(const struct chunk *chunk, size_t size)
{
	memcpy(intake.messages + intake.filled, &size, sizeof(size));
	memcpy(intake.messages + intake.filled + sizeof(size), &chunk->header, size);
	intake.filled += sizeof(size) + size;
}

bool intake_take(void)
{
	int queue_id = atomic_load(&intake.queue_id);
	bool some;

	if (queue_id == NOWHERE)
		return false;
	pthread_mutex_lock(&intake.lock);
	while (atomic_load(&intake.queue_id) == queue_id && has_room()) {
		ssize_t size = receive(queue_id, &intake.chunk, CHUNK_TYPE);

		if (size < 0)
			break;
		append(&intake.chunk, (size_t)size);
	}
	some = intake.filled > intake.read;
	pthread_mutex_unlock(&intake.lock);
	return some;
}

void intake_end(void)
{
	atomic_store(&intake.queue_id, NOWHERE);
	pthread_mutex_lock(&intake.lock);
	drop_messages();
	pthread_mutex_unlock(&intake.lock);
}
