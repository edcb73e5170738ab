/*
 * rbprobe selftest: whether what rbprobe takes for true of Ruby's VM is true in a process, or in a Ruby that is started
 * for it.
 */

#include "tracer/attach/idle_ruby.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/cli/subcommand.h"
#include "tracer/commands/selftest_report.h"

struct selftest {
	struct invocation invocation;
	bool failed; /* a fact is not true, in any process */
};

static int selftest_check(void *self)
{
	const struct invocation *invocation = self;

	if ((invocation->options.pids.count > 0) != (invocation->words != NULL))
		return 0;
	message("selftest needs either -p PID or a Ruby to start, as in: rbprobe selftest -- ruby");
	return STATUS_USAGE;
}

static int on_data(struct request *request, const msgpack_object *object, struct error *err)
{
	struct selftest *selftest = request->owner;
	struct output *output = &selftest->invocation.output;
	int pid = (int)request->attachment.target.pid;

	(void)err;
	if (selftest->invocation.json)
		selftest_report_json(&output->buffer, pid, object);
	else
		selftest_report_text(&output->buffer, pid, object, selftest->invocation.options.verbose);
	output_flush(output);
	selftest->failed = selftest->failed || selftest_count(object).failed > 0;
	return 0;
}

static int test_all(struct selftest *selftest, const pid_t *pids, size_t count)
{
	int status = invocation_request(&selftest->invocation, pids, count);

	return status == STATUS_DONE && selftest->failed ? STATUS_FAILED : status;
}

static int test_own(struct selftest *selftest)
{
	struct error err;
	pid_t pid = idle_ruby_start(selftest->invocation.words, selftest->invocation.options.timeout_ns, &err);
	int status;

	if (pid < 0) {
		message("%s", err.text);
		return STATUS_NOT_ATTACHED;
	}
	status = test_all(selftest, &pid, 1);
	idle_ruby_end(pid);
	return status;
}

static int selftest_run(void *self)
{
	struct selftest *selftest = self;
	const struct pid_list *pids = &selftest->invocation.options.pids;

	return selftest->invocation.words ? test_own(selftest) : test_all(selftest, pids->items, pids->count);
}

const struct subcommand cmd_selftest = {
	.name = "selftest",
	.arguments = "-p PID[,PID...] | -- RUBY",
	.summary = "check what rbprobe relies on",
	.usage = "-p PID\n-- RUBY [OPTION...]",
	.description = "Check in running Ruby processes, or in a Ruby that is started for it, what rbprobe takes for true of "
		       "Ruby's VM, and say what is refused where it is not.\v"
		       "Exit status: 0 nothing failed; 1 something did, or the check was impossible; 2 wrong usage; 3 could not "
		       "attach; 4 the process went away.",
	.report = true,
	.pids = PIDS_ANY,
	.timeout = "How long attaching, and starting RUBY, may each take (default 5)",
	.format = "A line for each fact, or one JSON object for each process",
	.takes_words = true,
	.size = sizeof(struct selftest),
	.check = selftest_check,
	.kind = COMMAND_SELFTEST,
	.handler = {.data = on_data},
	.run = selftest_run,
};
