#ifndef RBPROBE_NATIVE_PROFILE_H
#define RBPROBE_NATIVE_PROFILE_H

#include "tracer/cli/subcommand.h"
#include "tracer/process/target.h"

#include <msgpack.h>
#include <stdint.h>

/* `rbprobe profile --native`: samples with native frames, taken from outside. */

struct native_profile_order {
	struct invocation *invocation;
	uint64_t period_ns, duration_ns;
	/* An answer as that of a PROFILE request. 0, or negative with err. */
	int (*answer)(void *owner, const struct target *target, const msgpack_object *map, struct error *err);
	void *owner;
};

/* Of all processes of the invocation. Returns a status. */
int native_profile_run(const struct native_profile_order *order);

#endif
