#ifndef RBPROBE_WAKE_H
#define RBPROBE_WAKE_H

#include <stdbool.h>

/* Waking the VM without a signal of our own, and native threads that do so. wake.c says how. */

/* Looks for Ruby's own signal handler. False: the application has replaced all of them. Any context but a signal handler. */
bool wake_find_handler(void);

/* Whether a signal handler is the VM's. Any context. */
bool wake_is_handler_of_vm(void (*handler)(int));

/* What asks the VM for the job: bell_trigger(), or the one for Init where that has not run. Any thread. */
void wake_trigger_by(void (*trigger)(void));
/* Calls it. Any native thread, signal handlers included. */
void wake_trigger(void);

/* Does what Ruby's own signal handler does, which wakes the main thread out of whatever it is in. Likewise. */
void wake_vm(void);

/*
 * Rings by the ringer (ringer.h). Where there is none, it triggers the job and wakes the VM by what Ruby's own signal handlers
 * do. Any thread, any context, signal handlers included. Where the application has replaced all of Ruby's handlers, the job runs
 * when the VM gets to it by itself.
 */
void wake_ring(void);

/* Calls `ring` from a thread of its own after so many seconds. Job context. */
void wake_ring_after(unsigned seconds, void (*ring)(void));

/*
 * A detached native thread, all signals blocked, on a stack that is set aside. False: it could not be made. Where one may
 * allocate.
 */
bool wake_thread(void *(*run)(void *), void *argument);

/* The VM goes down: from now on nothing of this touches it. */
void wake_stop(void);
/* Whether it has gone down. Any context. */
bool wake_is_over(void);

#endif
