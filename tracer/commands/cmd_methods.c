/* rbprobe methods: what selectors would match in a process, without tracing anything. */

#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/cli/subcommand.h"
#include "tracer/commands/trace_help.h"

#include <stdlib.h>
#include <string.h>

struct methods {
	struct invocation invocation;
	bool *matched; /* by selector: in the process under way */
};

static int methods_check(void *self)
{
	struct methods *methods = self;

	if (methods->invocation.options.selectors.count == 0) {
		message("which methods? Give selectors such as String#gsub");
		return STATUS_USAGE;
	}
	methods->matched = memory_zeroed(methods->invocation.options.selectors.count * sizeof(bool));
	return 0;
}

static int on_match(struct request *request, const struct record_match *match, struct error *err)
{
	struct methods *methods = request->owner;
	struct buffer *to = &methods->invocation.output.buffer;

	(void)err;
	if (match->selector < request->options->selectors.count)
		methods->matched[match->selector] = true;
	if (request->options->pids.count > 1)
		buffer_add_format(to, "%d: ", (int)request->attachment.target.pid);
	buffer_add_printable(to, match->class_name.bytes, match->class_name.size);
	if (match->class_name.size)
		buffer_add_char(to, match->separator == '.' ? '.' : '#');
	buffer_add_printable(to, match->method_name.bytes, match->method_name.size);
	buffer_add_text(to, "  ");
	if (match->file.bytes) {
		buffer_add_printable(to, match->file.bytes, match->file.size);
		buffer_add_char(to, ':');
		buffer_add_uint(to, match->line);
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
	output_commit(&methods->invocation.output);
	return 0;
}

static void on_done(struct request *request, uint32_t code, struct slice text)
{
	struct methods *methods = request->owner;
	const struct selector_list *selectors = &request->options->selectors;

	(void)code;
	(void)text;
	output_flush(&methods->invocation.output);
	for (uint32_t i = 0; i < selectors->count && !request->options->quiet; i++)
		if (!methods->matched[i] && !selector_line(&selectors->items[i]))
			message("process %d: nothing matches %s so far%s", (int)request->attachment.target.pid,
			        selectors->texts[i], selector_may_be_class(&selectors->items[i]) ? SELECTOR_CLASS_HINT : "");
}

/* One process after the other, so that their methods are not mixed. */
static int methods_run(void *self)
{
	struct methods *methods = self;
	const struct options *options = &methods->invocation.options;
	int status = STATUS_DONE;

	for (size_t i = 0; i < options->pids.count && !methods->invocation.interrupted; i++) {
		int one;

		memset(methods->matched, 0, options->selectors.count * sizeof(bool));
		one = invocation_request(&methods->invocation, &options->pids.items[i], 1);
		status = status ? status : one;
	}
	if (!methods->invocation.interrupted)
		return status;
	message("interrupted");
	return STATUS_NOT_ATTACHED;
}

static void methods_free(void *self)
{
	free(((struct methods *)self)->matched);
}

const struct subcommand cmd_methods = {
	.name = "methods",
	.arguments = "-p PID SELECTOR...",
	.summary = "list what selectors match",
	.usage = "-p PID SELECTOR...",
	.description = "List the methods that selectors match in a process: name, where it is defined (- : not in Ruby), and the "
		       "engine that would observe it, with the reason where it is not the usual one. Nothing is "
		       "traced.\v" TRACE_HELP_SELECTORS TRACE_HELP_STATUS,
	.pids = PIDS_SOME,
	.options = (const struct argp *const[]){&options_selectors, &options_engine, NULL},
	.size = sizeof(struct methods),
	.check = methods_check,
	.kind = COMMAND_METHODS,
	.handler = {.reply_ends = true, .match = on_match, .done = on_done},
	.run = methods_run,
	.free = methods_free,
};
