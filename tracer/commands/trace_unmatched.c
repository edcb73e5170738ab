/* Selectors and tracers that match nothing in a process. See trace_unmatched.h. */

#include "tracer/commands/trace_unmatched.h"

#include "tracer/base/message.h"
#include "tracer/cli/tracer_set.h"
#include "tracer/commands/trace_target.h"

#include <stdio.h>

static void say_unfit(const struct trace_target *traced, uint32_t number, const char *when)
{
	const struct options *options = traced->run->options;
	struct buffer why = {0};

	tracer_describe_unfit(options, number, &why);
	message_often("tracer %s fits nothing in process %d%s: %.*s", options->tracers[number - 1].name, (int)traced->pid, when,
	              (int)why.size, why.bytes);
	buffer_free(&why);
}

void trace_unmatched_at_start(const struct trace_target *traced)
{
	const struct run *run = traced->run;

	/* Of a program that begins nothing is loaded yet. */
	if (run->options->quiet || run->launched)
		return;
	for (uint32_t number = 1; number <= run->options->tracer_count; number++)
		if (tracer_is_unfit(run->options, traced->found, number))
			say_unfit(traced, number, " yet (waiting for it)");
}

static void name_tracers(const struct trace_target *traced)
{
	const struct run *run = traced->run;
	char name[256];

	for (uint32_t number = 1; number <= run->options->tracer_count; number++) {
		if (!tracer_is_unfit(run->options, traced->found, number))
			continue;
		snprintf(name, sizeof(name), "-c %s", run->options->tracers[number - 1].name);
		if (traced->sink->ops->unmatched)
			traced->sink->ops->unmatched(traced->sink, traced->pid, name);
		if (run->options->quiet)
			continue;
		output_flush(traced->output);
		say_unfit(traced, number, "");
	}
}

/* Selectors that waited in vain are most often misspelt. Those of tracers may. */
void trace_unmatched_at_end(const struct trace_target *traced)
{
	const struct run *run = traced->run;
	const struct selector_list *selectors = &run->options->selectors;
	uint32_t named = 0;

	for (uint32_t i = 0; i < selectors->count; i++) {
		if (selectors->items[i].tracer || (traced->found && traced->found[i]))
			continue;
		if (traced->sink->ops->unmatched)
			traced->sink->ops->unmatched(traced->sink, traced->pid, selectors->texts[i]);
		if (run->options->quiet || (++named > UNMATCHED_NAMED_MAX && !run->options->verbose))
			continue;
		output_flush(traced->output);
		message_often("process %d: %s never matched %s", (int)traced->pid, selectors->texts[i],
		              selector_line(&selectors->items[i]) ? "code" : "a method");
	}
	if (named > UNMATCHED_NAMED_MAX && !run->options->verbose)
		message_often("process %d: %u more selectors never matched anything: -v names them", (int)traced->pid,
		              named - UNMATCHED_NAMED_MAX);
	name_tracers(traced);
}
