#ifndef RBPROBE_RBTRACE_TRACERS_H
#define RBPROBE_RBTRACE_TRACERS_H

#include "tracer/base/buffer.h"
#include "tracer/cli/rbtrace_line.h"

#include "proto/error.h"

/*
 * rbtrace's -c: adds the selectors of a file, one a line, or of a list that has this name. What they point into is added to
 * text, which stays where it is. 0, or a negative code with err.
 */
int rbtrace_tracers(const char *name, struct word_list *selectors, struct buffer *text, struct error *err);

#endif
