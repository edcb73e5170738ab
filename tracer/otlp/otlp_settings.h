#ifndef RBPROBE_OTLP_SETTINGS_H
#define RBPROBE_OTLP_SETTINGS_H

#include "tracer/base/otlp_as.h"

#include "proto/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where OpenTelemetry's data goes: what --otlp says, and what the environment does, by the names that the standard gives it. */

enum otlp_signal { OTLP_TRACES, OTLP_METRICS };

struct otlp_settings {
	enum otlp_signal signal;
	char *url;       /* of this signal, with its path */
	char *shown_url; /* the same without what may be secret: user, password and what comes after a "?" */
	char **headers;  /* "Name: value" */
	size_t header_count;
	char *certificate;                     /* a file of those that sign the server's; NULL: the system's */
	char *client_certificate, *client_key; /* files of ours, for a server that asks for one; NULL: none */
	unsigned as;                           /* flags of enum otlp_as; neither PROTOCOL: protobuf */
	uint64_t timeout_ns;                   /* of a request, and of all that is left at the end */
	bool delta;                            /* metrics: what has come since the last time, not all */
};

/* getenv(), or what a test has in its place. */
typedef const char *otlp_environment(const char *name);

/*
 * url: of --otlp; NULL: it was given without one, and the environment says where, or nothing does: http://localhost:4318.
 * as: flags of enum otlp_as, which come before what the environment says.
 * 0, or negative with err, a sentence for people, which shows no user and no password. otlp_settings_free() in any case.
 */
int otlp_settings_read(struct otlp_settings *settings, enum otlp_signal signal, const char *url, unsigned as,
                       otlp_environment *environment, struct error *err);
/* Of any text that was meant as a URL: without what might be a user and a password, however it was mistyped. For free(). */
char *otlp_url_to_refuse(const char *text);
void otlp_settings_free(struct otlp_settings *settings);

#endif
