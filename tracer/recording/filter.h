#ifndef RBPROBE_FILTER_H
#define RBPROBE_FILTER_H

#include "tracer/base/output.h"
#include "tracer/stream/stream.h"

#include "proto/command.h"
#include "proto/error.h"

#include <stdbool.h>

/*
 * The conditions of a trace, applied afterwards: a session's records go in, and those of what meets the conditions come out, as
 * the process would have sent them. Selectors name methods and classes as they are shown, and --raised the exception's own class:
 * what inherits from what is not in a recording.
 */

/* Gets each call that has ended and does not come out. fiber: of the stream that goes in, not of `to`. */
struct filter_left {
	void (*call)(void *owner, const struct stream *to, const struct fiber *fiber, const struct method *method,
	             uint64_t start_ns, uint64_t duration_ns);
	void *owner;
};

struct filter_wants {
	const struct conditions *conditions; /* slow_ns, raised, depth and thread; --depth goes with neither slow_ns nor raised */
	const struct selector *selectors;    /* roles, too; none of ROLE_SHOWN: all methods */
	uint32_t selector_count;
	bool *met;                      /* set for each selector of which there was something; NULL: nobody asks */
	const struct filter_left *left; /* NULL: nobody asks */
	uint64_t from_ns, to_ns;        /* calls that begin then, by the wall clock; 0: any */
};

bool filter_wants_any(const struct filter_wants *wants);

struct filter;

/* to: the stream that gets what comes out, which the caller owns; its process and clock are those of the session. */
struct filter *filter_new(const struct filter_wants *wants, struct stream *to);
void filter_free(struct filter *filter);

/* Records of the session, each with its length in front. 0, or negative with err. */
int filter_feed(struct filter *filter, const void *bytes, size_t size, struct error *err);

/* Nothing more comes: calls that are open, and were slow already, are passed on. 0, or negative with err. */
int filter_finish(struct filter *filter, struct error *err);

/* Calls and lines of selected methods that did not meet the conditions so far; and marks. */
uint64_t filter_left_out(const struct filter *filter);
uint64_t filter_marks_left_out(const struct filter *filter);

/* Bytes that it remembers. */
uint64_t filter_memory(const struct filter *filter);

#endif
