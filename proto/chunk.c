/* Commands in pieces of one System V message each. See chunk.h. */

#include "proto/chunk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A command that has begun and is not complete. */
struct partial {
	bool used;
	uint8_t nonce[NONCE_SIZE];
	uint32_t command_id;
	uint32_t total;
	uint32_t filled;
	uint64_t last_used;
	uint8_t *bytes;
};

struct chunk_assembly {
	struct partial partials[SESSIONS_MAX];
	uint64_t clock;
	uint8_t *complete; /* what the last call handed out */
};

size_t chunk_split(struct chunk *chunk, const uint8_t nonce[NONCE_SIZE], uint32_t command_id, const uint8_t *command,
                   size_t total, size_t message_max, size_t *offset)
{
	size_t room = sizeof(chunk->bytes);
	size_t part = total - *offset;

	if (message_max < sizeof(chunk->header) + room)
		room = message_max - sizeof(chunk->header);
	if (part > room)
		part = room;

	chunk->type = CHUNK_TYPE;
	memcpy(chunk->header.magic, CHUNK_MAGIC, sizeof(chunk->header.magic));
	chunk->header.format = CHUNK_FORMAT;
	memcpy(chunk->header.nonce, nonce, NONCE_SIZE);
	chunk->header.command_id = command_id;
	chunk->header.total = (uint32_t)total;
	chunk->header.offset = (uint32_t)*offset;
	memcpy(chunk->bytes, command + *offset, part);
	*offset += part;
	return sizeof(chunk->header) + part;
}

struct chunk_assembly *chunk_assembly_new(void)
{
	return calloc(1, sizeof(struct chunk_assembly));
}

static void partial_drop(struct partial *partial)
{
	free(partial->bytes);
	memset(partial, 0, sizeof(*partial));
}

void chunk_assembly_free(struct chunk_assembly *assembly)
{
	if (!assembly)
		return;
	for (size_t i = 0; i < SESSIONS_MAX; i++)
		partial_drop(&assembly->partials[i]);
	free(assembly->complete);
	free(assembly);
}

bool chunk_assembly_expects(const struct chunk_assembly *assembly)
{
	for (size_t i = 0; i < SESSIONS_MAX; i++)
		if (assembly->partials[i].used)
			return true;
	return false;
}

/* A client has one command under way at a time: its nonce is enough to find it. */
static struct partial *partial_find(struct chunk_assembly *assembly, const uint8_t *nonce)
{
	for (size_t i = 0; i < SESSIONS_MAX; i++) {
		struct partial *partial = &assembly->partials[i];

		if (partial->used && memcmp(partial->nonce, nonce, NONCE_SIZE) == 0)
			return partial;
	}
	return NULL;
}

/* A free slot, or that of the client that has been silent longest: it died in the middle of a command. */
static struct partial *partial_claim(struct chunk_assembly *assembly)
{
	struct partial *oldest = &assembly->partials[0];

	for (size_t i = 0; i < SESSIONS_MAX; i++) {
		struct partial *partial = &assembly->partials[i];

		if (!partial->used)
			return partial;
		if (partial->last_used < oldest->last_used)
			oldest = partial;
	}
	partial_drop(oldest);
	return oldest;
}

static int header_check(const struct chunk *chunk, size_t size, struct error *err)
{
	const struct chunk_header *header = &chunk->header;

	if (size < sizeof(*header) || memcmp(header->magic, CHUNK_MAGIC, sizeof(header->magic)) != 0)
		return error_set(err, -EPROTO, "a message in the queue is not rbprobe's");
	if (header->format != CHUNK_FORMAT)
		return error_set(err, -EPROTO, "a chunk of format %u in the queue; this extension reads format %u",
		                 header->format, CHUNK_FORMAT);
	if (header->total == 0 || header->total > COMMAND_SIZE_MAX)
		return error_set(err, -EMSGSIZE, "a command of %u bytes; the limit is %u", header->total, COMMAND_SIZE_MAX);
	if (size > sizeof(*header) + sizeof(chunk->bytes) || header->offset > header->total ||
	    size - sizeof(*header) > header->total - header->offset || size == sizeof(*header))
		return error_set(err, -EPROTO, "a chunk of %zu bytes at %u does not fit a command of %u bytes", size,
		                 header->offset, header->total);
	return 0;
}

int chunk_assemble(struct chunk_assembly *assembly, const struct chunk *chunk, size_t size, struct assembled_command *command,
                   struct error *err)
{
	const struct chunk_header *header = &chunk->header;
	struct partial *partial;
	size_t part;
	int status = header_check(chunk, size, err);

	if (status < 0)
		return status;
	part = size - sizeof(*header);
	partial = partial_find(assembly, header->nonce);
	if (partial && (header->offset == 0 || partial->command_id != header->command_id)) {
		partial_drop(partial);
		partial = NULL;
	}
	if (!partial) {
		if (header->offset != 0)
			return error_set(err, -EPROTO, "a command whose beginning is missing");
		partial = partial_claim(assembly);
		partial->bytes = malloc(header->total);
		if (!partial->bytes)
			return error_set(err, -ENOMEM, "no memory for a command of %u bytes", header->total);
		partial->used = true;
		memcpy(partial->nonce, header->nonce, NONCE_SIZE);
		partial->command_id = header->command_id;
		partial->total = header->total;
	}
	if (header->total != partial->total || header->offset != partial->filled) {
		partial_drop(partial);
		return error_set(err, -EPROTO, "the chunks of a command contradict each other");
	}
	memcpy(partial->bytes + partial->filled, chunk->bytes, part);
	partial->filled += (uint32_t)part;
	partial->last_used = ++assembly->clock;
	if (partial->filled < partial->total)
		return 0;

	free(assembly->complete);
	assembly->complete = partial->bytes;
	memcpy(command->nonce, partial->nonce, NONCE_SIZE);
	command->command_id = partial->command_id;
	command->bytes = partial->bytes;
	command->size = partial->total;
	partial->bytes = NULL;
	partial_drop(partial);
	return 1;
}
