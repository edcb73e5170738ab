/* What the stacks of a profile have had. See profile_sums.h. */

#include "tracee/requests/profile_sums.h"

#include <string.h>

bool profile_sums_add(struct profile_sums *sums, uint32_t thread, uint32_t stack, const uint64_t figures[PROFILE_FIGURES])
{
	uint32_t at = (thread * 0x9e3779b1u) ^ (stack * 0x85ebca6bu);
	struct profile_sum *sum;

	for (at ^= at >> 15;; at++) {
		sum = &sums->items[at & (PROFILE_SUMS - 1)];
		if (!sum->thread || (sum->thread == thread && sum->stack == stack))
			break;
	}
	if (!sum->thread && sums->count == PROFILE_SUMS / 2)
		return false;
	sums->count += !sum->thread;
	sum->thread = thread;
	sum->stack = stack;
	for (int i = 0; i < PROFILE_FIGURES; i++)
		sum->figures[i] += figures[i];
	return true;
}

void profile_sums_tell(const struct profile_sums *sums, const char *key, struct msgpack_builder *answer)
{
	builder_array(answer, key);
	for (uint32_t i = 0; i < PROFILE_SUMS; i++) {
		const struct profile_sum *sum = &sums->items[i];

		if (!sum->thread)
			continue;
		builder_uint(answer, NULL, sum->thread);
		builder_uint(answer, NULL, sum->stack);
		for (int k = 0; k < PROFILE_FIGURES_TOLD; k++)
			builder_uint(answer, NULL, sum->figures[k]);
	}
	builder_end(answer);
}

void profile_sums_tell_last(const struct profile_sums *sums, const char *key, struct msgpack_builder *answer)
{
	builder_array(answer, key);
	for (uint32_t i = 0; i < PROFILE_SUMS; i++) {
		const struct profile_sum *sum = &sums->items[i];

		if (!sum->thread || !sum->figures[PROFILE_FIGURES - 1])
			continue;
		builder_uint(answer, NULL, sum->thread);
		builder_uint(answer, NULL, sum->stack);
		builder_uint(answer, NULL, sum->figures[PROFILE_FIGURES - 1]);
	}
	builder_end(answer);
}

void profile_sums_clear(struct profile_sums *sums)
{
	memset(sums, 0, sizeof(*sums));
}
