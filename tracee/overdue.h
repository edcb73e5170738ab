#ifndef RBPROBE_OVERDUE_H
#define RBPROBE_OVERDUE_H

#include <stdbool.h>
#include <stdint.h>

/* What the writer thread asks of evaluation.c, request.c, copy.c and selection_modules.c; by itself, so that the writer needs no Ruby. */

/* Whether some evaluation has passed its time limit. Any thread. */
bool evaluation_overdue(void);

/* Whether some request has. Any thread. */
bool requests_overdue(void);

/* Whether a copy of the process has ended, and a job is to hear of it. Any thread. */
bool copies_ended(void);

/* Whether a job should look for what selectors have not matched yet. Any thread; once true, the next job does. */
bool selection_look_is_due(void);

/* When the job that is running now began, by clock_now_ns(); 0: none is. Any thread. */
uint64_t dispatch_job_began_ns(void);

#endif
