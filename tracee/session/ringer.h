#ifndef RBPROBE_TRACEE_RINGER_H
#define RBPROBE_TRACEE_RINGER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The native thread that is rung. It is there while the process can be attached to by SIGURG, has all signals blocked, takes no
 * lock of the VM's, is no Ruby thread, and sleeps. ringer.c tells what it does.
 */

/*
 * Begins it, in a process that has none (a forked child). Job context, or Init, or where the loader calls: it allocates. Ends it:
 * any context; a moment later it is gone.
 */
void ringer_start(void);
void ringer_stop(void);

/* The same where there is no queue. False: a client has just rung, and there is one; the ringer stays. Job, GVL held. */
bool ringer_rest(void);

/* Begins it again where it is wanted and, the process having forked, is not there. Job context. */
void ringer_renew(void);

/* Waits, for a moment at most, until it no longer touches the VM; wake_is_over() already. */
void ringer_await_quiet(void);

/* Rings it from within the process. False: there is none. Async-signal-safe. */
bool ringer_ring(void);

/* Its number as a thread, for a timer; 0: there is none. Async-signal-safe. */
pid_t ringer_thread(void);

/*
 * Around the start of the extension, which where the stack is full takes long to fail: the VM is not asked for the next attempt
 * meanwhile, nor, where it has failed, for ten times as long as it took. The VM does not go on before it has done what it was
 * asked for. Job context.
 */
uint64_t ringer_attempt_begins(void);
void ringer_attempt_ends(uint64_t began_ns, bool done);

/*
 * Whether the main thread may be woken for a job that was asked for at since_ns. Not where another one has the GVL, as far as is
 * known (gvl_is_held()): that one runs the job, and the main thread would wait for the GVL as well, and be seen to wait.
 */
bool ringer_may_wake(uint64_t since_ns);
/* Whether the main Ractor is the only one: else another's GVL may be meant, and the main thread is woken sooner. Job context. */
void ringer_note_ractors(bool main_alone);

/*
 * For a job of its own that another part of the extension wants: calls trigger(), and where wakes is true and the main thread
 * waits in what goes on afterwards as if nothing had been, wakes that for it. Does nothing when the VM goes down. Returns whether
 * it has woken it. From native threads of ours.
 */
bool ringer_push(void (*trigger)(void), bool wakes);

/* A job begins: what was rung for until now, it does. */
void ringer_job_begins(void);

#endif
