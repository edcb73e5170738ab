#ifndef RBPROBE_TRACEE_BELL_H
#define RBPROBE_TRACEE_BELL_H

#include "proto/error.h"

#include <stdbool.h>

/* The bell: SIGURG makes the VM run our job at its next safe point, and wakes it for that. bell.c tells how. */

/*
 * Installs the handler; job is what runs. When the VM goes down and the signal is ignored already, at_end is called before its
 * threads are freed, and at_exit after that (no Ruby call is possible in either). Job context or Init, GVL held, once. 0, or
 * negative and err.
 */
int bell_install(void (*job)(void), void (*at_end)(void), void (*at_exit)(void), struct error *err);

/*
 * Gives SIGURG back as it was found, and takes it again where nobody has it. A process that was loaded into for one session is
 * left as it was: between the two the bell is rung by rbprobe_start(). False: a client has just rung and waits for its queue to
 * be looked at. Job; behind bell_install.
 */
bool bell_rest(void);
void bell_take(void);

/* Whether SIGURG comes to our handler; else the application has it. Async-signal-safe. */
bool bell_is_ours(void);

/* Rings this process's own bell; where the application has the signal, without it (wake.h). Any thread; not from a handler. */
void bell_ring_self(void);

/* Triggers the job without waking anybody: where Ruby is running anyway. Async-signal-safe. */
void bell_trigger(void);

/* Whether the caller is in a postponed job: while the VM runs one it begins no other, which is how finalizers come. */
bool bell_in_job(void);

#endif
