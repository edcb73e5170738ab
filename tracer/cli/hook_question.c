/* Asking whether engine hook may be used. See hook_question.h. */

#include "tracer/cli/hook_question.h"

#include "tracer/base/message.h"
#include "tracer/base/poll_until.h"

#include <stdio.h>
#include <unistd.h>

bool hook_question_possible(const struct options *options)
{
	return options->pids.count == 1 && !options->children && isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

/* The first byte of a line; 0 where none comes. */
static char read_answer(int signals_descriptor)
{
	struct pollfd polled[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = signals_descriptor, .events = POLLIN}};
	char line[128];
	ssize_t size;

	/* A signal interrupts it, too; then its byte is in the pipe. */
	while (!poll_until(polled, 2, UINT64_MAX))
		;
	if (polled[1].revents)
		return 0;
	size = read(STDIN_FILENO, line, sizeof(line));
	return size > 0 ? line[0] : 0;
}

bool hook_question_ask(struct options *options, const char *text, int signals_descriptor)
{
	/* With --engine hook there is nothing else; --attributes asks for what would be skipped. */
	bool may_skip = options->trace.engine != ENGINE_HOOK && !(options->trace.flags & TRACE_ATTRIBUTES);
	char answer;

	message("%s", text);
	fputs(may_skip ? "Trace these too? [y]es / [s]kip them / [N]o, stop: " : "Trace these too? [y]es / [N]o, stop: ", stderr);
	answer = read_answer(signals_descriptor);
	if (!answer)
		fputc('\n', stderr);
	if (answer == 'y' || answer == 'Y')
		options->trace.flags |= TRACE_HOOK;
	else if (may_skip && (answer == 's' || answer == 'S'))
		options->trace.flags |= TRACE_WITHOUT_HOOK | TRACE_NO_HOOK;
	else
		return false;
	return true;
}

const char *hook_remedy(const struct options *options)
{
	if (options->trace.engine == ENGINE_HOOK)
		return "; --yes goes on all the same";
	return "; --yes goes on all the same, --no-hook leaves out such methods";
}
