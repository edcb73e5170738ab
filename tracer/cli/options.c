/*
 * Parsing shared options. See options.h.
 *
 * argp prints the errors of getopt itself; its own second line ("Try ... --help") is switched off by leaving it without an
 * error stream, so that wrong usage is one line.
 */

#define _GNU_SOURCE
#include "tracer/cli/options.h"

#include "proto/clock.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/base/output_name.h"
#include "tracer/cli/option_names.h"
#include "tracer/cli/tracer_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_DEFAULT_NS (5 * NS_PER_S)
#define FIREHOSE_OVERHEAD 20 /* percent */

enum long_option {
	OPTION_ARGS = 0x100,
	OPTION_RETURN,
	OPTION_LOCALS,
	OPTION_INSPECT,
	OPTION_IVARS,
	OPTION_FOLLOW_FORKS,
	OPTION_DURATION,
	OPTION_VALUE_SIZE,
	OPTION_OVERFLOW,
	OPTION_ENGINE,
	OPTION_COLOR,
	OPTION_NO_LOAD,
	OPTION_INTERRUPT,
	OPTION_NO_HOOK,
	OPTION_ATTRIBUTES,
};

void options_init(struct options *options)
{
	memset(options, 0, sizeof(*options));
	options->timeout_ns = TIMEOUT_DEFAULT_NS;
	options->positional = &options_selectors;
	options->trace.value_size = VALUE_SIZE_DEFAULT;
	options->trace.value_depth = VALUE_DEPTH_DEFAULT;
	options->trace.value_length = VALUE_LENGTH_DEFAULT;
	options->format = &sink_text;
	options->style.durations = true;
	options->style.indent = 3;
	options->selectors.asks_process = true;
}

void options_free(struct options *options)
{
	free(options->pids.items);
	selector_list_free(&options->selectors);
	tracers_free(options);
}

/* Says what is wrong; the parser returns it. */
#define WRONG(...) (message(__VA_ARGS__), EINVAL)

static struct options *options_of(struct argp_state *state)
{
	return state->input;
}

static error_t parse_talk(int key, char *argument, struct argp_state *state)
{
	struct options *options = options_of(state);

	(void)argument;
	switch (key) {
	case 'q':
		options->quiet = true;
		return 0;
	case 'v':
		options->verbose = true;
		message_show_all();
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static error_t parse_session(int key, char *argument, struct argp_state *state)
{
	struct options *options = options_of(state);

	switch (key) {
	case OPTION_NO_LOAD:
		options->no_load = true;
		return 0;
	case OPTION_INTERRUPT:
		options->interrupt = true;
		return 0;
	}
	return parse_talk(key, argument, state);
}

static error_t parse_engine(int key, char *argument, struct argp_state *state)
{
	static const char *const words[] = {"auto", "target", "patch", "hook", NULL};
	static const enum engine_id engines[] = {ENGINE_AUTO, ENGINE_TARGET, ENGINE_PATCH, ENGINE_HOOK};
	unsigned chosen;

	if (key != OPTION_ENGINE)
		return ARGP_ERR_UNKNOWN;
	if (options_choice("--engine", argument, words, &chosen))
		return EINVAL;
	options_of(state)->trace.engine = engines[chosen];
	return 0;
}

/* What can only be a process's id, with or without a -p in front of it. */
static error_t parse_bare_pids(char *text, struct options *options)
{
	struct argp_option option;

	if (!options_find_letter(options->argp, 'p', &option))
		return WRONG("%s is a number, and no process is asked for here", text);
	return options_pids(text, &options->pids);
}

int options_selector(struct options *options, const char *text)
{
	struct error err;

	return selector_parse(&options->selectors, text, &err) < 0 ? WRONG("%s", err.text) : 0;
}

static error_t parse_selectors(int key, char *argument, struct argp_state *state)
{
	if (key != ARGP_KEY_ARG && key != 'm')
		return ARGP_ERR_UNKNOWN;
	if (!argument)
		return 0; /* -m alone: the selectors follow */
	if (options_are_pids(argument) && key == ARGP_KEY_ARG)
		return parse_bare_pids(argument, options_of(state));
	if (options_are_pids(argument))
		return WRONG("-m takes a selector, and %s is none; a process is given with -p %s", argument, argument);
	return options_selector(options_of(state), argument);
}

static error_t parse_color(int key, char *argument, struct argp_state *state)
{
	static const char *const words[] = {"auto", "always", "never", NULL};
	unsigned chosen;

	if (key != OPTION_COLOR)
		return ARGP_ERR_UNKNOWN;
	if (options_choice("--color", argument, words, &chosen))
		return EINVAL;
	options_of(state)->colors = (enum color_choice)chosen;
	return 0;
}

static error_t parse_run(int key, char *argument, struct argp_state *state)
{
	struct options *options = options_of(state);

	switch (key) {
	case 'f':
		options->trace.flags |= TRACE_FIREHOSE;
		return 0;
	case 'y':
		options->trace.flags |= TRACE_HOOK;
		return 0;
	case OPTION_NO_HOOK:
		options->trace.flags |= TRACE_WITHOUT_HOOK | TRACE_NO_HOOK;
		return 0;
	case OPTION_ATTRIBUTES:
		options->trace.flags |= TRACE_ATTRIBUTES;
		return 0;
	case OPTION_FOLLOW_FORKS:
		options->trace.flags |= TRACE_FOLLOW_FORKS;
		return 0;
	case OPTION_DURATION:
		return options_seconds("--duration", argument, &options->duration_ns);
	}
	return ARGP_ERR_UNKNOWN;
}

static error_t parse_file(int key, char *argument, struct argp_state *state)
{
	struct options *options = options_of(state);

	switch (key) {
	case 'o':
		options->output_path = argument;
		return options_output_name(argument);
	case 'a':
		options->append = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static error_t parse_trace(int key, char *argument, struct argp_state *state)
{
	static const char *const overflow_words[] = {"drop", "block", NULL};
	struct options *options = options_of(state);
	uint64_t number;
	unsigned chosen;

	switch (key) {
	case OPTION_ARGS:
		options->trace.flags |= TRACE_ARGUMENTS;
		return 0;
	case OPTION_RETURN:
		options->trace.flags |= TRACE_RESULT;
		return 0;
	case OPTION_LOCALS:
		options->trace.flags |= TRACE_LOCALS;
		return 0;
	case OPTION_INSPECT:
		options->trace.flags |= TRACE_INSPECT;
		return 0;
	case OPTION_IVARS:
		options->trace.flags |= TRACE_IVARS;
		return 0;
	case OPTION_VALUE_SIZE:
		if (options_whole_number("--value-size", argument, 1, VALUE_SIZE_MAX, &number))
			return EINVAL;
		options->trace.value_size = (uint32_t)number;
		return 0;
	case OPTION_OVERFLOW:
		if (options_choice("--overflow", argument, overflow_words, &chosen))
			return EINVAL;
		options->trace.overflow = (enum overflow_policy)chosen;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* clang-format off */
#define TALK_ROWS \
	{"quiet", 'q', NULL, 0, "Say nothing but errors on standard error", 9}, \
	{"verbose", 'v', NULL, 0, "Say more about what is done, and how", 9}
/* clang-format on */

static const struct argp_option talk_list[] = {TALK_ROWS, {0}};

static const struct argp_option session_list[] = {
	{"no-load", OPTION_NO_LOAD, NULL, 0, "Do not load the extension into a process that has not required it", 9},
	{"interrupt", OPTION_INTERRUPT, NULL, 0,
         "Wake the main thread even if its call then ends early or fails with EINTR (epoll_wait, sleep and others called by an "
         "extension, open of a FIFO, IO#sysread). Without this rbprobe waits until the call returns",
         9},
	TALK_ROWS,
	{0},
};

static const struct argp_option color_list[] = {
	{"color", OPTION_COLOR, "auto|always|never", 0, "Colours; auto: on a terminal, if NO_COLOR is not set", 4},
	{0},
};

static const struct argp_option engine_list[] = {
	{"engine", OPTION_ENGINE, "auto|target|patch|hook", 0,
         "How methods are observed. target: methods written in Ruby. patch: methods written in C. Neither costs other methods "
         "anything. hook: any method, but all calls of C methods are slower meanwhile; rbprobe asks first where the process "
         "would stay slower afterwards. auto (default): the cheapest that can observe the method",
         8},
	{0},
};

static const struct argp_option selector_options[] = {
	{"methods", 'm', "SELECTOR", OPTION_ARG_OPTIONAL, "Selectors follow (optional, as rbtrace spells it)", 2},
	{0},
};

static const struct argp_option run_list[] = {
	{"firehose", 'f', NULL, 0, "All methods; with --yes or --engine=hook, by one hook for all", 2},
	{"yes", 'y', NULL, 0, "Do not ask: trace also methods that leave the process slower afterwards", 8},
	{"no-hook", OPTION_NO_HOOK, NULL, 0, "Leave out what only engine hook can observe", 8},
	{"attributes", OPTION_ATTRIBUTES, NULL, 0,
         "Trace attr_reader and attr_writer methods also where the selector names many (String#, Order#*, --firehose). Every "
         "call of a C method is slower meanwhile",
         8},
	{"follow-forks", OPTION_FOLLOW_FORKS, NULL, 0,
         "Trace also the processes that it forks from now on, such as those that do one job each, from the fork on", 2},
	{"duration", OPTION_DURATION, "SEC", 0, "Stop after this time", 6},
	{0},
};

static const struct argp_option file_list[] = {
	{"output", 'o', "FILE", 0, "Write to a file, - being standard output; with %p in its name (the PID) one for each process",
         5},
	{"append", 'a', NULL, 0, "Append to it", 5},
	{0},
};

static const struct argp_option one_file_list[] = {
	{"output", 'o', "FILE", 0, "Write to a file, - being standard output", 5},
	{"append", 'a', NULL, 0, "Append to it", 5},
	{0},
};

static const struct argp_option trace_list[] = {
	{"args", OPTION_ARGS, NULL, 0, "Show all arguments", 3},
	{"locals", OPTION_LOCALS, NULL, 0,
         "Show all local variables, as they are when a method written in Ruby ends, or at a line", 3},
	{"return", OPTION_RETURN, NULL, 0, "Show results", 3},
	{"inspect", OPTION_INSPECT, NULL, 0, "Render values by calling their inspect method", 3},
	{"ivars", OPTION_IVARS, NULL, 0, "Show objects with their instance variables", 3},
	{"value-size", OPTION_VALUE_SIZE, "BYTES", 0, "Cut values that are longer (default 256)", 3},
	{"overflow", OPTION_OVERFLOW, "drop|block", 0,
         "If rbprobe is too slow: drop (default) loses calls and counts them, block makes the process wait", 7},
	{0},
};

const struct argp options_talk = {.options = talk_list, .parser = parse_talk};
const struct argp options_session = {.options = session_list, .parser = parse_session};
const struct argp options_color = {.options = color_list, .parser = parse_color};
const struct argp options_engine = {.options = engine_list, .parser = parse_engine};
const struct argp options_selectors = {.options = selector_options, .parser = parse_selectors};
const struct argp options_trace = {.options = trace_list, .parser = parse_trace};
const struct argp options_run = {.options = run_list, .parser = parse_run};
const struct argp options_file = {.options = file_list, .parser = parse_file};
const struct argp options_one_file = {.options = one_file_list, .parser = parse_file};

/* The name of the subcommand in argv[0], which is "rbprobe NAME". */
static const char *command_in(const char *name)
{
	const char *space = strchr(name, ' ');

	return space ? space + 1 : name;
}

/* The root parser of every subcommand: hands the input on, and keeps argp itself quiet. */
static error_t parse_root(int key, char *argument, struct argp_state *state)
{
	const struct argp_child *children = options_of(state)->argp->children;
	struct argp_option option;

	switch (key) {
	case ARGP_KEY_INIT:
		state->err_stream = NULL;
		for (size_t i = 0; children && children[i].argp; i++)
			state->child_inputs[i] = state->input;
		return 0;
	case ARGP_KEY_ARG:
		for (size_t i = 0; children && children[i].argp; i++)
			if (children[i].argp == options_of(state)->positional)
				return ARGP_ERR_UNKNOWN; /* that one takes it */
		if (options_are_pids(argument) && options_find_letter(options_of(state)->argp, 'p', &option))
			return options_pids(argument, &options_of(state)->pids);
		return WRONG("%s takes no argument such as \"%s\"", command_in(state->name), argument);
	}
	return ARGP_ERR_UNKNOWN;
}

int options_parse(const struct argp *argp, int argc, char **argv, struct options *options)
{
	struct argp root = *argp;
	int first_unknown = 0;
	error_t status;

	if (options_check_names(argp, command_in(argv[0]), argc, argv))
		return STATUS_USAGE;
	root.parser = parse_root;
	options->argp = &root;
	argp_err_exit_status = STATUS_USAGE;
	status = argp_parse(&root, argc, argv, ARGP_NO_HELP, &first_unknown, options);
	options->argp = NULL;
	if (status == 0)
		return 0;
	if (status == ENOMEM)
		message("out of memory");
	return STATUS_USAGE;
}

/* Every method there is, each by the engine that is best for it: those that only the whole hook observes will be left out. */
static int select_all(struct options *options)
{
	static const char *const all[] = {"*#", "*."};

	options->trace.flags &= ~(uint32_t)TRACE_FIREHOSE;
	options->trace.flags |= TRACE_WITHOUT_HOOK;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (options_selector(options, all[i]) != 0)
			return STATUS_FAILED;
	return 0;
}

int options_check_trace(struct options *options)
{
	const char *wrong = NULL;
	bool firehose = options->trace.flags & TRACE_FIREHOSE;
	bool without_hook = options->trace.flags & TRACE_NO_HOOK;
	bool consented = options->trace.flags & TRACE_HOOK;
	const char *wrong_conditions = options_check_conditions(options);

	if (!firehose && !options->selectors_optional &&
	    (options->selectors.count == 0 || options->selectors.items[0].role != ROLE_SHOWN) && !options->trace.marks.kinds)
		wrong = "which methods? Give selectors such as String#gsub, a tracer (-c sql), or --firehose for all";
	else if (firehose && options->trace.engine != ENGINE_AUTO && options->trace.engine != ENGINE_HOOK)
		wrong = "--firehose is by all engines, or by --engine hook";
	else if (firehose && without_hook && options->trace.engine == ENGINE_HOOK)
		wrong = "--engine hook and --no-hook contradict each other";
	else if (without_hook && consented)
		wrong = "--yes and --no-hook contradict each other";
	else if (without_hook && options->trace.flags & TRACE_ATTRIBUTES)
		wrong = "--attributes needs engine hook, which --no-hook forbids";
	else if (options->trace.flags & TRACE_LOCALS && !firehose && options->selectors.count == 0)
		wrong = "--locals shows the variables of methods and lines; give selectors such as Order#total or order.rb:42";
	else if (options->trace.flags & TRACE_FOLLOW_FORKS && options->trace.marks.kinds & ~(1u << MARK_RAISE | 1u << MARK_STATE))
		wrong = "--follow-forks cannot go with --gc, --gvl and --allocations, which are about one process";
	else if (options->append && !options->output_path)
		wrong = "-a appends to a file; name it with -o FILE";
	else if (options->order == ORDER_THREAD && options->format != &sink_text)
		wrong = "--order thread goes with --format text";
	else
		wrong = wrong_conditions;
	if (firehose && !options->overhead_given)
		options->trace.conditions.max_overhead = FIREHOSE_OVERHEAD;
	if (!wrong)
		return firehose && options->trace.engine == ENGINE_AUTO && !consented ? select_all(options) : 0;
	message("%s", wrong);
	return STATUS_USAGE;
}

uint32_t options_limit_ms(const struct options *options)
{
	uint64_t limit_ms = options->timeout_ns / NS_PER_MS;

	if (options->unlimited)
		return 0;
	return limit_ms == 0 ? 1 : limit_ms < UINT32_MAX ? (uint32_t)limit_ms : UINT32_MAX;
}

struct command options_command(const struct options *options, enum command_kind kind)
{
	struct command command = {.kind = kind, .options = options->trace};

	command.options.expression_timeout_ms = command.options.work_limit_ms = options_limit_ms(options);
	command.selectors = options->selectors.items;
	command.selector_count = options->selectors.count;
	return command;
}

void options_settle(struct options *options, int output_fd)
{
	options->style.colors = term_colors(output_fd, options->colors);
	options->style.many_pids = options->pids.count > 1 || options->children || options->trace.flags & TRACE_FOLLOW_FORKS;
	options->style.flags = options->trace.flags;
	if (options->format == &sink_text)
		options->style.by_thread = options->order == ORDER_THREAD || (options->order == ORDER_AUTO && isatty(output_fd));
	options->style.running = options->trace.conditions.slow_ns != 0;
}

struct attach_manner options_manner(const struct options *options)
{
	return (struct attach_manner){
		.may_load = !options->no_load, .interrupt = options->interrupt, .timeout_ns = options->timeout_ns};
}
