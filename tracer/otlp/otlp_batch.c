/* Spans that become a request. See sink_otlp_parts.h. */

#ifdef HAVE_LIBPROTOBUF_C

#include "proto/names.h"
#include "tracer/otlp/sink_otlp_parts.h"

#include <stdlib.h>

void span_batch_add(struct span_batch *batch, const ProtobufCMessage *span)
{
	otlp_pack(&batch->bytes, span);
	if (batch->count == batch->room) {
		batch->room = batch->room ? 2 * batch->room : 64;
		batch->ends = memory_resize(batch->ends, batch->room * sizeof(*batch->ends));
	}
	batch->ends[batch->count++] = batch->bytes.size;
}

void span_batch_request(struct span_batch *batch, struct buffer *request)
{
	Otlp__TracesData data = OTLP__TRACES_DATA__INIT;
	Otlp__ResourceSpans of_resource = OTLP__RESOURCE_SPANS__INIT;
	Otlp__ScopeSpans of_scope = OTLP__SCOPE_SPANS__INIT;
	Otlp__Scope scope = OTLP__SCOPE__INIT;
	ProtobufCBinaryData *spans = memory_zeroed((batch->count + 1) * sizeof(*spans));
	size_t from = 0;

	for (size_t i = 0; i < batch->count; i++) {
		spans[i] = otlp_bytes(batch->bytes.bytes + from, batch->ends[i] - from);
		from = batch->ends[i];
	}
	scope.name = otlp_string("rbprobe");
	scope.version = otlp_string(RBPROBE_VERSION);
	of_scope.scope = &scope;
	of_scope.n_spans = batch->count;
	of_scope.spans = spans;
	of_resource.resource = otlp_bytes(batch->resource.bytes, batch->resource.size);
	of_resource.scope_spans = &of_scope;
	data.resource_spans = &of_resource;
	otlp_pack(request, &data.base);
	free(spans);
	batch->count = batch->bytes.size = 0;
}

void span_batch_free(struct span_batch *batch)
{
	buffer_free(&batch->resource);
	buffer_free(&batch->bytes);
	free(batch->ends);
}

#endif
