/* Any bytes as a command: what a target decodes from its queue. */

#include "proto/command.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	msgpack_zone zone;
	struct command command;
	struct error err;

	if (!msgpack_zone_init(&zone, 1024))
		return 0;
	if (command_decode(&command, bytes, size, &zone, &err) == 0) {
		/* What was accepted can be said again. */
		msgpack_sbuffer buffer;

		msgpack_sbuffer_init(&buffer);
		command_encode(&buffer, &command);
		if (command_decode(&command, (const uint8_t *)buffer.data, buffer.size, &zone, &err) != 0)
			__builtin_trap();
		msgpack_sbuffer_destroy(&buffer);
	}
	msgpack_zone_destroy(&zone);
	return 0;
}
