#ifndef RBPROBE_EXPORT_SPANS_H
#define RBPROBE_EXPORT_SPANS_H

#include "tracer/commands/otlp_run.h"
#include "tracer/commands/replay_session.h"

/* A recording's calls as spans: into the output, or to --otlp. */

struct export_spans {
	struct otlp_run run;
	struct otlp_manner manner;
	struct output *output;
	bool json; /* in the output */
};

/* signals: what ends a wait for whoever takes the spans. 0, or an exit status after a line on stderr. */
int export_spans_open(struct export_spans *spans, const struct options *options, struct output *output, int signals);
struct sink *export_spans_sink(struct export_spans *spans, struct output *output, const struct sink_style *style);
/* For replay_sessions. */
void export_spans_begin(const struct replay_sessions *sessions, struct sink *sink, const struct stream *stream,
                        const struct recording_session *session);
/* Sends what is left. Returns the status, or another one where something is lost. */
int export_spans_close(struct export_spans *spans, int signals, int status);

#endif
