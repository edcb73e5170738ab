/* Ticks and their meaning. See ticks.h. Contexts: job (init), writer (clocks), event (ticks_now()). */

#define _GNU_SOURCE
#include "tracee/base/ticks.h"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define TRIES 5                        /* of which the reading that took the shortest time is taken */
#define FIRST_NS UINT64_C(2000000)     /* at least between the first two readings */
#define ADJUST_NS UINT64_C(20000000)   /* between two readings */
#define CATCH_UP_NS 100000000          /* in which the line makes good what it is off by */
#define BASE_NS UINT64_C(10000000000)  /* a base is replaced when it is twice as old */
#define STEP_NS 1000000                /* more than this off is not bent but stepped: the machine was suspended */
#define ONE_TO_ONE (UINT64_C(1) << 32) /* a rate: ticks are nanoseconds */

bool ticks_are_tsc;

/* Whether the kernel trusts the counter. Asked by file, since it may have found out at run time that it should not. */
static bool tsc_is_trusted(void)
{
#ifdef __aarch64__
	static const char expected[] = "arch_sys_counter\n";
#else
	static const char expected[] = "tsc\n";
#endif
	char name[sizeof(expected)];
	ssize_t size;
	int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	size = read(fd, name, sizeof(name));
	close(fd);
	return size == sizeof(expected) - 1 && memcmp(name, expected, sizeof(expected) - 1) == 0;
}

/* A process can forbid itself the instruction; then it dies of it. */
static bool tsc_is_allowed(void)
{
#if defined(__x86_64__)
	int state = 0;

	return prctl(PR_GET_TSC, &state) == 0 && state == PR_TSC_ENABLE;
#elif defined(__aarch64__)
	int state = 0;

	/* Before Linux 6.12 nobody can. */
	return prctl(PR_GET_TSC, &state) != 0 || state == PR_TSC_ENABLE;
#else
	return false;
#endif
}

void ticks_init(void)
{
	ticks_are_tsc = tsc_is_allowed() && tsc_is_trusted();
}

static struct ticks_reading read_both(void)
{
	struct ticks_reading best = {0};
	uint64_t shortest = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		uint64_t before = ticks_now(), ns = clock_now_ns(), after;

		after = ticks_now();
		if (after - before < shortest) {
			shortest = after - before;
			best.ticks = before + shortest / 2;
			best.ns = ns;
		}
	}
	return best;
}

/* Long enough after another reading that the rate between them can be measured. */
static struct ticks_reading read_later(const struct ticks_reading *earlier)
{
	struct timespec pause = {.tv_nsec = FIRST_NS};
	struct ticks_reading now = read_both();

	if (now.ns - earlier->ns >= FIRST_NS)
		return now;
	nanosleep(&pause, NULL);
	return read_both();
}

static uint64_t rate_between(const struct ticks_reading *from, const struct ticks_reading *to)
{
	if (to->ticks <= from->ticks || to->ns <= from->ns)
		return ONE_TO_ONE;
	return (uint64_t)(((unsigned __int128)(to->ns - from->ns) << 32) / (to->ticks - from->ticks));
}

void ticks_clock_begin(struct ticks_clock *clock, struct ticks_reading base, struct ticks_reading now)
{
	*clock = (struct ticks_clock){.begin = now, .rate = rate_between(&base, &now), .last = now, .base = base, .later = now};
}

void ticks_clock_bend(struct ticks_clock *clock, struct ticks_reading now)
{
	uint64_t shown_ns = ticks_to_ns(clock, now.ticks);
	int64_t behind_ns = (int64_t)(now.ns - shown_ns);

	if (behind_ns > STEP_NS || behind_ns < -STEP_NS) {
		/* The rate so far is still the best guess: the readings before belong to another line. */
		clock->begin = clock->base = clock->later = clock->last = now;
		return;
	}
	clock->last = now;
	clock->rate = rate_between(&clock->base, &now);
	clock->begin = (struct ticks_reading){now.ticks, shown_ns};
	clock->rate = (uint64_t)((__int128)clock->rate * (CATCH_UP_NS + behind_ns) / CATCH_UP_NS);
	if (now.ns - clock->base.ns > 2 * BASE_NS) {
		clock->base = clock->later;
		clock->later = now;
	} else if (now.ns - clock->later.ns > BASE_NS) {
		clock->later = now;
	}
}

void ticks_clock_open(struct ticks_clock *clock)
{
	*clock = (struct ticks_clock){0};
	if (ticks_are_tsc)
		clock->base = read_both();
	else
		clock->rate = ONE_TO_ONE;
}

void ticks_clock_adjust(struct ticks_clock *clock)
{
	if (!ticks_are_tsc || (clock->rate && ticks_to_ns(clock, ticks_now()) - clock->last.ns < ADJUST_NS))
		return;
	if (clock->rate)
		ticks_clock_bend(clock, read_both());
	else
		ticks_clock_begin(clock, clock->base, read_later(&clock->base));
}

struct ticks_reading ticks_read(void)
{
	return ticks_are_tsc ? read_both() : (struct ticks_reading){0};
}

uint64_t ticks_rate_since(const struct ticks_reading *earlier)
{
	struct ticks_reading now;

	if (!ticks_are_tsc)
		return ONE_TO_ONE;
	now = read_later(earlier);
	return rate_between(earlier, &now);
}

uint64_t ticks_rate(void)
{
	static uint64_t rate;
	struct ticks_reading first;

	if (rate)
		return rate;
	first = ticks_read();
	return rate = ticks_rate_since(&first);
}
