#ifndef RBPROBE_PROFILE_TAKE_H
#define RBPROBE_PROFILE_TAKE_H

#include "tracee/base/msgpack_builder.h"
#include "tracee/requests/profile_allocations.h"
#include "tracee/requests/profile_clock.h"
#include "tracee/requests/profile_gvl.h"
#include "tracee/requests/profile_stacks.h"
#include "tracee/requests/profile_sums.h"
#include "tracee/requests/profile_threads.h"

#include <ruby.h>
#include <stdbool.h>
#include <stdint.h>

/* What a profile consists of, and a sample of its threads' time. Job context, GVL held. */

struct request;

/* Who has left it before its end. */
enum profile_left { LEFT_NOT, LEFT_BY_CLIENT, LEFT_BY_PARENT, LEFT_BY_PROCESS };

/* One at a time in a process. */
struct profiler {
	struct request *request; /* NULL: somebody has left */
	struct profile_clock *clock;
	struct profile_stacks *stacks;
	struct profile_threads threads;
	struct profile_sums sums; /* ticks, ns of wall time, ns of CPU time, ns idle; of objects: notes, objects, bytes */
	struct profile_allocations *allocations; /* NULL: time is sampled */
	struct profile_gvl *gvl;                 /* NULL: nobody asked who waits for it */
	struct profile_sums gvl_sums;            /* waits, ns waited, ns for which others waited */
	struct msgpack_builder answer;
	uint64_t began_ns, sent_ns;
	uint64_t began_cpu_ns;             /* of the application */
	uint64_t others_ns;                /* what our threads that are not the profile's had taken when it began */
	uint64_t sample_ns, sample_cpu_ns; /* when the sample began, and what the clock of its thread was */
	struct profile_cost last;          /* of the last sample */
	bool gc_known;
	uint64_t gc_ns;                     /* at the last sample */
	uint64_t gc_cpu_ns;                 /* of collections, that no sample of CPU time has accounted for yet */
	uint64_t guessed_ns;                /* threads seem to have waited so long for the GVL, */
	uint32_t busiest_stack;             /* while the busiest one was here */
	pid_t watched[PROFILE_WATCHED_MAX]; /* threads that have used CPU time since the last sample */
	uint32_t watched_count;
	uint32_t busiest; /* the thread that has used most CPU time since; 0: none is there */
	uint64_t samples, cpu_samples, late_ticks, late_ns, no_room_ticks, cut, cpu_ns;
	bool sampling;
	enum profile_left left;
	bool ending;  /* after the next sample */
	VALUE keeper; /* marks what it refers to */
};

/* As the profile begins: reads the clocks of all threads, which the list has. May raise. */
void profile_note_clocks(struct profiler *profiler, VALUE list);

/*
 * Adds the time since the last sample to each thread's stack as it is now. list: an Array of all threads, which the caller keeps.
 * Calls nothing that looks for interrupts. May raise.
 */
void profile_take_times(struct profiler *profiler, VALUE list, const struct profile_time *time);

#endif
