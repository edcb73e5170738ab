#ifndef RBPROBE_TRACER_PROFILE_H
#define RBPROBE_TRACER_PROFILE_H

#include "tracer/base/number_index.h"
#include "tracer/recording/words.h"

#include "proto/error.h"
#include "proto/slice.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * What samples of stacks add up to, of one process or several: a tree of frames, and how long each thread was found in each. It
 * is filled by the answers of the PROFILE request (PROTOCOL.md), as they come or from a file.
 */

struct profile_function {
	uint32_t label, path; /* in texts */
	int32_t line;         /* its first one */
};

/* Node 0 is above all outermost frames. A parent has a lower number than its children. */
struct profile_node {
	uint32_t parent, function;
	int32_t line; /* 0: none */
	uint32_t depth;
};

struct profile_thread {
	uint32_t process; /* in processes */
	uint64_t id;      /* as Thread#inspect shows it */
	uint32_t native_id;
	bool main;
	struct slice name; /* empty: none */
	bool has_clock;
	uint64_t clock_ns; /* the CPU time that it used; what sums have of it are samples */
};

/* By what a profile is looked at. Of time: the first three; of the GVL: the next two as well; of objects: the others. */
enum profile_weight {
	PROFILE_WALL,   /* ns */
	PROFILE_CPU,    /* ns */
	PROFILE_BUSY,   /* ns: wall time without what the thread waited */
	PROFILE_WAITED, /* ns: for the GVL */
	PROFILE_HELD,   /* ns: for which others waited for it, added up over these */
	PROFILE_BYTES,
	PROFILE_OBJECTS,
	PROFILE_WEIGHTS,
};

struct profile_sum {
	uint32_t thread, node;
	uint64_t ticks;   /* samples */
	uint64_t idle_ns; /* of PROFILE_WALL */
	uint64_t weights[PROFILE_WEIGHTS];
};

/* For so long one thread waited for the GVL while the other had it. */
struct profile_pair {
	uint32_t waiter, holder; /* PROFILE_NOBODY: not known */
	uint64_t ns;
};

#define PROFILE_NOBODY UINT32_MAX

/* Of native frames: what taking them cost, and what could not be had. */
struct profile_native {
	bool there;
	uint64_t stops, pause_median_ns, pause_longest_ns, stopped_ns;
	uint64_t not_stopped, cut, unplaced, unnamed; /* samples */
};

/* What the process says of the sampling. */
struct profile_summary {
	uint64_t elapsed_ns, samples, cpu_samples, late_ticks, late_ns, no_room_ticks, threads_left_out, cut, woken, own_cpu_ns;
	bool with_unseen;       /* unseen_cpu_ns is known */
	uint64_t unseen_cpu_ns; /* of the application's threads, in no sample */
	double rate_hz;
	bool with_c, with_cpu, with_gc, gvl_by_events;
	uint64_t made, every, noted, off_ns, lost; /* of objects */
	uint64_t unwatched, unwatched_ns;          /* the VM cannot be watched any more: objects that may be alive or not */
	double event_ns;
	bool with_bytes;
	bool only_retained, retained; /* what stays was asked for; it is known */
	struct profile_native native;
	bool there;
};

/* Objects that stay were asked for, and none can be told. */
static inline bool profile_ended_early(const struct profile_summary *summary)
{
	return summary->only_retained && !summary->retained;
}

struct profile_numbers { /* a process's own numbers, from 1 on, and ours */
	uint32_t *items, count, room;
};

struct profile_process {
	pid_t pid;
	uint32_t session; /* which of its sessions: of a file */
	struct profile_numbers functions, stacks, threads;
	struct profile_summary summary;
	struct slice ruby_version, command; /* empty: not known */
};

struct profile {
	struct words texts;
	struct profile_function *functions;
	uint32_t function_count, function_room;
	uint32_t *function_slots, function_slot_count;
	struct profile_node *nodes;
	uint32_t node_count, node_room;
	uint32_t *node_slots, node_slot_count; /* by parent, function and line */
	struct profile_thread *threads;
	uint32_t thread_count, thread_room;
	struct words thread_keys; /* of profile_thread_number() alone: process and id */
	struct profile_sum *sums;
	uint32_t sum_count, sum_room;
	uint32_t *slots; /* of sums, by thread and node */
	uint32_t slot_count;
	struct profile_process *processes;
	struct number_index process_index; /* by PID and session */
	uint32_t process_count, process_room;
	uint32_t rate_hz; /* that was asked for */
	bool of_objects, of_gvl;
	uint64_t received;   /* bytes of the answers that a file had of it */
	uint64_t lost_calls; /* of recorded calls (call_stacks.h): so many were lost while recording */
	struct profile_pair *pairs;
	struct number_index pair_index; /* of the two threads of each */
	uint32_t pair_count, pair_room;
	bool has_idle;                     /* it says when threads waited: PROFILE_BUSY is known */
	uint64_t number_count, memory_max; /* numbers of all processes; bytes that all of it may take */
};

struct profile *profile_new(void);
void profile_free(struct profile *profile);

/* The process, by its PID and the number of its session; it is added. Valid until the next one is. */
struct profile_process *profile_process(struct profile *profile, pid_t pid, uint32_t session);

/* Whether something of its only session has come. */
bool profile_has(const struct profile *profile, pid_t pid);

/* A map of the answer. What is wrong in it ends with -EPROTO and err. */
int profile_add(struct profile *profile, struct profile_process *process, const msgpack_object *map, struct error *err);

/* Of the map `summary` in an answer. */
void profile_summary_read(struct profile_summary *summary, const msgpack_object *map);

/*
 * When all is there: what samples say of a thread's CPU time is brought to what its clock says. A sample that found the thread
 * running stands for a whole tick, of which another process may have had a part. PROFILE_BUSY is known
 * from then on.
 */
void profile_settle(struct profile *profile);

/* --- For who fills it by other means. Items move when more are added. */
uint32_t profile_function_number(struct profile *profile, struct slice label, struct slice path, int32_t line);
/* Beyond max of them: 0, for those that are not there yet. */
uint32_t profile_node_number(struct profile *profile, uint32_t parent, uint32_t function, int32_t line, uint32_t max);
struct profile_sum *profile_sum_add(struct profile *profile, uint32_t thread, uint32_t node);
/*
 * By its process and its id; its name is copied. Beyond max of them all others are the last one. Only where all threads come by
 * this way.
 */
uint32_t profile_thread_number(struct profile *profile, const struct profile_thread *thread, uint32_t max);

/* What a frame is called. */
struct slice profile_label(const struct profile *profile, uint32_t function);
/* Empty: it is written in C. */
struct slice profile_path(const struct profile *profile, uint32_t function);

#endif
