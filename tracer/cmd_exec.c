/* rbprobe exec: start a Ruby process and trace it from its first line. */

#define _GNU_SOURCE
#include "exit_status.h"
#include "extension.h"
#include "follow.h"
#include "hook_question.h"
#include "launch.h"
#include "message.h"
#include "options.h"
#include "output.h"
#include "proto/clock.h"
#include "signals.h"
#include "subcommand.h"
#include "trace_help.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static const struct argp_child children[] = {
	{&options_selectors, 0, NULL, 0}, {&options_trace, 0, NULL, 0},   {&options_color, 0, NULL, 0},
	{&options_engine, 0, NULL, 0},    {&options_session, 0, NULL, 0}, {0},
};

static const struct argp argp = {
	.args_doc = "SELECTOR... -- COMMAND [ARGUMENT...]",
	.doc = "Start a command and follow the method calls of its Ruby from the first line of its program on, also when it "
	       "replaces itself by "
	       "another program (exec). Its input and output stay its own; the trace goes to standard output or, with -o, to a "
	       "file.\v" TRACE_HELP_SELECTORS TRACE_HELP_OUTPUT "When the trace ended well, the exit status is the command's own "
	       "(128 + N where signal N killed it), else that of `rbprobe "
	       "trace`; 127 where the command cannot be run. When --duration or --count ends the trace, the command goes on, and "
	       "rbprobe "
	       "waits for it. INT, TERM and HUP that are sent to rbprobe are passed on; a second one ends rbprobe alone.",
	.children = children,
};

/* The command may outlive its trace. */
static int command_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		bool sent_by_process;
		int number;

		if (errno != EINTR)
			return STATUS_FAILED;
		number = signals_take(&sent_by_process);
		if (number && sent_by_process)
			kill(pid, number);
	}
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int run_traced(struct options *options, char **command)
{
	struct output output;
	struct sink *sink;
	struct error err;
	char extensions[PATH_MAX];
	int signals_descriptor, status, command_status;
	pid_t pid;

	if (extension_directory(extensions, sizeof(extensions), &err) < 0) {
		message("%s", err.text);
		return STATUS_NOT_ATTACHED;
	}
	if (output_open(&output, options->output_path, options->append, &err) < 0) {
		message("%s", err.text);
		return STATUS_FAILED;
	}
	signals_descriptor = signals_install();
	if (signals_descriptor < 0) {
		message("cannot make a pipe: %s", strerror(-signals_descriptor));
		return STATUS_FAILED;
	}
	pid = launch(command, extensions, options->timeout_ns / NS_PER_MS, &err);
	if (pid < 0) {
		message("%s", err.text);
		output_close(&output);
		return 127;
	}
	options_settle(options, output.fd);
	sink = sink_new(options->format, &output, &options->style);
	status = follow(options, &output, sink, signals_descriptor, pid, NULL);
	sink_free(sink);
	if (output_close(&output) < 0) {
		message("%s", output.error.text);
		status = STATUS_FAILED;
	}
	command_status = command_wait(pid);
	return status ? status : command_status;
}

/* What leaves any process slower is refused before there is one. */
static int check_hook(const struct options *options)
{
	if (!(options->trace.flags & TRACE_FIREHOSE) || options->trace.flags & TRACE_HOOK)
		return 0;
	message("--firehose --engine hook makes the whole process 3 to 7 times slower while it is traced, and leaves it up to 3 "
	        "times slower "
	        "(15 under "
	        "YJIT) for as long as it runs%s",
	        hook_remedy(options));
	return STATUS_USAGE;
}

static int exec_run(int argc, char **argv)
{
	struct options options;
	int own = 1, status;

	while (own < argc && strcmp(argv[own], "--") != 0)
		own++;
	options_init(&options);
	status = options_parse(&argp, own, argv, &options);
	if (status == 0 && own + 1 >= argc) {
		message("which command? Write it behind --, as in: rbprobe exec String#gsub -- ruby app.rb");
		status = STATUS_USAGE;
	}
	if (status == 0)
		status = options_check_trace(&options);
	if (status == 0)
		status = check_hook(&options);
	if (status == 0)
		status = run_traced(&options, argv + own + 1);
	options_free(&options);
	return status;
}

const struct subcommand cmd_exec = {
	.name = "exec",
	.arguments = "SELECTOR... -- COMMAND...",
	.summary = "start a process and trace it from its first line",
	.run = exec_run,
};
