#ifndef RBPROBE_TRACER_STUCK_H
#define RBPROBE_TRACER_STUCK_H

#include "tracer/process/target.h"

#include "proto/error.h"
#include "proto/stuck.h"

/*
 * Asking a process whose VM reaches no safe point: its signal handler answers with the frames of the thread that it
 * runs on. Only threads that are running are asked, since the signal could cut short what another one waits in, and the
 * main thread, which the bell has woken anyway.
 */

/*
 * Waits for the answer, at most timeout_ns. only: the thread that must answer, by its id as the process sees it; 0: any
 * that runs. 0 and *answer, which the caller frees; negative with err: why there is none (as the end of a sentence:
 * "its signal handler ...").
 */
int stuck_ask(const struct target *target, pid_t only, uint64_t timeout_ns, struct stuck_answer **answer, struct error *err);

#endif
