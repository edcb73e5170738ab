/* rbprobe methods: what selectors would match in a process, without tracing anything. */

#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/cli/subcommand.h"
#include "tracer/commands/trace_help.h"

static int methods_check(void *self)
{
	if (((struct invocation *)self)->options.selectors.count > 0)
		return 0;
	message("which methods? Give selectors such as String#gsub, or -c and a tracer that has some");
	return STATUS_USAGE;
}

static int on_match(struct request *request, const struct record_match *match, struct error *err)
{
	struct invocation *invocation = request->owner;
	struct buffer *to = &invocation->output.buffer;

	(void)err;
	if (request->options->pids.count > 1)
		buffer_add_format(to, "%d: ", (int)request->attachment.target.pid);
	if (match->class_name.size)
		selector_add_name(to, match->class_name, match->separator == '.' ? '.' : '#', match->method_name);
	else /* code at a line, "block in <main>": no selector */
		buffer_add_printable(to, match->method_name.bytes, match->method_name.size);
	buffer_add_text(to, "  ");
	if (match->file.bytes) {
		buffer_add_printable(to, match->file.bytes, match->file.size);
		buffer_add_format(to, ":%d", match->line);
	} else {
		buffer_add_char(to, '-');
	}
	buffer_add_text(to, "  ");
	buffer_add_text(to, engine_name(match->engine));
	if (match->reason.size) {
		buffer_add_text(to, " (");
		buffer_add_printable(to, match->reason.bytes, match->reason.size);
		buffer_add_char(to, ')');
	}
	buffer_add_char(to, '\n');
	output_commit(&invocation->output);
	return 0;
}

/* One process after the other, so that their methods are not mixed. */
static int methods_run(void *self)
{
	struct invocation *invocation = self;
	const struct options *options = &invocation->options;
	int status = STATUS_DONE;

	for (size_t i = 0; i < options->pids.count && !invocation->interrupted; i++) {
		int one = invocation_request(invocation, &options->pids.items[i], 1);

		status = status ? status : one;
	}
	if (!invocation->interrupted)
		return status;
	message("interrupted");
	return STATUS_NOT_ATTACHED;
}

const struct subcommand cmd_methods = {
	.name = "methods",
	.arguments = "-p PID SELECTOR...",
	.summary = "list what selectors match",
	.usage = "-p PID SELECTOR...",
	.description = "List the methods that selectors match in a process: name, where it is defined (- : not in Ruby), and the "
		       "engine that would observe it, with the reason where it is not the usual one. Nothing is "
		       "traced.\v" TRACE_HELP_SELECTORS TRACE_HELP_STATUS,
	.report = true,
	.pids = PIDS_SOME,
	.timeout = "How long attaching may take, and looking for methods (default 5)",
	.options = (const struct argp *const[]){&options_selectors, &options_tracers, &options_engine, NULL},
	.check = methods_check,
	.kind = COMMAND_METHODS,
	.handler = {.reply_ends = true, .match = on_match},
	.run = methods_run,
};
