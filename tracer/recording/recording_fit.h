#ifndef RBPROBE_RECORDING_FIT_H
#define RBPROBE_RECORDING_FIT_H

#include "tracer/base/output.h"

/*
 * Whether a recording may be written there: nobody else writes to the file meanwhile, and what it is appended to is a recording
 * that can be read to its end. path: of the output, which is open and has nothing in its buffer. 0, or negative with err.
 */
int recording_fit(const struct output *output, const char *path, bool append, struct error *err);

#endif
