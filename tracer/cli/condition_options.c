/* The options that say which calls are shown. See options.h. */

#include "tracer/cli/options.h"

#include "proto/clock.h"
#include "proto/limits.h"
#include "tracer/base/message.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum long_option {
	OPTION_SLOW = 0x300,
	OPTION_SLOW_CPU,
	OPTION_RAISED,
	OPTION_EVERY,
	OPTION_RATE,
	OPTION_WITHIN,
	OPTION_OUTSIDE,
	OPTION_DEPTH,
	OPTION_THREAD,
	OPTION_MAX_OVERHEAD,
	OPTION_IF,
	OPTION_TREE,
};

int options_milliseconds(const char *option, const char *text, uint64_t *ns)
{
	char *end;
	double number = strtod(text, &end);

	if (end == text || *end || !isfinite(number) || number <= 0 || number > 1e12) {
		message("%s takes milliseconds, such as 100 or 0.5, not \"%s\"", option, text);
		return EINVAL;
	}
	*ns = (uint64_t)ceil(number * (double)NS_PER_MS);
	return 0;
}

struct selector *options_method_selector(struct options *options, const char *option, const char *text)
{
	struct error err;
	struct selector *selector;

	if (selector_parse(&options->selectors, text, &err) < 0) {
		message("%s: %s", option, err.text);
		return NULL;
	}
	selector = &options->selectors.items[options->selectors.count - 1];
	if (selector_line(selector)) {
		message("%s takes a method, not a line, such as \"%s\"", option, text);
		return NULL;
	}
	return selector;
}

static int scope_selector(struct options *options, const char *option, const char *text, enum selector_role role)
{
	struct selector *selector = options_method_selector(options, option, text);

	if (!selector)
		return EINVAL;
	if (selector->expression_count) {
		message("%s takes a selector without expressions, not \"%s\"", option, text);
		return EINVAL;
	}
	selector->role = role;
	return 0;
}

static int number_of(const char *option, const char *text, uint32_t *number)
{
	uint64_t whole;

	if (options_whole_number(option, text, 1, UINT32_MAX, &whole))
		return EINVAL;
	*number = (uint32_t)whole;
	return 0;
}

static int percent_of(const char *option, const char *text, uint32_t *percent)
{
	uint64_t whole;

	if (options_whole_number(option, text, 0, 100, &whole))
		return EINVAL;
	*percent = (uint32_t)whole;
	return 0;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct options *options = state->input;
	struct conditions *conditions = &options->trace.conditions;

	switch (key) {
	case OPTION_SLOW:
		return options_milliseconds("--slow", argument, &conditions->slow_ns);
	case OPTION_SLOW_CPU:
		return options_milliseconds("--slow-cpu", argument, &conditions->slow_cpu_ns);
	case OPTION_RAISED:
		conditions->raised = (struct slice){"", 0};
		return options_exceptions("--raised", argument, &conditions->raised);
	case OPTION_EVERY:
		return number_of("--every", argument, &conditions->every);
	case OPTION_RATE:
		return number_of("--rate", argument, &conditions->rate);
	case OPTION_WITHIN:
		return scope_selector(options, "--within", argument, ROLE_WITHIN);
	case OPTION_OUTSIDE:
		return scope_selector(options, "--outside", argument, ROLE_OUTSIDE);
	case OPTION_DEPTH:
		return number_of("--depth", argument, &conditions->depth);
	case OPTION_TREE:
		options->trace.flags |= TRACE_TREE;
		return 0;
	case OPTION_IF:
		if (!argument[strspn(argument, " \t\n")] || strlen(argument) > EXPRESSION_SIZE_MAX) {
			message("--if takes a Ruby expression of at most %u bytes", EXPRESSION_SIZE_MAX);
			return EINVAL;
		}
		conditions->expression = (struct slice){argument, strlen(argument)};
		return 0;
	case OPTION_MAX_OVERHEAD:
		options->overhead_given = true;
		return percent_of("--max-overhead", argument, &conditions->max_overhead);
	case OPTION_THREAD:
		return options_pattern("--thread", "thread", argument, &conditions->thread);
	}
	return ARGP_ERR_UNKNOWN;
}

/*
 * Of several selectors that match a method, the first one's expressions count: those of shown calls, and in their order. Those
 * that are shown in any case come before them.
 */
static int rank_of(const struct selector *selector)
{
	return selector->role != ROLE_SHOWN ? 2 : selector->flags & SELECTOR_ALWAYS ? 0 : 1;
}

static void arrange_selectors(struct selector_list *list)
{
	for (uint32_t i = 1; i < list->count; i++)
		for (uint32_t k = i; k > 0 && rank_of(&list->items[k]) < rank_of(&list->items[k - 1]); k--) {
			struct selector item = list->items[k];
			const char *text = list->texts[k];

			list->items[k] = list->items[k - 1];
			list->texts[k] = list->texts[k - 1];
			list->items[k - 1] = item;
			list->texts[k - 1] = text;
		}
}

static bool shows_lines(const struct options *options)
{
	for (uint32_t i = 0; i < options->selectors.count; i++)
		if (selector_line(&options->selectors.items[i]))
			return true;
	return false;
}

/* Neither a method, nor what may select some later. */
static bool shows_no_call(const struct options *options)
{
	bool any = options->selectors.count > 0 || options->trace.marks.kinds;

	for (uint32_t i = 0; i < options->selectors.count; i++)
		if (options->selectors.items[i].role == ROLE_SHOWN && !selector_line(&options->selectors.items[i]))
			return false;
	return any && !(options->trace.flags & TRACE_FIREHOSE) && !options->selectors_optional;
}

/* What could not hold for anything that is shown. */
static const char *check_events(const struct options *options)
{
	const struct conditions *conditions = &options->trace.conditions;
	uint32_t kinds = options->trace.marks.kinds;
	bool narrowed = options->selectors.count > 0 || conditions->thread.size || conditions->every || conditions->rate;

	if (shows_no_call(options) &&
	    options->trace.flags & (TRACE_ARGUMENTS | TRACE_RESULT | (TRACE_MEASURES & ~(unsigned)TRACE_STACK)))
		return "--args, --return and --measure are about calls, and no method is selected; give a selector such as "
		       "Order#total, or write what a line is to show as in order.rb:42(total)";
	if (shows_no_call(options) && !shows_lines(options) && options->trace.flags & TRACE_STACK &&
	    !(kinds & (1u << MARK_RAISE | 1u << MARK_ALLOCATION)))
		return "--stack does not apply to --gc and --gvl: inside a collection nobody can ask who called; give a selector "
		       "such as Order#total, in whose calls they are shown";
	if (options->trace.flags & TRACE_FIREHOSE || options->selectors_optional || !kinds ||
	    (options->selectors.count > 0 && options->selectors.items[0].role == ROLE_SHOWN))
		return NULL;
	if (conditions->slow_ns || conditions->slow_cpu_ns || conditions->raised.bytes || conditions->expression.size ||
	    conditions->depth)
		return "--slow, --slow-cpu, --raised, --if and --depth are about calls, and no method is selected; give a "
		       "selector "
		       "such as Order#total";
	if (narrowed && !(kinds & (1u << MARK_RAISE | 1u << MARK_ALLOCATION)))
		return "--thread, --within, --outside, --every and --rate do not apply to --gc and --gvl, and nothing else is "
		       "selected; give a selector such as Order#total, --raise or --allocations";
	return NULL;
}

const char *options_check_conditions(struct options *options)
{
	const struct conditions *conditions = &options->trace.conditions;
	const char *wrong = options_check_always(options);

	if (wrong)
		return wrong;
	for (uint32_t i = 0; conditions_at_end(conditions) && i < options->selectors.count; i++)
		if (selector_line(&options->selectors.items[i]))
			return "--slow, --slow-cpu, --raised and --if of a result are about how a call ends; a line has no end";
	arrange_selectors(&options->selectors);
	if (options->trace.flags & TRACE_TREE && !conditions_at_end(conditions))
		return "--tree shows what happens inside the calls that meet --slow, --slow-cpu, --raised or an --if about the "
		       "end; give "
		       "one of these";
	if (conditions->depth && conditions_at_end(conditions) && !(options->trace.flags & TRACE_TREE))
		return "--depth goes with conditions that are decided when a call ends (--slow, --raised, ...) only in a --tree";
	return check_events(options);
}

static const struct argp_option list[] = {
	{NULL, 0, NULL, 0, "Only calls that meet all of these conditions are shown. The process itself decides:", 10},
	{"slow", OPTION_SLOW, "MS", 0, "Calls that take at least so many milliseconds", 10},
	{"slow-cpu", OPTION_SLOW_CPU, "MS", 0, "Calls in which their thread computes for at least so many milliseconds", 10},
	{"raised", OPTION_RAISED, "CLASS", OPTION_ARG_OPTIONAL,
         "Calls that an exception leaves; of this class, or one below it. May be a pattern", 10},
	{"if", OPTION_IF, "EXPR", 0,
         "Calls for which this Ruby expression is true: of self, @ivars and arguments when they begin; with result, error or "
         "elapsed "
         "(seconds) in it, when they end",
         10},
	{"tree", OPTION_TREE, NULL, 0,
         "With a call that meets --slow, --slow-cpu, --raised or such an --if, also the traced calls inside it, as one tree; "
         "with stat, "
         "calls are counted by the counted calls around them",
         10},
	{"every", OPTION_EVERY, "N", 0, "Every Nth of the calls of a method that meet the other conditions", 10},
	{"rate", OPTION_RATE, "N", 0, "At most N calls a second", 10},
	{"within", OPTION_WITHIN, "SELECTOR", 0, "Only inside a call of such a method", 10},
	{"outside", OPTION_OUTSIDE, "SELECTOR", 0, "Not inside a call of such a method", 10},
	{"depth", OPTION_DEPTH, "N", 0, "At most N levels of traced calls", 10},
	{"thread", OPTION_THREAD, "NAME|TID", 0,
         "Only in threads of this name (may be a pattern) or native id; main: the main thread", 10},
	{"max-overhead", OPTION_MAX_OVERHEAD, "PERCENT", 0,
         "Only count the calls of methods whose observation takes more than this of the process's CPU time, the busiest "
         "first, then let them go. 0: any (default; with --firehose 20)",
         8},
	{0},
};

const struct argp options_conditions = {.options = list, .parser = parse};

static const struct argp_option filter_list[] = {
	{NULL, 0, NULL, 0, "Only what meets all of these conditions is shown, as far as it was recorded:", 10},
	{"slow", OPTION_SLOW, "MS", 0, "Calls that take at least so many milliseconds", 10},
	{"raised", OPTION_RAISED, "CLASS", OPTION_ARG_OPTIONAL,
         "Calls that an exception leaves; of this very class. May be a pattern", 10},
	{"within", OPTION_WITHIN, "SELECTOR", 0, "Only inside a call of such a method", 10},
	{"outside", OPTION_OUTSIDE, "SELECTOR", 0, "Not inside a call of such a method", 10},
	{"depth", OPTION_DEPTH, "N", 0, "At most N levels of shown calls", 10},
	{"thread", OPTION_THREAD, "NAME|TID", 0,
         "Only in threads of this name (may be a pattern) or native id; main: the main thread", 10},
	{0},
};

const struct argp options_filter = {.options = filter_list, .parser = parse};

const char *options_check_filter(const struct options *options)
{
	const struct conditions *conditions = &options->trace.conditions;

	for (uint32_t i = 0; i < options->selectors.count; i++)
		if (options->selectors.items[i].expression_count)
			return "the values are those that were recorded; give selectors without expressions";
	if (conditions->depth && conditions_at_end(conditions))
		return "--depth does not go with --slow and --raised, which are about single calls";
	return NULL;
}
