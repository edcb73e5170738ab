/* rbprobe selftest: whether what rbprobe takes for true of Ruby's VM is true in a process. */

#define _GNU_SOURCE
#include "ask.h"
#include "exit_status.h"
#include "message.h"
#include "options.h"
#include "output.h"
#include "selftest_report.h"
#include "signals.h"
#include "subcommand.h"

#include <errno.h>
#include <string.h>

struct selftest {
	struct options options;
	struct output output;
	bool json;
};

/* One process's. */
struct one {
	struct selftest *selftest;
	struct ask *ask;
	bool failed;
};

enum long_option {
	OPTION_FORMAT = 0x200,
};

static error_t parse_selftest(int key, char *argument, struct argp_state *state)
{
	struct selftest *selftest = (struct selftest *)state->input;

	if (key != OPTION_FORMAT)
		return ARGP_ERR_UNKNOWN;
	selftest->json = strcmp(argument, "json") == 0;
	if (selftest->json || strcmp(argument, "text") == 0)
		return 0;
	message("--format takes text or json, not \"%s\"", argument);
	return EINVAL;
}

static const struct argp_option selftest_list[] = {
	{"format", OPTION_FORMAT, "text|json", 0, "A line for each fact, or one JSON object for each process", 2},
	{0},
};

static const struct argp options_selftest = {.options = selftest_list, .parser = parse_selftest};

static const struct argp_child children[] = {
	{&options_target, 0, NULL, 0},
	{&options_selftest, 0, NULL, 0},
	{&options_session, 0, NULL, 0},
	{0},
};

static const struct argp argp = {
	.args_doc = "-p PID",
	.doc = "Check in running Ruby processes what rbprobe takes for true of Ruby's VM, and say what is refused where it is "
	       "not.\v"
	       "Exit status: 0 nothing failed; 1 something did, or the check was impossible; 2 wrong usage; 3 could not attach; "
	       "4 the process went away.",
	.children = children,
};

static int on_data(void *owner, const msgpack_object *object, struct error *err)
{
	struct one *one = owner;
	struct selftest *selftest = one->selftest;
	int pid = (int)one->ask->session.target.pid;

	(void)err;
	if (selftest->json)
		selftest_report_json(&selftest->output.buffer, pid, object);
	else
		selftest_report_text(&selftest->output.buffer, pid, object, selftest->options.verbose);
	output_flush(&selftest->output);
	one->failed = selftest_count(object).failed > 0;
	return 0;
}

static void on_done(void *owner, uint32_t code, struct slice text)
{
	const struct one *one = owner;

	if (code)
		message("process %d: %.*s", (int)one->ask->session.target.pid, (int)text.size, text.bytes);
}

static const struct ask_handler handler = {.data = on_data, .done = on_done};

static int test_all(struct selftest *selftest)
{
	struct command request = {.kind = COMMAND_SELFTEST, .request = {.name = {"", 0}, .text = {"", 0}}};
	size_t count = selftest->options.pids.count;
	struct ask *asks = memory_zeroed(count * sizeof(*asks));
	struct one *ones = memory_zeroed(count * sizeof(*ones));
	int signals_descriptor = signals_install();
	int status;

	for (size_t i = 0; i < count; i++) {
		ones[i] = (struct one){.selftest = selftest, .ask = &asks[i]};
		ask_open(&asks[i], selftest->options.pids.items[i], &request, &selftest->options, &handler, &ones[i]);
	}
	status = ask_run(asks, count, signals_descriptor);
	for (size_t i = 0; i < count; i++) {
		if (status == STATUS_DONE && ones[i].failed)
			status = STATUS_FAILED;
		ask_close(&asks[i]);
	}
	free(ones);
	free(asks);
	return status;
}

static int selftest_run(int argc, char **argv)
{
	struct selftest selftest = {.json = false};
	int status;

	options_init(&selftest.options);
	status = options_parse(&argp, argc, argv, &selftest.options);
	if (status == 0 && selftest.options.pids.count == 0) {
		message("selftest needs -p PID; `rbprobe ps` lists the Ruby processes");
		status = STATUS_USAGE;
	}
	if (status == 0) {
		output_open(&selftest.output, NULL, false, NULL);
		status = test_all(&selftest);
		if (output_close(&selftest.output) < 0) {
			message("%s", selftest.output.error.text);
			status = STATUS_FAILED;
		}
	}
	options_free(&selftest.options);
	return status;
}

const struct subcommand cmd_selftest = {
	.name = "selftest",
	.arguments = "-p PID[,PID...]",
	.summary = "check what rbprobe relies on",
	.run = selftest_run,
};
