/* Calls of a live trace as spans. See trace_spans.h. */

#include "tracer/commands/trace_spans.h"

#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"

int trace_spans_check(const struct options *options)
{
	int status = otlp_run_check(options);

	if (!status)
		status = otlp_run_check_spans(options);
	if (status || !options->otlp || options->format == &sink_text)
		return status;
	message("--otlp sends calls in the format of OpenTelemetry: leave out --format");
	return STATUS_USAGE;
}

static struct sink *make_sink(void *owner, struct output *output)
{
	struct trace_spans *spans = owner;

	return sink_otlp_new(output, &spans->options->style, &spans->run.manner);
}

int trace_spans_open(struct trace_spans *spans, struct options *options)
{
	*spans = (struct trace_spans){.options = options, .maker = {make_sink, NULL, spans, NULL}};
	if (!options->otlp)
		return 0;
	/* For the links of the spans. */
	options->trace.flags |= TRACE_SPAN;
	return otlp_run_open(&spans->run, options, OTLP_TRACES);
}

const struct sink_maker *trace_spans_maker(const struct trace_spans *spans)
{
	return spans->options->otlp ? &spans->maker : NULL;
}

int trace_spans_close(struct trace_spans *spans, int signals, int status)
{
	return otlp_run_close(&spans->run, signals, status);
}
