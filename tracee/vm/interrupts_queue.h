#ifndef RBPROBE_INTERRUPTS_QUEUE_H
#define RBPROBE_INTERRUPTS_QUEUE_H

#include <ruby.h>
#include <stdbool.h>

/*
 * The interrupts that wait for the running thread, as the VM keeps them: an Array in the thread, which Thread#raise and
 * Thread#kill append to. The VM takes from it what it delivers; a kill is a number there. Context: job, GVL held. Raises nothing.
 */

/*
 * Looks for the place once, by an exception of the class that it sends to the running thread and takes away again. All
 * interrupts are held back meanwhile (interrupts_deferred()). False: it could not be taken away, and waits.
 */
bool interrupts_queue_find(VALUE exception_class);

/* How many interrupts wait, held back or not; -1: the place is not known. */
long interrupts_queue_length(void);

/* One of these, the first is 0: an exception, or a number for a kill. */
VALUE interrupts_queue_at(long position);

/* Takes away what was sent; false: it does not wait. */
bool interrupts_queue_take(VALUE sent);

/*
 * The mask of the Thread.handle_interrupt that the running thread is in; Qnil: there is none, or its place is not known. Threads
 * share it which are made meanwhile. Emptied, it holds nothing back any more, in any of them: for one that is of rbprobe's own.
 */
VALUE interrupts_queue_innermost_mask(void);
/* Takes that out of the running thread's, where it has it from the thread that has made it. */
void interrupts_queue_drop_mask(VALUE mask);
void interrupts_queue_empty_mask(VALUE mask);

/*
 * If a kill waits: takes all that wait, the first one first, as an Array for interrupts_queue_send(); else Qnil. Other threads
 * may run before, not after.
 */
VALUE interrupts_queue_take_kills(void);

/* Sends them again, in their order. In another thread than the receiver. */
void interrupts_queue_send(VALUE thread, VALUE taken);

#endif
