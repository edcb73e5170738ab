/* Any messages in a queue. Input: each begins with its size, two bytes, little-endian; the rest is what msgrcv would give. */

#include "proto/chunk.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct chunk_assembly *assembly = chunk_assembly_new();
	struct assembled_command command;
	struct chunk chunk;
	struct error err;

	while (assembly && size >= 2) {
		size_t message = bytes[0] | (size_t)bytes[1] << 8;

		bytes += 2;
		size -= 2;
		if (message > size)
			message = size;
		if (message > sizeof(chunk) - offsetof(struct chunk, header))
			message = sizeof(chunk) - offsetof(struct chunk, header);
		chunk.type = CHUNK_TYPE;
		memcpy(&chunk.header, bytes, message);
		if (chunk_assemble(assembly, &chunk, message, &command, &err) == 1) {
			/* All of it is there. */
			volatile uint8_t last = command.bytes[command.size - 1];

			(void)last;
		}
		bytes += message;
		size -= message;
	}
	chunk_assembly_free(assembly);
	return 0;
}
