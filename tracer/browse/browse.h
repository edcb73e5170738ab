#ifndef RBPROBE_BROWSE_H
#define RBPROBE_BROWSE_H

#include "tracer/browse/browse_model.h"

/* `rbprobe report --tui`: a screen of a tree, until the user quits. */

/* about: the file, and what is in it. 0, or negative with err: there is no screen. */
int browse_show(struct browse *browse, const char *about, int signals, struct error *err);

#endif
