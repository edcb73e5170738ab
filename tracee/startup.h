#ifndef RBPROBE_TRACEE_STARTUP_H
#define RBPROBE_TRACEE_STARTUP_H

#include <stdbool.h>

/*
 * Starting the extension in a process that has not required it, and waking the VM without a signal of our own. startup.c tells how. `rbprobe
 * load` calls the two exported functions in the stopped main thread; a plain require runs none of this but startup_begin and startup_done.
 */

/* Init: false where all has been initialised already, by the loader or by an earlier require. GVL held. */
bool startup_begin(void);
void startup_done(void);

/* Whether the extension was asked to stay ready (by a require, or rbprobe load), and not only loaded for a session. */
bool startup_stays(void);

/* Calls `job` from a thread of its own after so many seconds. Job context. */
void startup_ring_after(unsigned seconds, void (*ring)(void));

/* Asks the VM for the job, or for Init where that has not run. Any native thread, signal handlers included. */
void startup_trigger(void);

/* Does what Ruby's own signal handler does, which wakes the main thread out of whatever it is in. Likewise. */
void startup_wake(void);

/* Whether a signal handler is the VM's. Any context. */
bool startup_is_of_vm(void (*handler)(int));

/* Whether the VM has gone down. Any context. */
bool startup_is_over(void);

/* A detached native thread, all signals blocked, on a stack that is set aside. False: it could not be made. Where one may allocate. */
bool startup_thread(void *(*run)(void *), void *argument);

/*
 * Rings by the ringer (ringer.h). Where there is none, it triggers the job and wakes the VM by what Ruby's own signal handlers do. Any thread, any context,
 * signal handlers included. Where the application has replaced all of Ruby's handlers, the job runs when the VM gets to it by itself.
 */
void startup_ring(void);

/* The VM goes down: from now on nothing of this touches it. */
void startup_stop(void);

/*
 * Exported. Called in the stopped main thread, with or without the GVL: asks the VM to run Init where it has not, and takes SIGURG again where it has been
 * given back. make_queue: and opens the queue, as somebody wants to attach; else the extension is to stay ready. 0, or -errno.
 */
int rbprobe_start(int make_queue);

/* Exported. The bell, where SIGURG is the application's. Async-signal-safe. */
int rbprobe_ring(void);

#endif
