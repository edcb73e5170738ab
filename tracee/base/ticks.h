#ifndef RBPROBE_TICKS_H
#define RBPROBE_TICKS_H

#include "proto/clock.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The time of an event, as cheaply as the machine gives it, and what it was on CLOCK_MONOTONIC. Knows nothing of Ruby.
 *
 * Where the kernel itself keeps time by the processor's time stamp counter (its clocksource is "tsc": it has checked that the
 * counter runs at one rate, in all states, the same on all processors), ticks are that counter, which takes about half as long as
 * clock_gettime(). So does aarch64's virtual counter (cntvct_el0; "arch_sys_counter"), which counts more slowly: an event's time
 * is as fine as that, 16 ns at 62.5 MHz. Otherwise they are the nanoseconds of CLOCK_MONOTONIC.
 *
 * A ticks_clock turns ticks into nanoseconds, away from the traced threads. It is a line, laid through readings of both clocks:
 * each new reading, some 20 ms after the one before, bends it towards the true time without a step. So times hardly ever step
 * back (where a machine was suspended; the user of a clock has to hold them then), the rate is off by less than 0.1 per mille at
 * first and far less later, and times differ from CLOCK_MONOTONIC by less than a microsecond. Both bounds take for granted that
 * of five attempts at a reading one is not interrupted.
 */

/* Chooses the unit of ticks. Once, when the extension is loaded. */
void ticks_init(void);

extern bool ticks_are_tsc; /* ticks_init()'s */

/* Where ticks_are_tsc, which has been seen before. */
static inline uint64_t ticks_now_of_tsc(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
	return 0;
#endif
}

static inline uint64_t ticks_now(void)
{
	return __builtin_expect(ticks_are_tsc, 1) ? ticks_now_of_tsc() : clock_now_ns();
}

/* Both clocks at one moment. */
struct ticks_reading {
	uint64_t ticks;
	uint64_t ns;
};

struct ticks_clock {
	struct ticks_reading begin;       /* of the line */
	uint64_t rate;                    /* of the line, ns a tick, as a binary fraction of 32 bits; 0: there is no line yet */
	struct ticks_reading last;        /* the newest reading */
	struct ticks_reading base, later; /* older ones; the rate of the clocks is measured from the base on */
};

/* Takes a clock's first reading. Any thread; a clock is used by one. */
void ticks_clock_open(struct ticks_clock *clock);
/* Takes another when the last one is old enough; the second takes up to 2 ms. To be called before each batch of conversions. */
void ticks_clock_adjust(struct ticks_clock *clock);

/* What these two do with their readings: the first line, and the later ones. */
void ticks_clock_begin(struct ticks_clock *clock, struct ticks_reading base, struct ticks_reading now);
void ticks_clock_bend(struct ticks_clock *clock, struct ticks_reading now);

/*
 * Nanoseconds a tick, as a binary fraction of 32 bits: measured once, which takes up to 2 ms, and right by 0.1 per mille. For
 * limits and sums; what becomes a time needs a clock. One thread at a time.
 */
uint64_t ticks_rate(void);

/*
 * The same over the time since a reading: the longer that is, the better. A clock's own rate is not that of the counter: it bends
 * to catch up. For sums. Any thread; may take 2 ms soon after the reading.
 */
struct ticks_reading ticks_read(void);
uint64_t ticks_rate_since(const struct ticks_reading *earlier);

static inline uint64_t ticks_of_ns(uint64_t ns)
{
	return (uint64_t)(((unsigned __int128)ns << 32) / ticks_rate());
}

static inline uint64_t ticks_to_ns(const struct ticks_clock *clock, uint64_t ticks)
{
	if (__builtin_expect(ticks >= clock->begin.ticks, 1))
		return clock->begin.ns + (uint64_t)(((unsigned __int128)(ticks - clock->begin.ticks) * clock->rate) >> 32);
	return clock->begin.ns - (uint64_t)(((unsigned __int128)(clock->begin.ticks - ticks) * clock->rate) >> 32);
}

#endif
