#ifndef RBPROBE_OTLP_RESOURCE_H
#define RBPROBE_OTLP_RESOURCE_H

#include "tracer/base/buffer.h"

#include "proto/slice.h"

#include <sys/types.h>

/* What OpenTelemetry calls the resource: which process it is that the data is of. */

struct otlp_process {
	pid_t pid;                 /* 0: several processes together */
	struct slice ruby_version; /* each: {"", 0}, not known */
	struct slice command;
	struct slice host;
	struct slice service;    /* what the process calls itself, or its user does */
	struct slice attributes; /* others, as OTEL_RESOURCE_ATTRIBUTES has them */
};

/* Packs it. */
void otlp_resource_pack(struct buffer *to, const struct otlp_process *process);

/* The same of a process that runs here; pid 0: of several. */
void otlp_resource_live(struct buffer *to, pid_t pid, struct slice ruby_version);

/* What a process that runs here says of its service: OTEL_SERVICE_NAME and the like, of our environment or of its own. */
void otlp_service_of(pid_t pid, struct buffer *service, struct buffer *attributes);

#endif
