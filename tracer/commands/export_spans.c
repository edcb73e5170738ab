/* The spans of a recording. See export_spans.h. */

#include "tracer/commands/export_spans.h"

#include "tracer/base/otlp_as.h"
#include "tracer/otlp/otlp_json.h"
#include "tracer/otlp/otlp_resource.h"

#include <string.h>

/* In a file, one request after the other is one message as well; in JSON each is a line. */
static void give(void *owner, struct buffer *request, uint64_t count)
{
	struct export_spans *spans = owner;

	if (spans->run.sender) {
		otlp_run_give(&spans->run, request, count);
		otlp_run_look(&spans->run, spans->output);
		return;
	}
	if (spans->json) {
		otlp_json_add(&spans->output->buffer, OTLP_TRACES, request);
		buffer_add_char(&spans->output->buffer, '\n');
	} else {
		buffer_add(&spans->output->buffer, request->bytes, request->size);
	}
	output_commit(spans->output);
	buffer_free(request);
}

static void look(void *owner, struct output *output)
{
	(void)owner;
	(void)output;
}

int export_spans_open(struct export_spans *spans, const struct options *options, struct output *output, int signals)
{
	int status = options->otlp ? otlp_run_open(&spans->run, options, OTLP_TRACES) : 0;

	/* A file waits for whoever takes it. */
	spans->run.wait = true;
	spans->run.stop = signals;
	spans->manner = (struct otlp_manner){give, look, spans};
	spans->output = output;
	spans->json = options->otlp_as & OTLP_AS_JSON;
	return status;
}

struct sink *export_spans_sink(struct export_spans *spans, struct output *output, const struct sink_style *style)
{
	return sink_otlp_new(output, style, &spans->manner);
}

void export_spans_begin(const struct replay_sessions *sessions, struct sink *sink, const struct stream *stream,
                        const struct recording_session *session)
{
	struct buffer resource = {0};

	otlp_resource_pack(&resource, &(struct otlp_process){.pid = (pid_t)session->pid,
	                                                     .ruby_version = session->ruby_version,
	                                                     .command = session->command,
	                                                     .host = {sessions->host, strlen(sessions->host)}});
	sink_otlp_process(sink, stream, &resource);
}

int export_spans_close(struct export_spans *spans, int signals, int status)
{
	return spans->run.sender ? otlp_run_close(&spans->run, signals, status) : status;
}
