/* The export to OpenTelemetry's protocol: spans, as tracer/otlp makes them. */

#include "tracer/export/export.h"
#include "tracer/otlp/sink_otlp.h"

const struct export_format export_otlp = {
	.name = "otlp", .calls = &sink_otlp, .binary = true, .needs = {[LIBRARY_PROTOBUF] = true}};
