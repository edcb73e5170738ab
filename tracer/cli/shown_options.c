/* How calls are shown: --format, --order, and what of them. See options.h. */

#include "tracer/cli/options.h"

#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"

#include <errno.h>

/* Of no other parser. */
enum long_option { OPTION_FORMAT = 0x900, OPTION_ORDER, OPTION_COUNT };

static error_t parse_shown(int key, char *argument, struct argp_state *state)
{
	static const char *const orders[] = {"auto", "thread", "time", NULL};
	static const char *const formats[] = {"text", "json", "rbtrace", NULL};
	struct options *options = state->input;
	uint64_t number;
	unsigned chosen;

	switch (key) {
	case OPTION_ORDER:
		if (options_choice("--order", argument, orders, &chosen))
			return EINVAL;
		options->order = (enum order_choice)chosen;
		return 0;
	case 't':
		options->style.start_times = true;
		return 0;
	case 'n':
		options->style.durations = false;
		return 0;
	case 'r':
		if (options_whole_number("-r", argument, 0, 16, &number))
			return EINVAL;
		options->style.indent = (uint32_t)number;
		return 0;
	case OPTION_FORMAT:
		options->format = sink_find(argument);
		if (options->format)
			return 0;
		options_refuse_word("--format", argument, formats);
		return EINVAL;
	case OPTION_COUNT:
		return options_whole_number("--count", argument, 1, UINT64_MAX / 2, &options->count);
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option shown_list[] = {
	{"start-time", 't', NULL, 0, "Show when each call began", 4},
	{"no-duration", 'n', NULL, 0, "Do not show how long calls took", 4},
	{"prefix", 'r', "N", 0, "Spaces per level (default 3)", 4},
	{"order", OPTION_ORDER, "auto|thread|time", 0,
         "thread: what several threads do at a time is not mixed: each outermost call is shown in one piece, but nothing waits "
         "for more than a second. time: as it happens. auto (default): thread on a terminal, else time",
         4},
	{"format", OPTION_FORMAT, "text|json|rbtrace", 0,
         "A tree for people, one JSON object a line, or the lines of the rbtrace gem", 4},
	{"count", OPTION_COUNT, "N", 0, "Stop after N calls and lines", 6},
	{0},
};

const struct argp options_shown = {.options = shown_list, .parser = parse_shown};

int options_check_shown(const struct options *options)
{
	if (!marks_wanted(&options->trace.marks, MARK_STATE) || options->format == &sink_json)
		return 0;
	message("--timeline is shown with --format json alone; `rbprobe record --timeline` keeps it for report and export");
	return STATUS_USAGE;
}
