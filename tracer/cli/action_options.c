/* The options that say what else is shown of each call. See options.h. */

#include "tracer/cli/options.h"

#include "tracer/base/message.h"

#include <errno.h>
#include <string.h>

enum long_option {
	OPTION_MEASURE = 0x400,
	OPTION_STACK,
};

static int measures(const char *text, uint32_t *flags)
{
	static const struct {
		const char *word;
		uint32_t flag;
	} kinds[] = {{"cpu", TRACE_CPU}, {"alloc", TRACE_OBJECTS}, {"gc", TRACE_GC}, {"span", TRACE_SPAN}};
	const char *at = text;

	for (;;) {
		size_t size = strcspn(at, ",");
		uint32_t flag = 0;

		for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
			if (strlen(kinds[i].word) == size && memcmp(kinds[i].word, at, size) == 0)
				flag = kinds[i].flag;
		if (!flag) {
			message("--measure takes cpu, alloc, gc and span, or several as in cpu,gc, not \"%s\"", text);
			return EINVAL;
		}
		*flags |= flag;
		if (!at[size])
			return 0;
		at += size + 1;
	}
}

static error_t parse_measure(int key, char *argument, struct argp_state *state)
{
	struct options *options = state->input;

	return key == OPTION_MEASURE ? measures(argument, &options->trace.flags) : ARGP_ERR_UNKNOWN;
}

static error_t parse_stack(int key, char *argument, struct argp_state *state)
{
	struct options *options = state->input;
	uint64_t frames = STACK_FRAMES_DEFAULT;

	if (key != OPTION_STACK)
		return ARGP_ERR_UNKNOWN;
	options->trace.flags |= TRACE_STACK;
	if (argument && options_whole_number("--stack", argument, 1, STACK_FRAMES_MAX, &frames))
		return EINVAL;
	options->trace.stack_frames = (uint32_t)frames;
	return 0;
}

static const struct argp_option measure_list[] = {
	{"measure", OPTION_MEASURE, "cpu,alloc,gc,span", 0,
         "Show also the CPU time of the call's thread, the objects that the process allocated meanwhile (all threads), and the "
         "time that the thread spent in the garbage collector; or the ids of the application's own span (OpenTelemetry, Datadog)",
         3},
	{0},
};

static const struct argp_option stack_list[] = {
	{"stack", OPTION_STACK, "N", OPTION_ARG_OPTIONAL, "Show who called: at most N frames of Ruby code (default 20)", 3},
	{0},
};

const struct argp options_measure = {.options = measure_list, .parser = parse_measure};
const struct argp options_stack = {.options = stack_list, .parser = parse_stack};
