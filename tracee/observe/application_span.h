#ifndef RBPROBE_APPLICATION_SPAN_H
#define RBPROBE_APPLICATION_SPAN_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The span of the application's own in which something happens: what the opentelemetry gem or Datadog's has for the fiber that
 * runs. It is read from where these gems keep it, and none of their code runs.
 */

struct application_span {
	uint64_t trace[2]; /* most significant first */
	uint64_t id;
};

/* To be called once before application_span_read(). Job; may raise. */
void application_span_init(void);

/* False: there is none, or it is kept in no way that is known. Event context, GVL held. Allocates nothing and calls no method. */
bool application_span_read(struct application_span *span);

#endif
