#ifndef RBPROBE_RECORD_FLIGHT_H
#define RBPROBE_RECORD_FLIGHT_H

#include "tracer/cli/options.h"
#include "tracer/recording/recent.h"
#include "tracer/recording/trigger.h"

/* The options of `rbprobe record` that make it a flight recorder. */

#define FLIGHT_SIZE_DEFAULT (256ull << 20) /* of memory, where only a time was given */
#define FLIGHT_FILES_DEFAULT 10u           /* that SIGUSR1 may leave */

/* A zeroed one is none. */
struct record_flight {
	struct recent_limits last;
	struct triggers triggers;
	struct selector_list selectors; /* of the triggers, in their order */
	bool selecting[TRIGGERS_MAX];   /* which of them has one */
	char *words[TRIGGERS_MAX];      /* what their texts point into */
};

/* Of the options: 0, or EINVAL after a line on stderr. */
int record_flight_last(struct record_flight *flight, const char *text);
int record_flight_until(struct record_flight *flight, const char *text);

/* After them: what is wrong with all of it together, or NULL. */
const char *record_flight_check(struct record_flight *flight, const struct options *options);
void record_flight_free(struct record_flight *flight);

static inline bool record_flight_is_wanted(const struct record_flight *flight)
{
	return flight->last.ns || flight->last.size;
}

#endif
