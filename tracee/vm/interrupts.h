#ifndef RBPROBE_INTERRUPTS_H
#define RBPROBE_INTERRUPTS_H

#include <ruby.h>
#include <stdbool.h>

/*
 * Keeping Thread#raise, Timeout and Thread#kill away from our code. What another thread sends to the thread we happen to run on
 * is meant for the application: raised inside of our rb_protect it would be lost. Context: job and event, GVL held.
 */

void interrupts_init(void);

/*
 * Calls run with all such interrupts held back, except exceptions of the class `ours` (Qnil: none). When run is done the VM
 * delivers what has come meanwhile: so this raises nothing but that, provided that run raises nothing.
 */
VALUE interrupts_deferred(VALUE (*run)(VALUE), VALUE argument, VALUE ours);

/*
 * Whether a job on the running thread had better come again, since interrupts wait to be delivered to that. Not for ever: what
 * the application itself holds back (Thread.handle_interrupt) waits on, and would keep off every job.
 */
bool interrupts_go_first(void);

/* The opposite, inside of that: calls run with all interrupts let in at once, also those held back so far. Raises what comes. */
VALUE interrupts_admitted(VALUE (*run)(VALUE), VALUE argument);

/*
 * interrupts_deferred() for a job, in which the VM would drop what it delivers: nothing is delivered (interrupts_mask.h). Where
 * that cannot be done, it is sent once more to the running thread, by way of another thread, and is pending when this returns.
 * run raises nothing. False: it was not called, as what should hold interrupts back failed. Raises nothing.
 */
bool interrupts_job(VALUE (*run)(VALUE), VALUE argument);

/*
 * After an rb_protect that failed: whether for want of stack or memory. That is no interrupt but a failure of ours, after which
 * the application may still have had enough; it and `$!` are taken away. Raises nothing.
 */
bool interrupts_lacked(void);

/* After an rb_protect that failed, for whatever reason: `$!` is taken away. Raises nothing. */
void interrupts_forget_failure(void);

/*
 * After an rb_protect that failed of an interrupt, or as interrupts_lacked(): `$!` is sent once more to the running thread, by
 * another, and taken away. wait: it is pending when this returns. For a job: a Timeout that came later would miss its block.
 * Raises nothing.
 */
void interrupts_send_again(bool wait);

/* NULL, or why none of this can be used: what it needs of Ruby's own is gone. */
const char *interrupts_missing(void);

#endif
