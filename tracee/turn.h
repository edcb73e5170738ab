#ifndef RBPROBE_TURN_H
#define RBPROBE_TURN_H

#include <stdint.h>

/*
 * Sharing the GVL during long work of a job: thousands of methods take a tenth of a second to arm, in which an application's other threads would stand
 * still. Job context. Between turn_begin() and the end everything else may happen: events, definitions of methods, fork in another thread; but no
 * other job of ours, and nothing of the application's is raised, since jobs hold interrupts back.
 *
 * Work for a client is also given up where that has left, or where it takes more of the process than a command may.
 */

struct session;

struct turn {
	uint64_t began_ns;
	uint64_t length_ns;
	const struct session *session; /* for whom; NULL: nobody, it goes on to its end */
	uint64_t cpu_ns;               /* of the thread, as the turn began */
	uint64_t worked_ns;            /* CPU time of earlier turns */
	uint64_t limit_ns;
	char gave_up[96]; /* why; "": it did not */
};

void turn_begin(struct turn *turn);

/* The same for work that is given up when it has taken limit_ms of CPU time, or its client has left. turn_end() has to come, whatever way it ends. */
void turn_begin_for(struct turn *turn, const struct session *session, unsigned limit_ms);
void turn_end(void);

/*
 * Between two pieces of the work: lets the other threads run, if this one has had its turn. Where they compute it will get as much as they had. Raises a
 * RuntimeError where the work is to be given up.
 */
void turn_pass(struct turn *turn);
/* The same for what does not know whose work it does: that of turn_begin_for(), if this is its thread. */
void turn_pass_current(void);

#endif
