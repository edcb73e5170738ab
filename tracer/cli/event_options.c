/* The options that select events beside calls. See options.h. */

#include "tracer/cli/options.h"

enum long_option {
	OPTION_RAISE = 0x500,
	OPTION_GC,
	OPTION_GVL,
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct mark_options *marks = &((struct options *)state->input)->trace.marks;

	switch (key) {
	case OPTION_RAISE:
		marks->kinds |= 1u << MARK_RAISE;
		return argument ? options_pattern("--raise", "class", argument, &marks->raise) : 0;
	case OPTION_GC:
		marks->kinds |= 1u << MARK_GC | 1u << MARK_GC_PAUSE;
		return 0;
	case OPTION_GVL:
		marks->kinds |= 1u << MARK_GVL;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option list[] = {
	{NULL, 0, NULL, 0, "Other events in the same tree, with or without selectors:", 11},
	{"raise", OPTION_RAISE, "CLASS", OPTION_ARG_OPTIONAL,
         "Where exceptions are raised; of this class, or one below it. May be a pattern", 11},
	{"gc", OPTION_GC, NULL, 0, "Each garbage collection: why, how long the pauses were, objects before and after", 11},
	{"gvl", OPTION_GVL, NULL, 0,
         "Where threads wait for the GVL for long, and at the end which part of its time each has waited for it, held it, and "
         "done "
         "without (Ruby 3.2 and newer)",
         11},
	{0},
};

const struct argp options_events = {.options = list, .parser = parse};
