#ifndef RBPROBE_RBTRACE_PS_H
#define RBPROBE_RBTRACE_PS_H

#include "tracer/cli/rbtrace_line.h"

/*
 * rbtrace's --ps: puts the PIDs of the Ruby processes whose command line meets the regular expression into the line's --pid.
 * Of several it asks which, on standard input, be that a terminal or not. 0, or a status after a line on stderr.
 */
int rbtrace_ps(struct rbtrace_line *line);

#endif
