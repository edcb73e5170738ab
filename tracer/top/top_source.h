#ifndef RBPROBE_TOP_SOURCE_H
#define RBPROBE_TOP_SOURCE_H

#include "tracer/stream/stream.h"
#include "tracer/top/top_pane.h"

#include <sys/types.h>

/*
 * Fills a pane with the lines of a file from a little above where a method is defined, as the process finds the file now, read
 * by a child that has no more rights than the process. method: NULL: not known. name: as it is shown.
 */
void top_source_show(struct top_pane *pane, pid_t pid, const struct method *method, struct slice name);

#endif
