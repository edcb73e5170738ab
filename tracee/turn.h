#ifndef RBPROBE_TURN_H
#define RBPROBE_TURN_H

#include <stdint.h>

/*
 * Sharing the GVL during long work of a job: thousands of methods take a tenth of a second to arm, in which an application's other threads would stand
 * still. Job context. Between turn_begin() and the end everything else may happen: events, definitions of methods, fork in another thread; but no
 * other job of ours, and nothing is raised, since jobs hold interrupts back.
 */

struct turn {
	uint64_t began_ns;
	uint64_t length_ns;
};

void turn_begin(struct turn *turn);

/* Between two pieces of the work: lets the other threads run, if this one has had its turn. Where they compute it will get as much as they had. */
void turn_pass(struct turn *turn);

#endif
