/* rbprobe replay: show what `rbprobe record` has kept, as `rbprobe trace` would have shown it. Reads a file only. */

#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/base/output_name.h"
#include "tracer/cli/subcommand.h"
#include "tracer/commands/replay_info.h"
#include "tracer/commands/replay_session.h"
#include "tracer/recording/recording_read.h"

#include <errno.h>

enum long_option { OPTION_INFO = 0x200, OPTION_FROM, OPTION_TO };

struct replay {
	struct invocation invocation;
	const char *path;
	bool info; /* what is in it, and no call */
	struct replay_when from, to;
	struct replay_sessions sessions;
};

static error_t parse_replay(int key, char *argument, struct argp_state *state)
{
	struct replay *replay = state->input;

	switch (key) {
	case OPTION_INFO:
		replay->info = true;
		return 0;
	case OPTION_FROM:
		return replay_when_parse("--from", argument, &replay->from);
	case OPTION_TO:
		return replay_when_parse("--to", argument, &replay->to);
	case ARGP_KEY_ARG:
		if (!replay->path) {
			replay->path = argument;
			return 0;
		}
		return options_selector(&replay->invocation.options, argument);
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option replay_list[] = {
	{"info", OPTION_INFO, NULL, 0, "Say what the recording has: processes, times, sizes; no call is shown", 4},
	{"from", OPTION_FROM, "TIME", 0,
         "Only calls that begin at this time or later: 14:05:30.5, with a date in front (2026-11-24 14:05), or +SEC after the "
         "recording began",
         10},
	{"to", OPTION_TO, "TIME", 0, "Only calls that begin before this time", 10},
	{0},
};

static const struct argp options_replay = {.options = replay_list, .parser = parse_replay};

static int replay_check(void *self)
{
	const struct replay *replay = self;
	const char *wrong = options_check_filter(&replay->invocation.options);
	const char *output = replay->invocation.options.output_path;

	if (wrong) {
		message("%s", wrong);
		return STATUS_USAGE;
	}
	if (replay_when_is_empty(&replay->from, "--to", &replay->to))
		return STATUS_USAGE;
	if (replay->info && output && output_name_has_pid(output)) {
		message("--info is about all processes of a recording: leave out the %%p of %s", output);
		return STATUS_USAGE;
	}
	if (replay->path)
		return 0;
	message("which recording? Give the file of `rbprobe record -o FILE`, or - for standard input");
	return STATUS_USAGE;
}

/* A file that was cut short is shown as far as it goes: that is what it is made for. */
static int status_of(const struct error *err)
{
	message("%s", err->text);
	return err->code == -ENODATA ? STATUS_DONE : STATUS_FAILED;
}

static int replay_calls(struct replay *replay, struct recording_reader *reader)
{
	struct output *output = &replay->invocation.output;
	struct error err;
	int status, closed;

	replay_open(&replay->sessions, replay->path, &replay->invocation.options, output);
	replay->sessions.from = replay->from;
	replay->sessions.to = replay->to;
	status = replay_all(&replay->sessions, reader, &err);
	closed = replay_close(&replay->sessions);
	output_flush(output);
	if (status < 0)
		return status_of(&err);
	return closed < 0 ? STATUS_FAILED : STATUS_DONE;
}

static int replay_run(void *self)
{
	struct replay *replay = self;
	struct options *options = &replay->invocation.options;
	int signals = invocation_signals(&replay->invocation), status;
	struct recording_reader *reader;
	struct error err;

	if (signals < 0)
		return STATUS_FAILED;
	if (replay_overwrites(&replay->invocation.output, replay->path))
		return STATUS_USAGE;
	if (recording_open(&reader, replay->path, signals, &err) < 0) {
		message("%s", err.text);
		return STATUS_FAILED;
	}
	options_settle(options, replay->invocation.output.fd);
	if (replay->info)
		status = replay_info(reader, &replay->invocation.output, options->format == &sink_json, &err) < 0
		                 ? status_of(&err)
		                 : STATUS_DONE;
	else
		status = replay_calls(replay, reader);
	recording_close(reader);
	return status;
}

const struct subcommand cmd_replay = {
	.name = "replay",
	.arguments = "FILE [SELECTOR...]",
	.summary = "show what was recorded",
	.usage = "FILE [SELECTOR...]",
	.description =
		"Show the method calls that `rbprobe record` has kept in a file, as `rbprobe trace` would have shown them. No "
		"process is involved. FILE may be - for standard input. With selectors, only calls of these methods are shown: "
		"classes and methods by the names that they are shown with.",
	.pids = PIDS_NONE,
	.options = (const struct argp *const[]){&options_replay, &options_file, &options_shown, &options_filter, &options_talk,
                                                &options_color, NULL},
	.positional = &options_replay,
	.words = WORDS_FILES,
	.needs = {[LIBRARY_ZSTD] = true},
	.file_each = true,
	.size = sizeof(struct replay),
	.check = replay_check,
	.run = replay_run,
};
