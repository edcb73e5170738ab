#ifndef RBPROBE_APART_H
#define RBPROBE_APART_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Pieces of work, each in a process of its own: a command of one process that is meant for several. They read nothing from
 * the terminal. INT, TERM and HUP are passed on to those that run, and no further one begins.
 */
struct apart {
	void *owner;
	bool together; /* all at a time; else one after the other */
	/* How many pieces there are by now. Asked for again each second while one runs. */
	size_t (*count)(void *owner);
	int (*run)(void *owner, size_t index); /* in its process; returns the exit status */
};

/*
 * Of pieces that run at a time, what only one may do at a moment: take what the machine has little of, write what readers want
 * in one piece. A turn ends with apart_turn_end(), or with the process. Who is no piece always has it.
 */
bool apart_turn_take(void); /* without waiting; whether it is ours now */
void apart_turn_end(void);

/* Until all have ended. Returns the first exit status that is not 0. */
int apart_run(const struct apart *apart);

#endif
