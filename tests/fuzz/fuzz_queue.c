/*
 * Messages in a process's queue, from anybody who may write into it, up to the commands that they make: the extension's
 * reader, as far as it knows no Ruby. Now and then a writer thread takes messages before the job does.
 */

#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/msg.h>

/* The kernel's part is ours. */
static int fuzz_msgget(key_t key, int flags);
static int fuzz_msgctl(int id, int operation, struct msqid_ds *status);
static int fuzz_msgsnd(int id, const void *message, size_t size, int flags);
static ssize_t fuzz_msgrcv(int id, void *message, size_t size, long type, int flags);

#define msgget fuzz_msgget
#define msgctl fuzz_msgctl
#define msgsnd fuzz_msgsnd
#define msgrcv fuzz_msgrcv
#include "tracee/base/command_inbox.c"
#include "tracee/session/queue.c"

#include "proto/command.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
	const uint8_t *bytes;
	size_t size;
	unsigned commands;
} input;

static int fuzz_msgget(key_t key, int flags)
{
	(void)key;
	(void)flags;
	return 1;
}

static int fuzz_msgctl(int id, int operation, struct msqid_ds *status)
{
	(void)id;
	if (operation == IPC_STAT)
		*status =
			(struct msqid_ds){.msg_perm = {.uid = geteuid(), .cuid = geteuid(), .mode = 0600}, .msg_lrpid = getpid()};
	return 0;
}

static int fuzz_msgsnd(int id, const void *message, size_t size, int flags)
{
	(void)id;
	(void)message;
	(void)size;
	(void)flags;
	return 0;
}

static uint8_t next_byte(void)
{
	if (!input.size)
		return 0;
	input.size--;
	return *input.bytes++;
}

/* What is hard to guess is right more often than not: how much there is, and who sends it. */
static size_t make_chunk(struct chunk *chunk)
{
	uint8_t what = next_byte(), total = next_byte(), offset = next_byte();
	size_t part = next_byte(), header = sizeof(chunk->header);

	part = part < input.size ? part : input.size;
	memcpy(chunk->header.magic, CHUNK_MAGIC, sizeof(chunk->header.magic));
	chunk->header.format = CHUNK_FORMAT;
	memset(chunk->header.nonce, what % 32, NONCE_SIZE);
	chunk->header.command_id = what & 0x20 ? 1 : 2;
	chunk->header.total = what & 0x40 ? (uint32_t)part : total;
	chunk->header.offset = what & 0x40 ? 0 : offset;
	memcpy(chunk->bytes, input.bytes, part);
	input.bytes += part;
	input.size -= part;
	return header + part;
}

static size_t make_garbage(struct chunk *chunk)
{
	size_t size = next_byte();

	size = size < input.size ? size : input.size;
	memcpy(&chunk->header, input.bytes, size);
	input.bytes += size;
	input.size -= size;
	return size;
}

static ssize_t fuzz_msgrcv(int id, void *message, size_t size, long type, int flags)
{
	struct chunk *chunk = message;

	(void)id;
	(void)flags;
	if (type == QUEUE_STAMP_TYPE || !input.size || size < sizeof(*chunk) - sizeof(chunk->type)) {
		errno = ENOMSG;
		return -1;
	}
	chunk->type = CHUNK_TYPE;
	return (ssize_t)(next_byte() == 0xff ? make_garbage(chunk) : make_chunk(chunk));
}

/* --- What else the queue needs of the extension */

pid_t ringer_thread(void)
{
	return 0;
}

bool bell_is_ours(void)
{
	return false;
}

void bell_ring_self(void)
{
}

void wake_ring_after(unsigned seconds, void (*ring)(void))
{
	(void)seconds;
	(void)ring;
}

void debug_all(enum debug_domain domain, const char *format, ...)
{
	(void)domain;
	(void)format;
}

/* --- */

static void read_all(struct slice text)
{
	volatile uint8_t sum = 0;

	for (size_t i = 0; i < text.size; i++)
		sum = (uint8_t)(sum + (uint8_t)text.bytes[i]);
}

static bool run(const struct assembled_command *assembled)
{
	struct command command;
	msgpack_zone zone;
	struct error err;

	input.commands++;
	if (!msgpack_zone_init(&zone, 1024))
		return true;
	if (command_decode(&command, assembled->bytes, assembled->size, &zone, &err) == 0) {
		if (command.kind >= COMMAND_COUNT)
			__builtin_trap();
		if (command.kind == COMMAND_ATTACH)
			read_all(command.attach.socket_path);
		read_all(command.arguments.name);
		read_all(command.arguments.text);
		for (uint32_t i = 0; i < command.selector_count; i++)
			for (uint32_t k = 0; k < command.selectors[i].expression_count; k++)
				read_all(command.selectors[i].expressions[k]);
	} else if (strlen(err.text) >= sizeof(err.text)) {
		__builtin_trap();
	}
	msgpack_zone_destroy(&zone);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error err;

	input.bytes = data;
	input.size = size;
	queue_init();
	queue_create();
	while (input.size) {
		bool early = next_byte() & 1;

		if (early)
			command_inbox_take();
		queue_drain(run, &err);
	}
	/* What a writer took last is the job's. */
	queue_drain(run, &err);
	queue_remove();
	return 0;
}
