#ifndef RBPROBE_JOB_DUE_H
#define RBPROBE_JOB_DUE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What the writer threads watch for the rest of the extension: whether a job is due, and how long the present one has been
 * running. Other rooms register what makes one due, so that the writer needs to know none of them.
 */

enum job_urgency {
	JOB_AT_ONCE,    /* the bell rings for it */
	JOB_EVENTUALLY, /* it is triggered, and runs when a thread next looks for interrupts */
	JOB_URGENCIES,
};

/* Registers a question that any thread may ask, and that takes no lock. At Init, before there is a writer; again does no harm. */
void job_due_register(enum job_urgency urgency, bool (*is_due)(void));

/* Whether any says yes. Any thread. */
bool job_is_due(enum job_urgency urgency);

/* The job notes when it begins, by clock_now_ns(), and 0 when it is over. Async-signal-safe. */
void job_note_began(uint64_t began_ns);
/* When the job that is running now began; 0: none is. Any thread. */
uint64_t job_began_ns(void);

#endif
