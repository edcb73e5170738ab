/* Without protobuf-c there are no messages of OTLP: --otlp and export --to otlp are refused before there are any. */

#ifndef HAVE_LIBPROTOBUF_C

#include "tracer/otlp/otlp_metrics.h"
#include "tracer/otlp/otlp_resource.h"
#include "tracer/otlp/sink_otlp.h"

const struct sink_ops sink_otlp = {.name = "otlp"};

struct sink *sink_otlp_new(struct output *output, const struct sink_style *style, const struct otlp_manner *manner)
{
	(void)output;
	(void)style;
	(void)manner;
	return NULL;
}

void sink_otlp_process(struct sink *sink, const struct stream *stream, struct buffer *resource)
{
	(void)sink;
	(void)stream;
	(void)resource;
}

void otlp_resource_pack(struct buffer *to, const struct otlp_process *process)
{
	(void)to;
	(void)process;
}

void otlp_resource_live(struct buffer *to, pid_t pid, struct slice ruby_version)
{
	(void)to;
	(void)pid;
	(void)ruby_version;
}

uint64_t otlp_metrics_pack(struct buffer *to, const struct otlp_figures *figures, size_t count, const struct otlp_metrics *wanted)
{
	(void)to;
	(void)figures;
	(void)count;
	(void)wanted;
	return 0;
}

#endif
