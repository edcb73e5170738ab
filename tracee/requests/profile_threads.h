#ifndef RBPROBE_PROFILE_THREADS_H
#define RBPROBE_PROFILE_THREADS_H

#include "tracee/base/msgpack_builder.h"

#include <ruby.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The threads that a profile has seen, numbered from 1 on. Job context, GVL held. */

#define PROFILE_THREADS_MAX 2048 /* alive at a time */
#define PROFILE_CLOCKS_MAX 256   /* native threads that Ruby's threads share, at a time; of more, CPU time is unseen */

struct profile_thread {
	VALUE thread;
	uint32_t number;
	uint32_t native_id; /* 0: not known (yet) */
	bool ours;          /* none of the application's */
	uint32_t clock_id;  /* the native thread that has its clock; 0: it has none now */
	bool has_cpu;       /* cpu_ns is known; */
	bool had_cpu;       /* before_ns, too */
	bool untold;
	uint64_t cpu_ns, before_ns; /* at the last sample, and at the one before */
	uint64_t used_ns;           /* of that, since it was seen first */
	uint64_t last_ns;           /* and since the last sample */
	bool stands;                /* it has used none: nothing of it has run, so it is where the last sample saw it */
	uint64_t round;             /* the last one in which it was there */
	uint32_t stack;             /* that the last sample saw, where has_stack; 0: it has no frames */
	bool has_stack;
	bool cut; /* the stack, as it was too deep */
	char name[128];
};

struct profile_threads {
	struct profile_thread *items;
	uint32_t count, room, numbers;
	uint64_t round;
	uint64_t left_out; /* counted by who asks: so often a thread was one too many */
	uint64_t used_ns;  /* CPU time of all, ours and those that are gone too */
	/* RUBY_MN_THREADS: a native thread's clock goes on with the thread that it runs now. What it has run is counted once. */
	bool share;
	uint32_t clock_count;
	struct profile_shared_clock {
		uint32_t native_id;
		uint64_t cpu_ns; /* 0: not read yet */
		uint64_t round;  /* the last one in which a thread was on it */
	} clocks[PROFILE_CLOCKS_MAX];
};

void profile_threads_free(struct profile_threads *threads);
/* In GC. */
void profile_threads_mark(const struct profile_threads *threads);

/* A sample begins. */
void profile_threads_begin(struct profile_threads *threads);
/*
 * The thread, by an index that it probably has; NULL: there is no room. Valid until the next call. May raise: asks Ruby's own
 * methods.
 */
struct profile_thread *profile_threads_get(struct profile_threads *threads, VALUE thread, uint32_t probably);
/* The sample is over: forgets those that were not there. */
void profile_threads_end(struct profile_threads *threads);

/* What the last sample took, of the clock of the native thread that took it. */
struct profile_cost {
	pid_t native_id; /* 0: there was none */
	uint64_t cpu_ns;
};

/*
 * The CPU time that the thread has used since the last call becomes known, as last_ns, without the cost. now_ns: what its clock
 * says, where that has been read; 0: it has not.
 */
void profile_thread_cpu_ns(struct profile_threads *threads, struct profile_thread *thread, uint64_t now_ns,
                           const struct profile_cost *cost);

/* Adds "clocks": of each thread whose CPU time is known, how much it has used so far. */
void profile_threads_tell_clocks(const struct profile_threads *threads, struct msgpack_builder *answer);

/* Adds "threads" that are new, or have another name, to the map that is open. May raise. */
void profile_threads_tell(struct profile_threads *threads, struct msgpack_builder *answer);
/* They have been sent. */
void profile_threads_told(struct profile_threads *threads);

#endif
