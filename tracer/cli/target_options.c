/* The options that say which processes are meant. See options.h; choose_processes.h makes PIDs of those that give none. */

#include "tracer/cli/options.h"

enum long_option {
	OPTION_PS = 0x800,
	OPTION_ALL,
	OPTION_WAIT,
	OPTION_CHILDREN,
};

static error_t parse_target(int key, char *argument, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case 'p':
		return options_pids(argument, &options->pids);
	case OPTION_PS:
		options->ps_pattern = argument;
		return 0;
	case OPTION_WAIT:
		options->wait_pattern = argument;
		return 0;
	case OPTION_ALL:
		options->all_processes = true;
		return 0;
	case OPTION_CHILDREN:
		options->children = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

#define HELP_PS "Instead of -p: a Ruby process with this in its command line (* and ? stand for anything)"
#define HELP_WAIT "Instead of -p: the next one that starts"

static const struct argp_option target_list[] = {
	{"pid", 'p', "PID[,PID...]", 0, "Attach to this process; may be repeated", 1},
	{"ps", OPTION_PS, "PATTERN", 0, HELP_PS, 1},
	{"all", OPTION_ALL, NULL, 0, "With --ps: all that match", 1},
	{"wait", OPTION_WAIT, "PATTERN", 0, HELP_WAIT, 1},
	{"children", OPTION_CHILDREN, NULL, 0,
         "Instead of the process, its child processes that are Ruby: the workers of a Puma or Unicorn master", 1},
	{0},
};

static const struct argp_option target_one_list[] = {
	{"pid", 'p', "PID", 0, "Attach to this process", 1},
	{"ps", OPTION_PS, "PATTERN", 0, HELP_PS, 1},
	{"wait", OPTION_WAIT, "PATTERN", 0, HELP_WAIT, 1},
	{0},
};

const struct argp options_target = {.options = target_list, .parser = parse_target};
const struct argp options_target_one = {.options = target_one_list, .parser = parse_target};
