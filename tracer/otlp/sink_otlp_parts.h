#ifndef RBPROBE_SINK_OTLP_PARTS_H
#define RBPROBE_SINK_OTLP_PARTS_H

#include "tracer/otlp/otlp_attributes.h"
#include "tracer/otlp/sink_otlp.h"
#include "tracer/stream/measures.h"

/* What sink_otlp.c, otlp_calls.c and otlp_marks.c share. */

#define TRACE_ID_SIZE 16u
#define SPAN_ID_SIZE 8u
#define SPAN_EVENTS_MAX 128u /* as SDKs have it */
#define SPAN_STATUS_ERROR 2
#define SPAN_KIND_INTERNAL 1

struct span_ids {
	uint8_t trace[TRACE_ID_SIZE];
	uint8_t span[SPAN_ID_SIZE];
};

/* Of an open call, in fiber->kept: this, its values, and its events, each after its size. */
struct kept {
	struct span_ids ids;
	uint32_t value_count, value_size;
	uint32_t events, dropped;
};

/* The spans of a process, before they become a request. */
struct span_batch {
	struct buffer resource; /* packed */
	struct buffer bytes;    /* packed spans, one after the other, and where they end */
	size_t *ends;
	size_t count, room;
	uint64_t since_ns; /* when the first came */
};

struct process {
	const struct stream *stream;
	pid_t pid;
	struct span_batch batch;
};

struct otlp_sink {
	struct sink sink;
	const struct otlp_manner *manner;
	struct process *processes;
	size_t count;
	uint64_t random[2];
	uint64_t look_ns;
	struct otlp_attributes attributes, event_attributes;
	uint64_t last_ns; /* by the wall clock: of the latest event */
};

struct ended {
	const struct span_ids *ids, *parent; /* parent NULL: it is the outermost */
	uint64_t start_ns, end_ns;           /* of the wall clock */
	enum ending ending;
	bool open;
	uint32_t retries;
	struct values values, outcome;
	const char *events; /* as they are kept */
	uint32_t event_count, dropped;
};

/* --- sink_otlp.c */

void otlp_random(struct otlp_sink *otlp, uint8_t *to, size_t size);
struct kept otlp_kept(const struct fiber *fiber, const struct call *call);
/* The innermost open call that is shown; NULL: none is. */
const struct call *otlp_around(const struct fiber *fiber);
uint64_t otlp_wall_ns(struct otlp_sink *otlp, const struct stream *stream, uint64_t time_ns);
void otlp_add_span(struct otlp_sink *otlp, const struct stream *stream, const Otlp__Span *span);

/* --- otlp_calls.c: a call that has ended becomes a span. */

void otlp_call(struct otlp_sink *otlp, const struct fiber *fiber, const struct method *method, const struct ended *ended);
void otlp_add_values(struct otlp_attributes *to, const char *before, const struct labels *labels, struct values values);
void otlp_add_measures(struct otlp_attributes *to, const struct stream *stream, const struct measures *measures);
void otlp_add_stack(struct otlp_attributes *to, const struct stream *stream, uint64_t number);
void otlp_add_place(struct otlp_attributes *to, const struct fiber *fiber);
void otlp_add_code(struct otlp_attributes *to, const struct method *method);
ProtobufCMessage *otlp_fill_event(Otlp__Span__Event *event, struct otlp_attributes *attributes, const char *name,
                                  uint64_t time_ns);

/* --- otlp_marks.c: what is no call; as sink_ops has it. */

void otlp_on_mark(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event);
void otlp_on_line(struct sink *sink, struct fiber *fiber, struct method *line, const struct event *event);
void otlp_on_lost(struct sink *sink, struct stream *stream, const struct record_lost *lost);

/* --- otlp_batch.c */

void span_batch_add(struct span_batch *batch, const ProtobufCMessage *span);
/* What is in it becomes a request, which takes all of it. */
void span_batch_request(struct span_batch *batch, struct buffer *request);
void span_batch_free(struct span_batch *batch);

#endif
