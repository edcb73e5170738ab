#ifndef RBPROBE_RANDOM_H
#define RBPROBE_RANDOM_H

#include <stdint.h>

/* The next of numbers that look like chance (xorshift64); nothing secret may depend on them. state: not 0. Any context. */
static inline uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

#endif
