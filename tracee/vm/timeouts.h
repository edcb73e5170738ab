#ifndef RBPROBE_TIMEOUTS_H
#define RBPROBE_TIMEOUTS_H

#include <ruby.h>

#include <stdbool.h>

/*
 * Takes away what `Timeout` has sent to the running thread for blocks that are over: an expression's own, whose interrupts were
 * held back until it was over, too. They would be raised in the application. Not those blocks' that were given a class of
 * exceptions: what these send cannot be told from anybody's. first: those in the queue before this one stay. For the caller of
 * the code that may have used Timeout, in whose frame that code is over. Event context, GVL held. Raises nothing.
 */
void timeouts_forget_ended(long first);

/*
 * Whether what has left an expression (`$!` in rb_protect) is of a Timeout that began before: what the VM delivers in there to
 * code that lets interrupts in. Those of the expression's own do not leave it. Raises nothing.
 */
bool timeouts_is_older(VALUE error);

#endif
