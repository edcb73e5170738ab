/* rbprobe selftest: whether what rbprobe takes for true of Ruby's VM is true in a process, or in a Ruby that is started for it. */

#define _GNU_SOURCE
#include "ask.h"
#include "exit_status.h"
#include "idle_ruby.h"
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
	.args_doc = "-p PID\n-- RUBY [OPTION...]",
	.doc = "Check in running Ruby processes, or in a Ruby that is started for it, what rbprobe takes for true of Ruby's VM, "
	       "and say what is refused where it is not.\v"
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

static int test_all(struct selftest *selftest, const pid_t *pids, size_t count)
{
	struct command request = {.kind = COMMAND_SELFTEST, .request = {.name = {"", 0}, .text = {"", 0}}};
	struct ask *asks = memory_zeroed(count * sizeof(*asks));
	struct one *ones = memory_zeroed(count * sizeof(*ones));
	int signals_descriptor = signals_install();
	int status;

	for (size_t i = 0; i < count; i++) {
		ones[i] = (struct one){.selftest = selftest, .ask = &asks[i]};
		ask_open(&asks[i], pids[i], &request, &selftest->options, &handler, &ones[i]);
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

static int test_own(struct selftest *selftest, char **command)
{
	struct error err;
	pid_t pid = idle_ruby_start(command, selftest->options.timeout_ns, &err);
	int status;

	if (pid < 0) {
		message("%s", err.text);
		return STATUS_NOT_ATTACHED;
	}
	status = test_all(selftest, &pid, 1);
	idle_ruby_end(pid);
	return status;
}

static int selftest_run(int argc, char **argv)
{
	struct selftest selftest = {.json = false};
	int own = 1, status;
	char **command;

	while (own < argc && strcmp(argv[own], "--") != 0)
		own++;
	command = own + 1 < argc ? argv + own + 1 : NULL;
	options_init(&selftest.options);
	status = options_parse(&argp, own, argv, &selftest.options);
	if (status == 0 && (selftest.options.pids.count > 0) == (command != NULL)) {
		message("selftest needs either -p PID or a Ruby to start, as in: rbprobe selftest -- ruby");
		status = STATUS_USAGE;
	}
	if (status == 0) {
		output_open(&selftest.output, NULL, false, NULL);
		status = command ? test_own(&selftest, command)
		                 : test_all(&selftest, selftest.options.pids.items, selftest.options.pids.count);
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
	.arguments = "-p PID[,PID...] | -- RUBY",
	.summary = "check what rbprobe relies on",
	.run = selftest_run,
};
