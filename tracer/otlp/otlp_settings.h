#ifndef RBPROBE_OTLP_SETTINGS_H
#define RBPROBE_OTLP_SETTINGS_H

#include "proto/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where OpenTelemetry's data goes: what --otlp says, and what the environment does, by the names that the standard gives it. */

enum otlp_signal { OTLP_TRACES, OTLP_METRICS };

struct otlp_settings {
	enum otlp_signal signal;
	char *url;       /* of this signal, with its path */
	char *shown_url; /* the same without a password */
	char **headers;  /* "Name: value" */
	size_t header_count;
	char *certificate;   /* a file of those that sign the server's; NULL: the system's */
	uint64_t timeout_ns; /* of a request, and of all that is left at the end */
	bool delta;          /* metrics: what has come since the last time, not all */
};

/* getenv(), or what a test has in its place. */
typedef const char *otlp_environment(const char *name);

/*
 * url: of --otlp; NULL: it was given without one, and the environment says where, or nothing does: http://localhost:4318.
 * 0, or negative with err, a sentence for people. otlp_settings_free() in any case.
 */
int otlp_settings_read(struct otlp_settings *settings, enum otlp_signal signal, const char *url, otlp_environment *environment,
                       struct error *err);
void otlp_settings_free(struct otlp_settings *settings);

#endif
