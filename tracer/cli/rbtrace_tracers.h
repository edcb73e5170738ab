#ifndef RBPROBE_RBTRACE_TRACERS_H
#define RBPROBE_RBTRACE_TRACERS_H

#include "tracer/cli/options.h"
#include "tracer/cli/tracer_file.h"

#include "proto/error.h"

/* rbtrace's -c: a file in the working directory, one of rbtrace's own lists, or a tracer of rbprobe's. */

/* 0, or negative with err. */
int rbtrace_tracer_find(struct tracer_file *file, const char *name, struct error *err);

/*
 * The options of `rbprobe trace` that the personality hands such a name on by, which --help does not show: all calls; and
 * beside --slow, all calls in any case.
 */
#define RBTRACE_LIST_OPTION "rbtrace-list"
#define RBTRACE_LIST_ALWAYS_OPTION "rbtrace-list-always"

extern const struct argp options_rbtrace_lists;

#endif
