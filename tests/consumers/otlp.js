// Prints a request of OTLP, as OpenTelemetry's own JavaScript reads it: otlp.js traces|metrics FILE.
const { collector } = require("@opentelemetry/otlp-proto-exporter-base/build/src/generated/root").opentelemetry.proto;

const [, , kind, file] = process.argv;
const type = kind === "metrics" ? collector.metrics.v1.ExportMetricsServiceRequest : collector.trace.v1.ExportTraceServiceRequest;
console.log(JSON.stringify(type.toObject(type.decode(require("fs").readFileSync(file)), { longs: String, bytes: String })));
