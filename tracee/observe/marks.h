#ifndef RBPROBE_OBSERVE_MARKS_H
#define RBPROBE_OBSERVE_MARKS_H

#include "proto/command.h"
#include "proto/error.h"
#include "tracee/observe/decide.h"
#include "tracee/observe/thread_names.h"
#include "tracee/observe/thread_sampler.h"
#include "tracee/session/session.h"

#include <ruby.h>
#include <ruby/debug.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What a trace shows beside calls: marks (proto/marks.h). Each kind has a file, mark_KIND.c, which switches a hook of the VM's on
 * while at least one session wants it. Job context, where nothing else is said.
 */

#define MARK_KEPT_SIZE 1024 /* bytes of values that may wait */
#define MARKS_KEPT 32

/* A mark whose fiber the client does not know, until the next job. */
struct kept_mark {
	enum mark_kind kind;
	uint32_t native_id; /* of its thread */
	uint64_t time;      /* ticks */
	size_t size;
	char values[MARK_KEPT_SIZE];
};

/* Objects that a session wants to see made. */
struct allocation_watch {
	VALUE class;
	char *name; /* as it was asked for */
	bool below;
	uint64_t every, made, fitting, shown; /* fitting: meet the conditions; shown: or lost */
};

/* What has been taken of the marks of a kind that meet the other conditions: --every, --rate. */
struct mark_quota {
	uint64_t met;
	struct rate_window window;
};

/* What a session keeps for its marks. */
struct marks {
	bool asks; /* some of its conditions are about marks; mark_conditions.c */
	struct mark_quota quotas[MARK_COUNT];
	struct mark_options options; /* its texts are its own */
	uint64_t began_ns;
	uint64_t gc_ns, gc_longest_ns; /* pauses */
	uint64_t gc_elsewhere;         /* mark_gc_elsewhere() at the beginning */
	struct mark_gvl_baseline *gvl; /* at the beginning; NULL: it does not ask for that */
	struct sampler_misses misses;  /* likewise, of a timeline */
	struct allocation_watch allocations[MARK_ALLOCATIONS_MAX];
	uint32_t allocation_count;
	struct mark_threads *threads; /* NULL: the trace asks for no name of a thread, or has no memory for that */
	struct thread_names *names;   /* of a timeline, once some were told */
	uint32_t kept_count;
	uint32_t nobody_id; /* the thread that the fiber without a name was last said to be */
	struct kept_mark kept[MARKS_KEPT];
};

struct mark_source {
	enum mark_kind kind;
	/* NULL: possible on every Ruby. 0, or negative with err: this one cannot. */
	int (*check)(const struct mark_options *options, struct error *err);
	/* The first session wants it, the last one does not any more. May raise. */
	void (*on)(void);
	void (*off)(void);
};

extern const struct mark_source mark_raise;
extern const struct mark_source mark_gc;
extern const struct mark_source mark_allocation;
extern const struct mark_source mark_gvl;
extern const struct mark_source mark_states;

/*
 * Before mark_states is on, for a session that wants it: how often the threads will be looked at, times a second; 0: never, as
 * the VM tells it.
 */
uint32_t timeline_rate_hz(const struct mark_options *options);
/* The writer sends what threads do from now on. While mark_states is on. */
void timeline_begin(struct session *session);
/* What the client has to know of it at the end. Calls nothing of Ruby's. */
void timeline_tell(struct session *session);
/* The process exits: before the VM frees its threads, and after that. Calls nothing of Ruby's. */
void timeline_exit(bool threads_are_there);
/* In a forked child, after its sessions know that they are in one. Async-signal-safe. */
void timeline_fork_child(void);
/* In each job: begins in a forked child, and learns of threads that nobody has told of. */
void timeline_go_on(void);
/* In a forked child, for a session that goes on there. Async-signal-safe. */
void timeline_adopt(struct session *session);

/* What a thread does, of the GVL. In the order of a TOTALS record. */
enum { MARK_GVL_WAITING, MARK_GVL_HOLDING, MARK_GVL_OUTSIDE, MARK_GVL_DOINGS };

/* What the threads have done so far, by account. */
struct mark_gvl_baseline {
	uint32_t generation;
	uint64_t ns[MARK_GVL_DOINGS];
};
/* For free(); NULL without memory. */
struct mark_gvl_baseline *mark_gvl_baseline(void);
/* What they have done since then, for the client. Calls nothing of Ruby's. */
void mark_gvl_tell(struct session *session);
/* What all threads have done together, since the first of the sessions that ask for it began. Calls nothing of Ruby's. */
void mark_gvl_sums(uint64_t sums[MARK_GVL_DOINGS]);
/* Long waits become marks. */
void mark_gvl_flush(void);

/*
 * Finds the classes whose objects are wanted, for marks, or with NULL only looks whether there are any of these names. 0, or
 * negative and err. Job context; raises nothing.
 */
int mark_allocation_find(const struct mark_options *options, struct marks *marks, struct error *err);
/* How many there were, for the client. Calls nothing of Ruby's. */
void mark_allocation_tell(struct session *session);

/* Collections that other Ractors' threads ended, while on: they are counted, and not shown. */
uint64_t mark_gc_elsewhere(void);

/* Whether this Ruby can give the marks that a command wants; before anything is armed. 0, or negative and err. */
int marks_check(const struct command *command, struct error *err);
/* Begins with them; the command's options are the session's. 0, or negative and err. */
int marks_start(struct session *session, const struct command *command, struct error *err);
/* Ends with them, and frees what they needed. */
extern const struct session_part marks_part;

/* In GC. */
void marks_mark(const struct session *session);

enum mark_verdict {
	MARK_SHOWN,
	MARK_LEFT_OUT, /* it does not meet the conditions */
	MARK_UNKNOWN,  /* whether it does cannot be told: it counts as lost */
};

/* Looks which of the session's conditions are about marks. */
void mark_conditions_open(struct session *session);
/*
 * What becomes of an exception that is raised, or an object that is made: --within, --outside, --thread; --every, --rate. Event
 * context, GVL held. Of an exception: may raise; under rb_protect, with no event of the fiber's heard. Of an object: allocates
 * nothing, and fiber may be NULL; told: whether that means that rbprobe has not met it.
 */
enum mark_verdict mark_verdict_raise(struct session *session, struct fiber_state *fiber, rb_trace_arg_t *trace_arg);
enum mark_verdict mark_verdict_allocation(struct session *session, const struct fiber_state *fiber, bool told,
                                          rb_trace_arg_t *trace_arg);
/*
 * mark_threads.c: which threads --thread means, where an object is made. Jobs open it, and look again where a verdict has asked
 * for that; they raise nothing. mark_threads_mark(): in GC.
 */
void mark_threads_open(struct session *session);
void mark_threads_look(void);
void mark_threads_mark(const struct marks *marks);
void mark_threads_free(struct marks *marks);
/* Where an object is made. MARK_UNKNOWN: the thread is newer than the last look. */
enum mark_verdict mark_threads_verdict(const struct session *session);
/* The rest of the verdict on an object, of those that CLASS@N takes: --every and --rate. */
enum mark_verdict mark_verdict_counted(struct session *session, enum mark_kind kind);
/* Counts one that is not shown, as its verdict says. */
void mark_count_unshown(struct session *session, enum mark_verdict verdict);

/* Whether events of a kind are the session's business now. Any context that has the GVL. */
static inline bool marks_are_on(const struct session *session, enum mark_kind kind)
{
	return session->marking & 1u << kind && !session->detaching &&
	       !atomic_load_explicit(&session->gone, memory_order_relaxed);
}

struct value_texts;

/* Adds the number of a stack (callers.h) to a mark's values; CALLERS_NONE is left out. */
void marks_add_stack(struct value_texts *values, uint64_t number);

/*
 * A mark of this moment, with its values as value_texts_end() leaves them. fiber: NULL, or one that the client does not know: it
 * is counted as lost. GVL held, any context: allocates nothing.
 */
void marks_push(struct session *session, const struct fiber_state *fiber, enum mark_kind kind, const void *values, size_t size);

/*
 * The same in GC: where the client does not know the fiber, the mark is kept, and a job is asked for. size: at most
 * MARK_KEPT_SIZE.
 */
void marks_push_or_keep(struct session *session, const struct fiber_state *fiber, enum mark_kind kind, const void *values,
                        size_t size);
/* A mark of a thread, by its native id, and of another moment: goes into the ring with marks_flush_kept(), or is lost. */
void marks_keep(struct session *session, enum mark_kind kind, uint32_t native_id, uint64_t time, const void *values, size_t size);
/* What was kept, of all sessions. */
void marks_flush_kept(void);
/* The same, after what sources have for it. */
void marks_flush(void);

#endif
