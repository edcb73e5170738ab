#ifndef RBPROBE_FNV_H
#define RBPROBE_FNV_H

#include "proto/slice.h"

#include <stdint.h>

/*
 * FNV-1a, a hash of short texts for tables of one side's own: nothing on the wire depends on it. Whoever chooses the texts can
 * make them collide.
 */

#define FNV32_BEGIN UINT32_C(2166136261)
#define FNV64_BEGIN UINT64_C(0xcbf29ce484222325)

static inline uint32_t fnv32_step(uint32_t hash, unsigned char byte)
{
	return (hash ^ byte) * UINT32_C(16777619);
}

/* A number of more than eight bits as one step: no FNV-1a any more, but as good here. */
static inline uint64_t fnv64_step(uint64_t hash, uint64_t number)
{
	return (hash ^ number) * UINT64_C(0x100000001b3);
}

static inline uint32_t fnv32_add(uint32_t hash, struct slice text)
{
	for (size_t i = 0; i < text.size; i++)
		hash = fnv32_step(hash, (unsigned char)text.bytes[i]);
	return hash;
}

static inline uint64_t fnv64_add(uint64_t hash, struct slice text)
{
	for (size_t i = 0; i < text.size; i++)
		hash = fnv64_step(hash, (unsigned char)text.bytes[i]);
	return hash;
}

#endif
