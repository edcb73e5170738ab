#ifndef RBPROBE_OTLP_AS_H
#define RBPROBE_OTLP_AS_H

/* How OpenTelemetry's data is written, as flags: what --otlp-as says, before what the environment does. */

enum otlp_as {
	OTLP_AS_PROTOBUF = 1,
	OTLP_AS_JSON = 2,
	OTLP_AS_GZIP = 4,
	OTLP_AS_EXPONENTIAL = 8, /* histograms: base 2, not bounds that are sent with them */
};

#endif
