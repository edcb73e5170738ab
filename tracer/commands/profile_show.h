#ifndef RBPROBE_PROFILE_SHOW_H
#define RBPROBE_PROFILE_SHOW_H

#include "tracer/profile/profile.h"
#include "tracer/recording/recording_read.h"

/* Profiles of files. */

/*
 * Looks whether the recording is a profile: 1 and, if made is not NULL, the profile; 0: it has calls, and is as it was. Negative
 * and err: neither; with a profile where that was cut short (-ENODATA) it is made all the same.
 */
int profile_take(struct profile **made, struct recording_reader *reader, struct error *err);

#endif
