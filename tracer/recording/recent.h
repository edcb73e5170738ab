#ifndef RBPROBE_RECENT_H
#define RBPROBE_RECENT_H

#include "tracer/recording/recording_write.h"

/*
 * The most recent part of a recording, in memory and packed. It is made of stretches: each begins with all that has to be known
 * to read it without those before, as a file of --rotate does. What gets too old, or too much, goes by whole stretches.
 */

struct recent;

struct recent_limits {
	uint64_t ns;   /* at least so long is kept, an eighth more, or as much again where little comes; 0: no limit */
	uint64_t size; /* bytes; more only where what has to be known takes them */
};

/* Ends the program without memory, as buffers do. */
struct recent *recent_new(const struct recent_limits *limits);
void recent_free(struct recent *recent);

/* What comes is to be a block after so long, most_ns at most: what is in none yet is never too old. */
uint64_t recent_block_ns(const struct recent_limits *limits, uint64_t most_ns);
/* Whether, and when (UINT64_MAX: nothing waits), the next stretch is to begin. Times are of clock_now_ns(). */
bool recent_is_due(const struct recent *recent, uint64_t now_ns);
uint64_t recent_due_ns(const struct recent *recent);
/* It begins: the session parts and blocks up to recent_known() repeat what is known. */
void recent_begin(struct recent *recent, uint64_t now_ns);
void recent_known(struct recent *recent);

/* Parts, whose sessions have numbers that are theirs alone. Texts are copied. */
void recent_session(struct recent *recent, const struct recording_session *session);
/* frame: of recording_pack(); it is the recent part's from now on. since_ns: when the first of its records came. */
void recent_block(struct recent *recent, const struct recording_block *block, char *frame, uint64_t since_ns, uint64_t now_ns);
void recent_end(struct recent *recent, const struct recording_end *end);

/* Events have come since it was written last. */
bool recent_has_news(const struct recent *recent);
/* It is less than the time of the limits, as it would have been too much. */
bool recent_is_cut(const struct recent *recent);
/* Bytes that it takes. */
uint64_t recent_size(const struct recent *recent);

/* What is too old now goes, although nothing has come since. */
void recent_expire(struct recent *recent, uint64_t now_ns);
/* By the wall clock: the first event, and the last one. False: there is none. */
bool recent_span(const struct recent *recent, uint64_t *from_ns, uint64_t *to_ns);
/* Writes all of it, without a head: sessions are numbered anew. reason: why, for those that go on; NULL: they have no end. */
void recent_write(struct recent *recent, struct recording_writer *writer, const char *reason);

#endif
