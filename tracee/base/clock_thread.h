#ifndef RBPROBE_CLOCK_THREAD_H
#define RBPROBE_CLOCK_THREAD_H

#include <stdatomic.h>
#include <stdint.h>

/* A native thread of ours that looks at the process at certain times, for microseconds, until it is told to stop. */

/* The thread that runs this is one: its name, and that it is to come at its time, also on a busy machine. */
void clock_thread_begin(const char *name);

/* Sleeps until then, by CLOCK_MONOTONIC, or until it is told to stop; may return earlier for nothing. stop: a futex, 0 so far. */
void clock_thread_sleep_until(_Atomic uint32_t *stop, uint64_t at_ns);

/* Tells it to stop. Any thread; does not wait. */
void clock_thread_stop(_Atomic uint32_t *stop);

/*
 * The CPU time of the thread that looks at Ruby's threads, for whoever tells the application's time from ours: the thread itself
 * says when it begins, after clock_thread_begin(), and when it ends. There is one at a time.
 */
void clock_thread_count_begin(void);
void clock_thread_count_end(void);
/* What it and those before it have taken in this process. Any thread. */
uint64_t clock_thread_counted_ns(void);
/* Async-signal-safe. */
void clock_thread_count_fork_child(void);

#endif
