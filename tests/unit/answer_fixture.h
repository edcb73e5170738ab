#ifndef RBPROBE_TESTS_ANSWER_FIXTURE_H
#define RBPROBE_TESTS_ANSWER_FIXTURE_H

/* A process's answer, packed as it comes, and what is shown of it. */

#include "unit.h"

#include "tracer/base/buffer.h"

#include <msgpack.h>

static msgpack_sbuffer packed;
static msgpack_packer packer;
static msgpack_unpacked unpacked;
static struct buffer shown;

static int answer_setup(void **state)
{
	(void)state;
	msgpack_sbuffer_init(&packed);
	msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
	msgpack_unpacked_init(&unpacked);
	return 0;
}

static int answer_teardown(void **state)
{
	(void)state;
	msgpack_unpacked_destroy(&unpacked);
	msgpack_sbuffer_destroy(&packed);
	buffer_free(&shown);
	memset(&shown, 0, sizeof(shown));
	return 0;
}

static inline void answer_text(const char *string)
{
	msgpack_pack_str(&packer, strlen(string));
	msgpack_pack_str_body(&packer, string, strlen(string));
}

#endif
