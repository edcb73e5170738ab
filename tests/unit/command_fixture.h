#ifndef RBPROBE_COMMAND_FIXTURE_H
#define RBPROBE_COMMAND_FIXTURE_H

#include "proto/command.h"
#include "unit.h"

#include <errno.h>

/* A buffer with one command, encoded and decoded again. */

static msgpack_zone *zone;
static msgpack_sbuffer buffer;
static msgpack_packer packer;

static inline int setup(void **state)
{
	(void)state;
	zone = msgpack_zone_new(4096);
	msgpack_sbuffer_init(&buffer);
	msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
	return zone ? 0 : -1;
}

static inline int teardown(void **state)
{
	(void)state;
	msgpack_zone_free(zone);
	msgpack_sbuffer_destroy(&buffer);
	return 0;
}

static inline int decode(struct command *command, struct error *err)
{
	return command_decode(command, (const uint8_t *)buffer.data, buffer.size, zone, err);
}

static inline struct command passed(const struct command *command)
{
	struct command result;
	struct error err = {0};

	command_encode(&buffer, command);
	if (decode(&result, &err) != 0)
		fail_msg("refused: %s", err.text);
	assert_int_equal(result.kind, command->kind);
	assert_int_equal(result.id, command->id);
	return result;
}

static inline void refused(const char *part)
{
	struct command command;
	struct error err;

	assert_int_equal(decode(&command, &err), -EPROTO);
	assert_error(&err, -EPROTO, part);
}

#endif
