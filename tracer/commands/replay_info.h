#ifndef RBPROBE_REPLAY_INFO_H
#define RBPROBE_REPLAY_INFO_H

#include "tracer/base/output.h"
#include "tracer/recording/recording_read.h"

#include <stdbool.h>

/* What is in a recording: processes, times, sizes. Nothing is unpacked. 0, or negative with err, after all before was shown. */
int replay_info(struct recording_reader *reader, struct output *output, bool json, struct error *err);

#endif
