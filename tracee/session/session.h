#ifndef RBPROBE_SESSION_H
#define RBPROBE_SESSION_H

#include "proto/command.h"
#include "proto/error.h"
#include "proto/limits.h"
#include "proto/record.h"
#include "tracee/base/ring.h"

#include <stdatomic.h>
#include <stdbool.h>

/*
 * One attached client: its socket, its ring and writer thread, and what it has armed. Sessions are made, armed, disarmed and
 * taken from the list in jobs, under the GVL. A session's last owner is its writer thread, which frees it.
 *
 * The rule of lifetimes. A detach frees the session and everything it owns: selection, probes, expressions, the engines' sites
 * and links, console. It happens in a job, and a job may run wherever Ruby code runs or the GVL is handed over. That is in more
 * places than it seems: in every call of a method (the application may have overridden it, or watch it by a TracePoint), in
 * gvl_slice_pass(), in a fork in another thread. So:
 *
 * - A job may keep what it has: there is one job at a time.
 * - Everybody else (events, method_added, threads that evaluate) holds the session from before such a place until the last use:
 *   session_hold(), session_release(). The detach is put off until nobody holds it. Nobody else holds it for longer than one
 *   event takes.
 * - session_release() always comes, so what runs in between is under rb_protect. Where Ruby code runs in between that may leave
 *   the fiber for good: session_hold_for().
 * - A hold keeps things alive, not armed: the selection may be disabled meanwhile. Who arms looks before and after.
 * - Other threads may add to what is held: lists and tables are walked so that additions do no harm, and looked at again before
 *   something is added.
 */

struct ticks_clock;
struct console;
struct decider;
struct engine_hook_state;
struct fiber_state;
struct marks;
struct probe_table;
struct request;
struct tallies;
struct selection; /* what the session observes; selection.h */

/* Something for the client besides events: encoded records, in a list from the GVL holder to the writer. */
struct message {
	_Atomic(struct message *) next;
	uint64_t position; /* the ring's head when it was posted: events before it go out first */
	size_t size;
	int descriptor;      /* goes with it, and is closed then; */
	bool has_descriptor; /* if there is one */
	char bytes[];
};

/* What becomes of calls. */
enum call_manner {
	CALLS_STREAMED, /* their starts and ends go into the ring as they come */
	CALLS_DECIDED,  /* only when a call ends it is known whether it goes into the ring */
	CALLS_KEPT,     /* the same, and the calls inside it wait for that; observe/kept.h */
	CALLS_COUNTED,  /* none goes into the ring: their number and times are kept, tally.h */
};

struct session {
	/* What each event looks at, in one cache line; the ring has its own. */
	_Alignas(64) unsigned slot; /* index into what others keep per session, below SESSIONS_MAX; set once, at attach */
	_Atomic bool gone; /* the client cannot be reached: events return at once; between the GVL holder and the writer */
	bool detaching;    /* as soon as it has stopped and nobody holds it; changes under the GVL */
	unsigned held;     /* how many hold it, of all threads; changes under the GVL */
	uint64_t calls;    /* that began while armed, in the main Ractor; changes under the GVL */
	/* Set by the trace command, under the GVL; decide.h. */
	enum call_manner manner;
	bool asks_at_start;           /* whether a call is shown may be known when it begins */
	bool tests_end;               /* when a call ends an expression decides whether it is shown */
	bool asks_at_end;             /* and may not be known before it ends */
	bool counts_calls;            /* CALLS_COUNTED, and nothing but that they began */
	bool counts_long;             /* the same, and more than calls and times */
	bool shows_ends;              /* expressions about how calls end are shown */
	bool ends_long;               /* there may be more to an end than that, and when */
	uint64_t slow_ticks;          /* shorter calls are not shown */
	struct trace_options options; /* set by the trace command, under the GVL */

	/* Set once, at attach. */
	uint8_t nonce[NONCE_SIZE];
	int socket;
	pid_t pid;      /* the process it belongs to: a forked child has copies of its parent's sessions */
	uint32_t debug; /* domains whose debug lines its client wants; debug.h */

	/* What a forked child needs to go on by itself; session_fork.c. */
	char client_path[SOCKET_PATH_MAX + 1]; /* set once, at attach */
	uint32_t client_pid;
	uint32_t command_id;     /* of the trace command, and */
	uint64_t command_count;  /* what was answered to it; changes under the GVL */
	struct message *lasting; /* copies of what every client has to know, newest first; changes under the GVL */
	bool unannounced;        /* it goes on in a forked child, whose client has not been greeted; changes under the GVL */

	/* Set by the trace command, under the GVL. */
	uint32_t needs; /* what the application has to allow for it: permissions.h */
	struct selection *selection;
	struct probe_table *probes;     /* of the selection, */
	struct engine_hook_state *hook; /* and its global hook */
	struct decider *decider;        /* of the selection: its conditions */
	bool counts_by;                 /* they are counted apart by a key, tally_keys.h */
	struct tallies *tallies;        /* what is counted of its calls; NULL: nothing is */

	/* Changes under the GVL. */
	struct session *next;
	struct message *newest;       /* end of the message list */
	char *scratch;                /* VALUES_SIZE_MAX bytes for the values of the event in the making */
	bool scratch_used;            /* by an event that is running Ruby code meanwhile */
	struct console *console;      /* NULL: no console's client; console.h */
	struct request *requests;     /* under way, newest first; request.h */
	bool told_missing;            /* what the application has taken away; session_tell_missing() */
	uint64_t counted;             /* calls and lines besides `calls`, of probes that only count: probe.h */
	uint64_t left_out;            /* of `calls`: those that do not meet the conditions */
	struct caller_table *callers; /* callers.h; NULL: none yet */
	bool follows_gc;              /* measure.h */
	bool follows_objects;         /* the same */
	uint64_t gc_lost_ns;      /* when hooks for GC had to go, though the session wants them; 0: they have not. gc_hook.h */
	bool leaked;              /* at exit: late events may still look at it, so nobody frees it */
	uint64_t other_ractors;   /* calls in other Ractors; known when disarmed */
	struct marks *mark_state; /* NULL: its trace wants no marks; tracee/observe/marks.h */
	uint32_t marking;         /* bits of enum mark_kind: which are on */
	uint64_t mark_count;      /* that happened, */
	uint64_t marks_lost;      /* those of them for which there was no room, */
	uint64_t marks_left_out;  /* and those that do not meet the conditions */

	uint64_t pushed; /* of calls that were decided about: those whose start is in the ring */

	/* Between the GVL holder and the writer. */
	/* Set once: sends what threads do (observe/timeline.c), as much as goes into a record. NULL: nobody asks for that. */
	void (*tell_states)(struct session *session, msgpack_sbuffer *to, const struct ticks_clock *clock);
	uint64_t states_next;     /* the writer's: the next one that it takes */
	uint64_t names_asked_ns;  /* the writer's: when a job was last asked for names of threads; */
	_Atomic bool names_asked; /* a job is to look, which mark_state is not for: the writer goes on when that is gone */
	_Atomic bool rests; /* calls are shown so late or not at all that the writer may look rarely; set by the trace command */
	_Atomic bool dozes; /* nothing comes but answers that may be later still; set by a profile */
	_Atomic uint64_t look_ns; /* when a job is to look for calls that still run (observe/overdue.h); 0: never */
	struct ring ring;
	struct message *oldest; /* the writer's end of the message list: a message already written, or the first dummy */
	_Atomic size_t waiting; /* bytes of messages that the writer has not taken yet */
	_Atomic bool closing;   /* no event touches it any more: write what there is, then END; the writer owns it from here on */
	enum end_reason end_reason; /* set before closing */
	char end_text[256];
};

/*
 * What another room keeps for a session and has to give up with it. They are called for every session, also for one that has
 * nothing of the kind; in jobs, where nothing else is said; and raise nothing.
 */
struct session_part {
	/* The last that the client is sent, before anything is stopped; at exit, too: calls nothing of Ruby's. May be NULL */
	void (*last_words)(struct session *session);
	void (*stop)(struct session *session); /* the session is over: no more events begin. May be NULL */
	/* Whether that is all done. If not, it goes on by itself, and later jobs ask again. May be NULL */
	bool (*stopped)(const struct session *session);
	void (*release)(struct session *session); /* after that, when nobody holds it: frees it */
	void (*exit)(struct session *session);    /* the process exits: counts what is open, asks Ruby nothing. May be NULL */
	/*
	 * In a forked child that is to be traced, too: what was counted begins anew. Async-signal-safe. False: that cannot be.
	 * May be NULL
	 */
	bool (*adopt)(struct session *session);
};
/* At Init; again does no harm. Parts are stopped and released in the order in which they were registered. */
void session_part_register(const struct session_part *part);

/* Whether it is time to look, and there are calls that are not decided about. Any thread: the numbers may be a bit old. */
static inline bool session_look_is_due(const struct session *session, uint64_t now_ns)
{
	uint64_t look_ns = atomic_load_explicit(&session->look_ns, memory_order_relaxed);

	return look_ns && now_ns >= look_ns &&
	       __atomic_load_n(&session->calls, __ATOMIC_RELAXED) !=
	               __atomic_load_n(&session->left_out, __ATOMIC_RELAXED) +
	                       __atomic_load_n(&session->pushed, __ATOMIC_RELAXED) +
	                       __atomic_load_n(&session->ring.lost, __ATOMIC_RELAXED);
}

/* The live sessions of this process, newest first. GVL. */
struct session *session_first(void);
/* Detached ones that session_finish() has still to hand to their writers. */
struct session *session_finished(void);
struct session *session_find(const uint8_t nonce[NONCE_SIZE]);

/* See above. Both are cheap, allocate nothing and never raise. GVL, any context. */
void session_hold(struct session *session);
void session_release(struct session *session);
/* The same for what the running fiber does, which may call any Ruby code: should the fiber be dropped, its holds end with it. */
void session_hold_for(struct session *session, struct fiber_state *fiber);
void session_release_for(struct session *session, struct fiber_state *fiber);
/* It has been dropped. In GC. */
void session_fiber_died(struct fiber_state *fiber);
/* For walking all sessions: releases the one, and holds and returns the next. NULL: the first, and behind the last. */
struct session *session_hold_next(struct session *held);

/*
 * Connects to the client's socket, checks who listens there, starts the writer, and greets. A client that must be refused
 * (another protocol version, too many sessions) is told so over its socket. 0, or negative and err when it cannot be reached.
 */
int session_attach(const uint8_t nonce[NONCE_SIZE], const struct command *command, struct error *err);

/*
 * Disarms a session and takes it off the list; session_finish() ends it. Where somebody holds it at this moment, that happens as
 * soon as it is released, by a job that session_release() asks for.
 */
void session_detach(struct session *session, enum end_reason reason, const char *text);

/*
 * Lets the writers of detached sessions send what is left, and their END. Behind everything that a client may expect to be gone
 * by then.
 */
void session_finish(void);

/* Detaches those whose clients have gone, and those that could not be detached before. Returns how many are left. */
unsigned session_reap(void);

/*
 * The application allows less than before: sessions whose trace or requests under way are not allowed any more are over. Job.
 */
void session_withdraw(void);

/* Who has attached. */
struct session_client {
	uint8_t nonce[NONCE_SIZE]; /* of the session, which may be over */
	uint32_t pid;              /* as this process sees it; 0: it does not */
	uint32_t uid;              /* as the kernel says */
	struct slice command;      /* its command line, as the client says; "" where it says nothing */
};

/* Once, at Init: `attached` is called in the job in which a client attaches. It raises nothing, and keeps copies only. */
void session_on_attached(void (*attached)(const struct session_client *client));

/* Process exit: every session gets its END, unless its client reads nothing for timeout_ms. */
void session_exit(unsigned timeout_ms);

/*
 * In a forked child: the parent's sessions are forgotten without touching what the parent shares; those that follow forks go on
 * with a connection of the child's own. Only async-signal-safe work.
 */
void session_fork_child(void);
/* Later, in a job of the child or at its exit: has the clients of these learn of it. Asks Ruby nothing. */
void session_fork_introduce(void);
/* Whether it is one of the parent's, of which this child has a copy alone. */
bool session_is_parents(const struct session *session);
/* Later, in a job of the child: frees what that left. */
void session_fork_clean(void);
/* Whether there are any. */
bool session_fork_left(void);
/* The trace command was answered with this. */
void session_note_answer(struct session *session, uint32_t command_id, uint64_t count);

/*
 * Queues one record for the client. GVL; allocates. Dropped when there is no memory, or when it is larger than a record may be.
 */
void session_send(struct session *session, const struct record *record);
/* The same with a descriptor for the client, which is closed here in any case. */
void session_send_descriptor(struct session *session, const struct record *record, int descriptor);
void session_note(struct session *session, enum note_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/*
 * Once a session: notes what the application has taken away of Ruby's own, where that was missed. Before an answer that may be
 * due to it.
 */
void session_tell_missing(struct session *session);

#endif
