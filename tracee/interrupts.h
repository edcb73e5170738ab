#ifndef RBPROBE_INTERRUPTS_H
#define RBPROBE_INTERRUPTS_H

#include <ruby.h>
#include <stdbool.h>

/*
 * Keeping Thread#raise, Timeout and Thread#kill away from our code. What another thread sends to the thread we happen to run on is meant for
 * the application: raised inside of our rb_protect it would be lost. Context: job and event, GVL held.
 */

void interrupts_init(void);

/*
 * Calls run with all such interrupts held back, except exceptions of the class `ours` (Qnil: none). When run is done the VM delivers what
 * has come meanwhile: so this raises nothing but that, provided that run raises nothing.
 */
VALUE interrupts_deferred(VALUE (*run)(VALUE), VALUE argument, VALUE ours);

/* Whether any is waiting to be delivered to the running thread. Lets none in. */
bool interrupts_are_pending(void);

/* The opposite, inside of that: calls run with all interrupts let in at once, also those held back so far. Raises what comes. */
VALUE interrupts_admitted(VALUE (*run)(VALUE), VALUE argument);

/*
 * Sends what rb_protect has just caught, and rb_errinfo() still names, once more to the running thread, by way of another thread: for the job, in
 * which the VM would drop it.
 */
void interrupts_send_again(void);

#endif
