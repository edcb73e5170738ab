/* rbprobe top: the figures of `rbprobe stat`, live on the terminal. */

#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/cli/choose_processes.h"
#include "tracer/cli/subcommand.h"
#include "tracer/cli/tracer_set.h"
#include "tracer/commands/trace_help.h"
#include "tracer/top/top.h"

#include <errno.h>

#define INTERVAL_DEFAULT_NS UINT64_C(1000000000)
#define OVERHEAD_DEFAULT 20 /* percent; of methods that were not named */

struct top_command {
	struct invocation invocation;
	struct top_wish wish;
};

enum long_option {
	OPTION_SORT = 0x200,
	OPTION_INTERVAL,
	OPTION_GVL,
	OPTION_APART,
	OPTION_SINCE_START,
};

static error_t parse_top(int key, char *argument, struct argp_state *state)
{
	struct top_command *top = state->input;
	struct options *options = &top->invocation.options;

	switch (key) {
	case OPTION_SORT:
		top->wish.sort = top_column_find(argument);
		if (top->wish.sort < TOP_COLUMNS)
			return 0;
		options_refuse_word("--sort", argument, top_column_names());
		return EINVAL;
	case OPTION_INTERVAL:
		return options_seconds("--interval", argument, &options->interval_ns);
	case OPTION_GVL:
		options->trace.marks.kinds |= 1u << MARK_GVL;
		return 0;
	case OPTION_APART:
		top->wish.apart = true;
		return 0;
	case OPTION_SINCE_START:
		top->wish.since_start = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option top_list[] = {
	{"gvl", OPTION_GVL, NULL, 0, "Show how much of their time threads wait for the GVL (Ruby 3.2 and newer)", 3},
	{"sort", OPTION_SORT, "calls/s|calls|errors|total|self|mean|p99|max|method", 0,
         "Which rows come first: those with the most in this column (default total)", 4},
	{"since-start", OPTION_SINCE_START, NULL, 0, "Begin with the figures since the start, not those of the last interval", 4},
	{"apart", OPTION_APART, NULL, 0, "Begin with a row for each process; else processes are added up", 4},
	{"interval", OPTION_INTERVAL, "SEC", 0, "New figures every SEC seconds (default 1)", 6},
	{0},
};

static const struct argp options_top = {.options = top_list, .parser = parse_top};

static void top_init(void *self)
{
	struct top_command *top = self;

	top->wish.sort = TOP_TOTAL;
	top->invocation.options.interval_ns = INTERVAL_DEFAULT_NS;
}

static int top_check(void *self)
{
	struct top_command *top = self;
	struct options *options = &top->invocation.options;
	int status;

	status = tracers_refuse_events(options, "top");
	if (status)
		return status;
	tracers_choose_key(options, NULL);
	top->wish.options = options;
	top->wish.chooses = !options->selectors.count && !(options->trace.flags & TRACE_FIREHOSE);
	options->selectors_optional = top->wish.chooses;
	for (uint32_t i = 0; i < options->selectors.count; i++) {
		if (options->selectors.items[i].expression_count)
			message("top shows no values: leave out the parentheses of %s", options->selectors.texts[i]);
		else if (selector_line(&options->selectors.items[i]))
			message("top counts calls of methods, not lines such as %s", options->selectors.texts[i]);
		else
			continue;
		return STATUS_USAGE;
	}
	status = options_check_trace(options);
	if (status == 0 && options->trace.flags & TRACE_FOLLOW_FORKS) {
		message("top shows the processes that are there; --follow-forks is an option of trace, stat and exec");
		return STATUS_USAGE;
	}
	if (status == 0 && options->trace.flags & TRACE_TREE) {
		message("top counts calls; --tree, which shows them, is an option of trace");
		status = STATUS_USAGE;
	}
	if (top->wish.chooses) {
		/* Nobody has named them: those that cost much are left out. */
		options->trace.flags |= TRACE_WITHOUT_HOOK;
		if (!options->overhead_given)
			options->trace.conditions.max_overhead = OVERHEAD_DEFAULT;
	}
	return status;
}

static int top_run_command(void *self)
{
	struct top_command *top = self;
	struct options *options = &top->invocation.options;
	int signals = invocation_signals(&top->invocation), status;

	if (signals < 0)
		return STATUS_FAILED;
	status = options->children ? choose_children_of(options, &top->wish.parents) : 0;
	if (!status)
		status = top_run(&top->wish, signals);
	free(top->wish.parents.items);
	return status;
}

const struct subcommand cmd_top = {
	.name = "top",
	.arguments = "-p PID[,PID...] [SELECTOR...]",
	.summary = "the same, live on the terminal",
	.usage = "-p PID [SELECTOR...]",
	.description =
		"Watch on the terminal how often methods of running Ruby processes are called, and how long they take. They are "
		"counted inside the processes, as `rbprobe stat` does. Without selectors the stacks are "
		"sampled, and the hottest methods counted. The key h lists the keys.\v" TRACE_HELP_SELECTORS TRACE_HELP_STATUS,
	.pids = PIDS_SOME,
	.children_itself = true,
	.timeout = TRACE_HELP_TIMEOUT,
	.options = (const struct argp *const[]){&options_selectors, &options_tracers, &options_run, &options_top,
                                                &options_conditions, &options_engine, NULL},
	.needs = {[LIBRARY_NCURSES] = true},
	.size = sizeof(struct top_command),
	.init = top_init,
	.check = top_check,
	.run = top_run_command,
};
