#ifndef RBPROBE_OVERDUE_H
#define RBPROBE_OVERDUE_H

#include <stdbool.h>

/* What the writer thread asks of evaluation.c and request.c; by itself, so that the writer needs no Ruby. */

/* Whether some evaluation has passed its time limit. Any thread. */
bool evaluation_overdue(void);

/* Whether some request has. Any thread. */
bool requests_overdue(void);

#endif
