#ifndef RBPROBE_HISTOGRAM_H
#define RBPROBE_HISTOGRAM_H

#include <stdint.h>

/*
 * The buckets of a log-linear histogram of 64-bit numbers: 32 for each octave (from a power of two up to the next one), and one
 * for each number below 32. So the middle of a bucket differs by less than 1/64 from every number in it.
 */

#define HISTOGRAM_PER_OCTAVE 32u
#define HISTOGRAM_OCTAVES 60u
#define HISTOGRAM_BUCKETS (HISTOGRAM_OCTAVES * HISTOGRAM_PER_OCTAVE)

/* Which octave a number is in, and which of its buckets. */
struct histogram_place {
	uint32_t octave, bucket;
};

static inline struct histogram_place histogram_place(uint64_t number)
{
	uint32_t shift;

	if (number < HISTOGRAM_PER_OCTAVE)
		return (struct histogram_place){0, (uint32_t)number};
	shift = 58 - (uint32_t)__builtin_clzll(number);
	return (struct histogram_place){shift + 1, (uint32_t)(number >> shift & (HISTOGRAM_PER_OCTAVE - 1))};
}

static inline uint32_t histogram_bucket(uint64_t number)
{
	struct histogram_place place = histogram_place(number);

	return place.octave * HISTOGRAM_PER_OCTAVE + place.bucket;
}

/* The least number of a bucket, and how many different ones there are in it. */
static inline uint64_t histogram_least(uint32_t bucket)
{
	uint32_t octave = bucket / HISTOGRAM_PER_OCTAVE, rest = bucket % HISTOGRAM_PER_OCTAVE;

	return octave ? (uint64_t)(HISTOGRAM_PER_OCTAVE + rest) << (octave - 1) : rest;
}

static inline uint64_t histogram_width(uint32_t bucket)
{
	uint32_t octave = bucket / HISTOGRAM_PER_OCTAVE;

	return octave ? UINT64_C(1) << (octave - 1) : 1;
}

#endif
