#ifndef RBPROBE_TRACER_FIND_H
#define RBPROBE_TRACER_FIND_H

#include "tracer/cli/tracer_file.h"

#include "proto/error.h"

/*
 * Where tracers are: a path (with a slash, or NAME.tracer in the working directory), $XDG_CONFIG_HOME/rbprobe/tracers, and the
 * directory of those that come with rbprobe.
 *
 * Their expressions run in the processes that are traced. So root, who may attach to all, takes no file that anybody else may
 * write, or may put into its place.
 */

/* Finds and reads a tracer. 0, or negative and err, which has the name that was meant by one that does not exist. */
int tracer_find(struct tracer_file *file, const char *name, struct error *err);

/*
 * The path of each tracer that a name stands for, those of the user before those that are installed, each directory by name.
 * What is called as one before is left out. Stops where it returns non-zero, and returns that.
 */
int tracer_each(int (*each)(void *owner, const char *name, const char *path), void *owner);

#endif
