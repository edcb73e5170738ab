#ifndef RBPROBE_SINK_RECORD_PARTS_H
#define RBPROBE_SINK_RECORD_PARTS_H

#include "tracer/base/progress_line.h"
#include "tracer/recording/recording_write.h"
#include "tracer/recording/sink_record.h"

/* What sink_record.c, sink_record_clock.c and sink_record_flight.c share. */

/* One process, from its HELLO on. */
struct session {
	const struct stream *stream;
	pid_t pid;
	uint32_t number;
	uint64_t began_ns;
	struct buffer ruby_version, extension_version, command;
	struct session_state *state;           /* NULL: nobody will ask for it */
	struct buffer records;                 /* whole ones, that are in no block yet */
	uint64_t since_ns;                     /* when the first of them came */
	uint64_t events, from_ns, to_ns, lost; /* of these */
};

/* What a flight recorder keeps, and why it is about to be written. */
struct flight {
	struct recent *recent;     /* NULL: it is none */
	struct buffer why;         /* a trigger was met, ends with a 0; empty: none was */
	const struct fiber *fiber; /* whose open calls are waited for, so that they are whole; NULL: none */
	uint64_t wait_ns;          /* until then at most */
	uint64_t rest_ns;          /* the next file of a trigger is not written before */
	bool met;                  /* a trigger was, at some time */
	bool over;                 /* it has written what it was waiting for */
};

struct sink_record {
	struct sink sink;
	struct recording_head head;
	struct recording_writer *writer; /* NULL: nothing has been written, as no process was reached yet */
	struct session *sessions;        /* that are not over */
	size_t count;
	bool ran; /* a session has ended, and so has begun; of a process that refuses, there is none */
	uint32_t numbers;
	struct session *last;
	struct record_manner manner;
	struct flight flight;
	uint32_t block_size;
	uint64_t block_ns;
	uint64_t file_began; /* what the output had written when the newest file began */
	char host[256];
	uint32_t rotated; /* files that are complete */
	uint64_t began_ns, events;
	struct progress_line progress;
};

/* --- sink_record.c */

/* What has come of the session makes a block, and perhaps the next file begins. */
void recorder_write_block(struct sink_record *recorder, struct session *session);
/* What has come of all makes blocks. */
void recorder_add_blocks(struct sink_record *recorder);
/* The sessions, and what has to be known of them to go on reading. */
void recorder_add_known(struct sink_record *recorder);

/* --- sink_record_clock.c */

/* When what is in no block yet has been there for long enough. UINT64_MAX: there is nothing. */
uint64_t recorder_blocks_due_ns(const struct sink_record *recorder);
/* Of the sink. */
uint64_t recorder_wake_ns(const struct sink *sink);
void recorder_wake(struct sink *sink, uint64_t now_ns);

/* --- sink_record_flight.c; all of these do nothing where it is no flight recorder, but for the second one */

void flight_open(struct sink_record *recorder);
void flight_add_block(struct sink_record *recorder, struct recording_block block, const char *bytes, uint64_t since_ns);
void flight_free(struct sink_record *recorder);

/* Events, which may be what is waited for; and: no call of the fiber will end any more. */
void flight_call(struct sink_record *recorder, const struct fiber *fiber, const struct trigger_call *call);
void flight_line(struct sink_record *recorder, const struct fiber *fiber, struct method *line, struct values values);
void flight_mark(struct sink_record *recorder, const struct fiber *fiber, const struct method *mark, struct values values);
void flight_fiber_gone(struct sink_record *recorder, const struct fiber *fiber);
/* triggers_truths() of a call that begins. */
static inline uint16_t flight_truths(const struct sink_record *recorder, const struct method *method, struct values values)
{
	return recorder->flight.recent && recorder->manner.triggers->with_truths
	               ? triggers_truths(recorder->manner.triggers, method, values)
	               : 0;
}

/* What is due by the clock; between records only. */
void flight_step(struct sink_record *recorder, uint64_t now_ns);
uint64_t flight_due_ns(const struct sink_record *recorder);

/* At the end: writes what is there and was not yet; where there is nothing to be written, the file stays as it is. */
void flight_end(struct sink_record *recorder);
/* Writes what is there, as a file of its own. reason NULL: it is the end, and each session has its own. */
void flight_write(struct sink_record *recorder, const char *reason);

#endif
