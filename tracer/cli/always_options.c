/* The options that say which calls are shown though they are not slow. See options.h. */

#include "tracer/cli/options.h"

#include <errno.h>

enum long_option { OPTION_ALWAYS = 0x900, OPTION_SLOW_METHODS };

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct options *options = state->input;
	struct selector *selector;

	if (key != OPTION_ALWAYS && key != OPTION_SLOW_METHODS)
		return ARGP_ERR_UNKNOWN;
	selector = options_method_selector(options, key == OPTION_ALWAYS ? "--always" : "--slow-methods", argument);
	if (!selector)
		return EINVAL;
	if (key == OPTION_ALWAYS)
		selector->flags |= SELECTOR_ALWAYS;
	selector->if_slow = key == OPTION_SLOW_METHODS;
	return 0;
}

const char *options_check_always(struct options *options)
{
	const struct conditions *conditions = &options->trace.conditions;
	struct selector_list *list = &options->selectors;
	uint32_t always = 0, if_slow = 0, rest = 0;

	for (uint32_t i = 0; i < list->count; i++) {
		const struct selector *selector = &list->items[i];

		always += selector->flags & SELECTOR_ALWAYS ? 1 : 0;
		if_slow += selector->if_slow;
		rest += selector->role == ROLE_SHOWN && !(selector->flags & SELECTOR_ALWAYS) && !selector->if_slow;
	}
	if (!always && !if_slow)
		return NULL;
	if (!conditions->slow_ns && !conditions->slow_cpu_ns)
		return "--always and --slow-methods go with --slow or --slow-cpu";
	if (options->trace.flags & TRACE_TREE)
		return "--always and --slow-methods cannot go with --tree, which shows all that happens inside a slow call";
	if (if_slow && options->trace.flags & TRACE_FIREHOSE)
		return "--firehose shows slow calls of all methods, --slow-methods of some; give one of them";
	if (!if_slow && !rest && !(options->trace.flags & TRACE_FIREHOSE))
		return "which calls are to be shown if they are slow? Beside --always give selectors, or --firehose";
	for (uint32_t i = 0; i < list->count && if_slow; i++)
		if (list->items[i].role == ROLE_SHOWN && !list->items[i].if_slow)
			list->items[i].flags |= SELECTOR_ALWAYS;
	return NULL;
}

static const struct argp_option list[] = {
	{"always", OPTION_ALWAYS, "SELECTOR", 0,
         "With --slow or --slow-cpu: show all calls of this method, slow or not. May be repeated", 10},
	{"slow-methods", OPTION_SLOW_METHODS, "SELECTOR", 0,
         "The same from the other end: --slow and --slow-cpu are about this method, calls of the others are all shown. May be "
         "repeated",
         10},
	{0},
};

const struct argp options_always = {.options = list, .parser = parse};
