#ifndef RBPROBE_RECORDING_H
#define RBPROBE_RECORDING_H

#include "proto/slice.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * What a recording consists of; proto/RECORDING.md describes every byte. The file is a sequence of zstd's frames: parts, which
 * are skippable frames that hold a msgpack map each, and packed frames, which hold records of a target's stream. So any zstd can
 * unpack it, and whatever was killed while writing, all whole frames can be read.
 */

#define RECORDING_VERSION 1u

#define RECORDING_PART_MAGIC 0x184D2A52u /* one of zstd's skippable frames */
#define RECORDING_PREFIX_SIZE 8u         /* of such a frame: its magic and its size, little-endian */
#define RECORDING_PART_MAX (1u << 20)    /* bytes of a part */
#define RECORDING_BLOCK_MAX (4u << 20)   /* bytes of a block, not packed */

enum recording_part {
	RECORDING_NOTHING, /* the end of the file, or a part of a later version */
	RECORDING_HEAD,    /* how the recording came about */
	RECORDING_SESSION, /* a process, from attaching to its end */
	RECORDING_BLOCK,   /* records of a session */
	RECORDING_END,     /* of a session */
};

/* The words that name them in the file. */
extern const char *const recording_part_names[];

struct recording_head {
	uint32_t version;
	struct slice program; /* the version of rbprobe */
	struct slice host;
	uint64_t began_ns; /* of the wall clock */
	uint32_t flags;    /* TRACE's, as far as they say what comes with events */
	uint32_t marks;    /* bits by enum mark_kind */
	bool slow;         /* --slow: a call that begins without an end was still running */
	bool several;      /* more than one process may be in it */
	uint32_t rate_hz;  /* of a profile: samples a second that were asked for; 0: it is none, and has calls */
	uint32_t selector_count;
	const struct slice *selectors;
};

struct recording_session {
	uint32_t number; /* from 0 on, in the order of their parts */
	uint32_t pid;
	uint32_t main_thread;   /* its main thread, as the process sees it; 0: not known */
	uint64_t began_ns;      /* of the wall clock */
	int64_t wall_offset_ns; /* the wall clock is the clock of events and this */
	struct slice ruby_version, extension_version, command;
	bool counts_lost;    /* its blocks say how many calls were lost */
	bool continued;      /* what came before is in no block of this file, */
	uint64_t open_calls; /* and so many calls were open where it begins; in a file, 0 may also be: not known */
};

struct recording_block {
	uint32_t session;
	uint32_t size, packed;   /* bytes of its records, and of the frame that comes next */
	uint64_t events;         /* in it; */
	uint64_t from_ns, to_ns; /* the wall clock's times of the first and the last one; 0: there is none */
	uint64_t lost;           /* calls that its records say were lost */
};

struct recording_end {
	uint32_t session;
	uint64_t duration_ns;
	struct slice reason;
	bool gone; /* the process has ended */
};

#endif
