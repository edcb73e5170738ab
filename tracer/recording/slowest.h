#ifndef RBPROBE_SLOWEST_H
#define RBPROBE_SLOWEST_H

#include "tracer/recording/waits.h"
#include "tracer/stream/sink.h"

/* The calls that took longest, as lines. */

struct slow_call {
	struct method *method;
	uint64_t start_ns, duration_ns;
	uint32_t retries;
	enum ending ending;
	struct values values, outcome; /* of its start, and of its end */
};

struct slowest;

/* Writes a call as a line. */
typedef void slowest_writer(struct buffer *to, const struct sink *sink, const struct fiber *fiber, const struct slow_call *call);

slowest_writer slowest_json;

/*
 * Ends the program without memory, as buffers do. write: NULL: as text. waits: explains them, when they are shown;
 * NULL: nobody does.
 */
struct slowest *slowest_new(uint32_t count, slowest_writer *write, struct waits *waits);
void slowest_free(struct slowest *slowest);

/* Whether a call that took so long is one of them so far. */
bool slowest_wants(const struct slowest *slowest, uint64_t duration_ns);
void slowest_add(struct slowest *slowest, const struct sink *sink, const struct fiber *fiber, const struct slow_call *call);

/* Their lines, the slowest first. */
void slowest_show(struct slowest *slowest, struct buffer *to);

#endif
