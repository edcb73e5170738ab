#ifndef RBPROBE_OUTPUT_ROTATE_H
#define RBPROBE_OUTPUT_ROTATE_H

#include "tracer/base/output.h"

/*
 * Begins the next file of an output, as logrotate does: `path`, which the output was opened with, is called path.1 then, and what
 * was path.1 is path.2; of the older ones so many are kept that there are `files` with the new one. Returns output->status.
 */
int output_rotate(struct output *output, const char *path, uint32_t files);

#endif
