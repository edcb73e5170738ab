#ifndef RBPROBE_TALLY_H
#define RBPROBE_TALLY_H

#include "proto/command.h"
#include "proto/error.h"
#include "proto/histogram.h"
#include "tracee/base/ticks.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * What is counted of calls where they are counted in the process, and not streamed (TRACE_COUNT). Times are in ticks. GVL held.
 *
 * The counters of a histogram come octave by octave, when the first number falls into one, out of an arena that has its fixed
 * size from the start: an event allocates nothing. The memory becomes real page by page. Where it is used up, numbers go into no
 * histogram, which is counted.
 */

struct measured;
struct session;
struct tally_keys;
struct tally_tree;

#define TALLY_BLOCKS 65535u /* of 32 counters: 16 MiB at most */

struct tally {
	/* What each event looks at, and changes: in one cache line, but for long times. */
	_Alignas(64) uint64_t calls; /* that ended; where only calls are counted: that began */
	uint64_t total, inner;       /* the part of the total that counted calls inside of them took */
	uint64_t least, most;
	uint16_t octaves[HISTOGRAM_OCTAVES]; /* their blocks in the arena; 0: none yet */
	uint64_t errors;
	uint64_t unplaced; /* times that are in no bucket */
	/* Where calls are measured (measure.h): the sums, */
	uint64_t cpu_ns, objects, gc_ns;
	uint64_t unmeasured; /* and how many calls are not in all of those that are measured */
};

/* A call that ended, and is not in its tally yet. */
struct tally_entry {
	struct tally *tally;
	uint64_t elapsed, inner;
};

#define TALLY_ENTRIES 61u /* a prime: what they take together must not always meet the events that overhead.h measures */

/* A session's. */
struct tallies {
	uint64_t (*blocks)[HISTOGRAM_PER_OCTAVE]; /* block 0 is not used */
	uint32_t used, limit; /* blocks; the limit is less than TALLY_BLOCKS where the address space is limited */
	size_t arena_size;    /* bytes */
	struct ticks_reading opened;
	struct tally_keys *keys; /* NULL: nothing is counted apart */
	struct tally_tree *tree; /* NULL: calls are not counted by the calls around them */
	uint64_t began_ns;
	bool told; /* the session is over, and its figures have been sent */
	/* Calls of the short way, which tally_settle() puts into their tallies. Who reads those calls it before. */
	uint32_t entry_count;
	struct tally_entry entries[TALLY_ENTRIES];
};

/* Job context: for a trace command that counts. 0, or -ENOMEM and err. Nothing to do for others. */
int tallies_open(struct session *session, const struct command *command, struct error *err);
/* Frees it. The tallies themselves are their owners'. */
void tallies_close(struct session *session);

/* In a forked child, which has no arena: a new one, with nothing in it. False: there is no memory. Async-signal-safe. */
bool tallies_begin_anew(struct session *session);

/* NULL without memory. free() frees it. */
struct tally *tally_new(void);

/* What was measured of a call that ended; NULL: nothing was. Event context. */
void tally_add_measured(struct tally *tally, const struct measured *measured);

/* Counts a time in an octave for which the tally has no block yet. Event context. */
void tally_count_first(struct tallies *tallies, struct tally *tally, struct histogram_place place);

/* One call that ended; inner: the part of its time that counted calls inside of it took. Event context. */
static inline void tally_add(struct tallies *tallies, struct tally *tally, uint64_t elapsed, uint64_t inner)
{
	struct histogram_place place = histogram_place(elapsed);
	uint16_t block = tally->octaves[place.octave];

	tally->calls++;
	tally->total += elapsed;
	tally->inner += inner;
	if (elapsed < tally->least)
		tally->least = elapsed;
	if (elapsed > tally->most)
		tally->most = elapsed;
	if (__builtin_expect(block != 0, 1))
		tallies->blocks[block][place.bucket]++;
	else
		tally_count_first(tallies, tally, place);
}

/* What was added later, for all tallies of the session. Job and event context, under the GVL. */
void tally_settle(struct tallies *tallies);

/*
 * The same for later. Counters of many methods are rarely in the processor's caches: so a call only leaves a note, and with many
 * notes at a time the processor waits for all of these counters at once. Event context.
 */
static inline void tally_add_later(struct tallies *tallies, struct tally *tally, uint64_t elapsed, uint64_t inner)
{
	tallies->entries[tallies->entry_count++] = (struct tally_entry){tally, elapsed, inner};
	if (__builtin_expect(tallies->entry_count == TALLY_ENTRIES, 0))
		tally_settle(tallies);
}

#endif
