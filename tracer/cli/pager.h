#ifndef RBPROBE_PAGER_H
#define RBPROBE_PAGER_H

#include "tracer/base/buffer.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Long text on a terminal goes through a pager, as git's does: RBPROBE_PAGER, else PAGER, else less, which are commands of the
 * shell; an empty one, or `cat`, is none.
 */

/* --no-pager: there is none from now on. */
void pager_forbid(void);

/*
 * Shows text that is longer than the screen, and waits until its reader has seen enough. Keys that interrupt are the pager's
 * meanwhile. False: the text is short, standard output is no terminal that moves its cursor, or there is no pager; nothing was
 * shown.
 */
bool pager_show(const char *text, size_t size);

/* The same, or else onto standard output. False: it cannot be written. */
bool pager_print(const char *text, size_t size);

#endif
