/* The options that select events beside calls. See options.h. */

#include "tracer/cli/options.h"

#include "proto/limits.h"
#include "tracer/base/message.h"

#include <errno.h>
#include <string.h>

enum long_option {
	OPTION_RAISE = 0x500,
	OPTION_GC,
	OPTION_GVL,
	OPTION_ALLOCATIONS,
	OPTION_TIMELINE,
	OPTION_TIMELINE_RATE,
};

#define STATE_RATE_HZ 1000u /* if nothing else is said */

/* CLASS, CLASS+, CLASS@N, CLASS+@N */
static int add_allocations(struct mark_options *marks, const char *argument)
{
	struct mark_allocation *one = &marks->allocations[marks->allocation_count];
	const char *at = strrchr(argument, '@');
	size_t size = at ? (size_t)(at - argument) : strlen(argument);
	uint64_t every = 1;

	if (marks->allocation_count == MARK_ALLOCATIONS_MAX) {
		message("--allocations: at most %u classes", MARK_ALLOCATIONS_MAX);
		return EINVAL;
	}
	if (at && options_whole_number("--allocations CLASS@N", at + 1, 1, UINT32_MAX, &every) != 0)
		return EINVAL;
	one->below = size > 0 && argument[size - 1] == '+';
	one->class = (struct slice){argument, size - one->below};
	one->every = (uint32_t)every;
	if (one->class.size > 2 && memcmp(argument, "::", 2) == 0)
		one->class = (struct slice){argument + 2, one->class.size - 2};
	if (one->class.size == 0 || one->class.size > NAME_SIZE_MAX || memchr(one->class.bytes, '*', one->class.size)) {
		message("--allocations takes the name of a class, no pattern, as in Order, Order+ or Order@100, not \"%s\"",
		        argument);
		return EINVAL;
	}
	marks->allocation_count++;
	marks->kinds |= 1u << MARK_ALLOCATION;
	return 0;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct mark_options *marks = &((struct options *)state->input)->trace.marks;
	uint64_t rate_hz = 0;

	switch (key) {
	case OPTION_RAISE:
		marks->kinds |= 1u << MARK_RAISE;
		return options_exceptions("--raise", argument, &marks->raise);
	case OPTION_GC:
		marks->kinds |= 1u << MARK_GC | 1u << MARK_GC_PAUSE;
		return 0;
	case OPTION_GVL:
		marks->kinds |= 1u << MARK_GVL;
		return 0;
	case OPTION_TIMELINE:
		marks->kinds |= 1u << MARK_STATE;
		marks->state_rate_hz = marks->state_rate_hz ? marks->state_rate_hz : STATE_RATE_HZ;
		return 0;
	case OPTION_TIMELINE_RATE:
		marks->kinds |= 1u << MARK_STATE;
		if (options_whole_number("--timeline-rate", argument, 1, STATE_RATE_MAX_HZ, &rate_hz) != 0)
			return EINVAL;
		marks->state_rate_hz = (uint32_t)rate_hz;
		return 0;
	case OPTION_ALLOCATIONS:
		return add_allocations(marks, argument);
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option list[] = {
	{NULL, 0, NULL, 0, "Other events in the same tree, with or without selectors:", 11},
	{"raise", OPTION_RAISE, "CLASS", OPTION_ARG_OPTIONAL,
         "Where exceptions are raised; of this class, or one below it. May be a pattern", 11},
	{"allocations", OPTION_ALLOCATIONS, "CLASS[@N]", 0,
         "Where objects of this class are made, with @N every Nth, and how many at the end. CLASS+: also of classes below it. "
         "May "
         "be repeated",
         11},
	{"gc", OPTION_GC, NULL, 0, "Each garbage collection: why, how long the pauses were, objects before and after", 11},
	{"gvl", OPTION_GVL, NULL, 0,
         "Where threads wait for the GVL for long, and at the end which part of its time each has waited for it, held it, and "
         "done "
         "without (Ruby 3.2 and newer)",
         11},
	{"timeline", OPTION_TIMELINE, NULL, 0,
         "What each thread does, and when: runs, waits for the GVL, does without it, collects garbage. Before Ruby 3.2 it is "
         "sampled",
         11},
	{"timeline-rate", OPTION_TIMELINE_RATE, "HZ", 0,
         "--timeline, before Ruby 3.2: look at the threads HZ times a second (1 to 1000, default 1000)", 11},
	{0},
};

const struct argp options_events = {.options = list, .parser = parse};
