/* Where a run's results go: all of its sinks and outputs. See trace_loop_parts.h. */

#include "tracer/commands/trace_loop_parts.h"

/* The sinks there are, one after the other: the common one, or those of the processes. NULL: no more. */
static struct sink *sink_at(const struct trace_loop *loop, size_t i)
{
	if (loop->run.sink)
		return i == 0 ? loop->run.sink : NULL;
	return i < loop->count ? loop->targets[i]->sink : NULL;
}

bool loop_sinks_hold(const struct trace_loop *loop)
{
	struct sink *sink;

	for (size_t i = 0; (sink = sink_at(loop, i)); i++)
		if (sink->ops->holds && sink->ops->holds(sink))
			return true;
	return false;
}

void loop_sinks_quiet(const struct trace_loop *loop)
{
	struct sink *sink;

	for (size_t i = 0; (sink = sink_at(loop, i)); i++)
		if (sink->ops->quiet)
			sink->ops->quiet(sink);
}

void loop_sinks_round(const struct trace_loop *loop)
{
	struct sink *sink;

	for (size_t i = 0; (sink = sink_at(loop, i)); i++)
		sink->ops->round(sink);
}

uint64_t loop_sinks_wake_ns(const struct trace_loop *loop)
{
	uint64_t wake_ns = UINT64_MAX;
	struct sink *sink;

	for (size_t i = 0; (sink = sink_at(loop, i)); i++)
		if (sink->ops->wake_ns && sink->ops->wake_ns(sink) < wake_ns)
			wake_ns = sink->ops->wake_ns(sink);
	return wake_ns;
}

void loop_sinks_wake(const struct trace_loop *loop, uint64_t now_ns)
{
	struct sink *sink;

	for (size_t i = 0; (sink = sink_at(loop, i)); i++)
		if (sink->ops->wake)
			sink->ops->wake(sink, now_ns);
}

void loop_sinks_asked(const struct trace_loop *loop)
{
	struct sink *sink;

	for (size_t i = 0; (sink = sink_at(loop, i)); i++)
		if (sink->ops->asked)
			sink->ops->asked(sink);
}

bool loop_sinks_have_enough(const struct trace_loop *loop)
{
	struct sink *sink;

	for (size_t i = 0; (sink = sink_at(loop, i)); i++)
		if (sink->ops->enough && sink->ops->enough(sink))
			return true;
	return false;
}

bool loop_outputs_flush(const struct trace_loop *loop)
{
	output_flush(loop->run.output);
	for (size_t i = 0; i < loop->count; i++) {
		output_flush(loop->targets[i]->output);
		if (loop->targets[i]->output->status)
			return false;
	}
	return !loop->run.output->status;
}

uint64_t loop_outputs_written_ns(const struct trace_loop *loop)
{
	uint64_t sum_ns = loop->run.output->written_ns + loop->past_ns;

	for (size_t i = 0; i < loop->count; i++)
		sum_ns += loop->targets[i]->file.output.written_ns;
	return sum_ns;
}

uint64_t loop_outputs_size(const struct trace_loop *loop)
{
	uint64_t size = output_size(loop->run.output) + loop->past_size;

	for (size_t i = 0; i < loop->count; i++)
		size += output_size(&loop->targets[i]->file.output);
	return size;
}
