#ifndef RBPROBE_BROWSE_KEYS_H
#define RBPROBE_BROWSE_KEYS_H

#include "tracer/browse/browse_model.h"

/* What keys do in `rbprobe report --tui`. Knows ncurses' names of keys, and no terminal. */

/* Whether to go on. */
bool browse_press(struct browse *browse, int key);
/* What they do, a line each, up to a NULL. */
extern const char *const browse_help[];

#endif
