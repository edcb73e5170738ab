#ifndef RBPROBE_PROFILE_SUMS_H
#define RBPROBE_PROFILE_SUMS_H

#include "tracee/base/msgpack_builder.h"

#include <stdbool.h>
#include <stdint.h>

/* What the stacks of a profile's threads have had since it was sent: four figures each. Job context. */

#define PROFILE_SUMS 8192u /* a power of two; half of them are used */
#define PROFILE_FIGURES 4
#define PROFILE_FIGURES_TOLD 3 /* by profile_sums_tell() */

struct profile_sum {
	uint32_t thread, stack; /* thread 0: an empty slot */
	uint64_t figures[PROFILE_FIGURES];
};

struct profile_sums {
	struct profile_sum items[PROFILE_SUMS];
	uint32_t count;
};

/* False: there is no room. */
bool profile_sums_add(struct profile_sums *sums, uint32_t thread, uint32_t stack, const uint64_t figures[PROFILE_FIGURES]);
/* Adds them to the map that is open, under that key: thread, stack, and the first three figures. */
void profile_sums_tell(const struct profile_sums *sums, const char *key, struct msgpack_builder *answer);
/* The same with the last figure, where it is not 0. */
void profile_sums_tell_last(const struct profile_sums *sums, const char *key, struct msgpack_builder *answer);
void profile_sums_clear(struct profile_sums *sums);

#endif
