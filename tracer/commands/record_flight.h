#ifndef RBPROBE_RECORD_FLIGHT_H
#define RBPROBE_RECORD_FLIGHT_H

#include "tracer/cli/options.h"
#include "tracer/recording/recent.h"
#include "tracer/recording/trigger.h"

/* The options of `rbprobe record` that make it a flight recorder. */

#define FLIGHT_SIZE_DEFAULT (256ull << 20) /* of memory, where only a time was given */
#define FLIGHT_FILES_DEFAULT 10u           /* that SIGUSR1 may leave */

#define FLIGHT_TRUTH_SIZE sizeof("until4294967295")

enum flight_selector { FLIGHT_CALL, FLIGHT_WITHIN, FLIGHT_OUTSIDE, FLIGHT_SELECTORS };

/* What a trigger points into. */
struct flight_condition {
	uint32_t chosen[FLIGHT_SELECTORS]; /* which of the selectors it has, from 1 on; 0: none */
	uint32_t given;                    /* its words, a bit each */
	char *words;                       /* as they were written, in parts */
	const char *expression;            /* one of them; NULL: it has none */
	char truth[FLIGHT_TRUTH_SIZE];     /* what its value is called */
	char *code;                        /* the same as processes are asked for it */
};

/* A zeroed one is none. */
struct record_flight {
	struct recent_limits last;
	struct triggers triggers;
	struct selector_list selectors;                   /* of the triggers */
	struct flight_condition conditions[TRIGGERS_MAX]; /* of each trigger */
};

/* Of the options: 0, or EINVAL after a line on stderr. */
int record_flight_last(struct record_flight *flight, const char *text);
int record_flight_until(struct record_flight *flight, const char *text);

/* After them: what is wrong with all of it together, or NULL. */
const char *record_flight_check(struct record_flight *flight, const struct options *options);
/* Has the processes send the values of expressions, by what it adds to the options' selectors. NULL, or what is wrong. */
const char *record_flight_select(struct record_flight *flight, struct selector_list *selectors);
void record_flight_free(struct record_flight *flight);

static inline bool record_flight_is_wanted(const struct record_flight *flight)
{
	return flight->last.ns || flight->last.size;
}

#endif
