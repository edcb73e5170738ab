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

/* Whether any interrupt waits, held back or not; -1: the place is not known. */
int interrupts_queue_waits(void);

/*
 * The mask is as that of Thread.handle_interrupt, and is the running thread's innermost one until it is taken back. False: the
 * place is not known. Raises nothing.
 */
bool interrupts_queue_mask(VALUE mask);
void interrupts_queue_unmask(VALUE mask);

/*
 * The mask of the Thread.handle_interrupt that the running thread is in; Qnil: there is none, or its place is not known. Threads
 * share it which are made meanwhile. Emptied, it holds nothing back any more, in any of them: for one that is of rbprobe's own.
 */
VALUE interrupts_queue_innermost_mask(void);
void interrupts_queue_empty_mask(VALUE mask);

/*
 * If a kill waits: takes all that wait, the first one first, as an Array for interrupts_queue_send(); else Qnil. Other threads
 * may run before, not after.
 */
VALUE interrupts_queue_take_kills(void);

/* Sends them again, in their order. In another thread than the receiver. */
void interrupts_queue_send(VALUE thread, VALUE taken);

#endif
