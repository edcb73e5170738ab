#ifndef RBPROBE_CHUNK_H
#define RBPROBE_CHUNK_H

#include "proto/error.h"
#include "proto/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A command may be larger than a System V message, and several clients write into one queue. So a command
 * travels in chunks, each with a header that says whose it is and where its bytes belong.
 */

#define CHUNK_MAGIC "rbpq"
#define CHUNK_FORMAT 1u /* of chunks alone; what they carry has PROTOCOL_VERSION, which the attach command names */

/* Native byte order and alignment: both ends are on one machine. */
struct chunk_header {
	char magic[4];
	uint32_t format;           /* CHUNK_FORMAT */
	uint8_t nonce[NONCE_SIZE]; /* of the client's session */
	uint32_t command_id;       /* counts up within a session */
	uint32_t total;            /* bytes of the whole command */
	uint32_t offset;           /* of this chunk's first byte within it */
};

/* What msgsnd and msgrcv take. */
struct chunk {
	long type; /* always CHUNK_TYPE; a System V message's type must be above 0 */
	struct chunk_header header;
	uint8_t bytes[CHUNK_SIZE_MAX - sizeof(struct chunk_header)];
};

#define CHUNK_TYPE 1L

/*
 * Fills chunk with the part of a command that starts at offset, using at most message_max bytes for header and
 * part (the system's msgmax; at least 256). Returns the size for msgsnd, and moves *offset past the part.
 */
size_t chunk_split(struct chunk *chunk, const uint8_t nonce[NONCE_SIZE], uint32_t command_id, const uint8_t *command,
                   size_t total, size_t message_max, size_t *offset);

/* Puts commands together again. One per queue; not thread-safe: the target uses it in its job only. */
struct chunk_assembly;

struct chunk_assembly *chunk_assembly_new(void); /* NULL without memory */
void chunk_assembly_free(struct chunk_assembly *assembly);

/* Whether the rest of a command is still to come. */
bool chunk_assembly_expects(const struct chunk_assembly *assembly);

struct assembled_command {
	uint8_t nonce[NONCE_SIZE];
	uint32_t command_id;
	const uint8_t *bytes; /* owned by the assembly, valid until the next call */
	size_t size;
};

/*
 * Takes one received message of size bytes (as msgrcv returned). Returns 1 and fills command when it completed one, 0 when
 * more is to come, and a negative code with err for a message that breaks the rules: it is dropped, and with it what had
 * come of its command.
 */
int chunk_assemble(struct chunk_assembly *assembly, const struct chunk *chunk, size_t size, struct assembled_command *command,
                   struct error *err);

#endif
