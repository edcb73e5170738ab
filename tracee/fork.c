/*
 * The fork request: a copy of the process that stands still, for a debugger. It has the memory as it was, one thread (that on which the job ran),
 * and no descriptors; it stays until somebody kills it. Context: job, and frozen_main() in the copy.
 */

#define _GNU_SOURCE
#include "request.h"

#include "copy.h"
#include "proto/clock.h"

#include <errno.h>
#include <msgpack.h>
#include <ruby.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static void frozen_main(void *unused)
{
	(void)unused;
	copy_settle(COPY_FROZEN, "rbprobe-frozen", -1);
	/* Neither the terminal's Ctrl-C nor its end is meant for the copy. */
	setsid();
	for (;;)
		pause();
}

static void pack_uint(msgpack_packer *packer, const char *key, uint64_t number)
{
	msgpack_pack_str(packer, strlen(key));
	msgpack_pack_str_body(packer, key, strlen(key));
	msgpack_pack_uint64(packer, number);
}

static void begin(struct request *request, const struct command *command)
{
	uint64_t began_ns = clock_now_ns();
	msgpack_sbuffer packed;
	msgpack_packer packer;
	struct copy *copy;
	struct error err;

	(void)command;
	if (copy_start(&copy, COPY_FROZEN, frozen_main, NULL, NULL, NULL, &err) < 0) {
		request_finish(request, -err.code, "%s", err.text);
		return;
	}
	msgpack_sbuffer_init(&packed);
	msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
	msgpack_pack_map(&packer, 2);
	pack_uint(&packer, "pid", (uint64_t)copy_pid(copy));
	pack_uint(&packer, "fork_ns", clock_now_ns() - began_ns);
	request_data(request, &packed);
	msgpack_sbuffer_destroy(&packed);
	copy_forget(copy);
	request_finish(request, 0, "%s", "");
}

const struct request_kind request_fork = {.name = "fork", .begin = begin};
