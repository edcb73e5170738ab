#ifndef RBPROBE_PROFILE_FILE_H
#define RBPROBE_PROFILE_FILE_H

#include "tracer/base/output.h"
#include "tracer/process/target.h"
#include "tracer/profile/profile.h"
#include "tracer/recording/recording_read.h"

/* A profile in a file: a recording whose blocks have the answers of the PROFILE request as they came (proto/RECORDING.md). */

struct profile_writer;

struct profile_writer *profile_writer_new(struct output *output, uint32_t rate_hz);
void profile_writer_free(struct profile_writer *writer);
/* An answer of a process; its session begins with the first one. */
void profile_write(struct profile_writer *writer, const struct target *target, const msgpack_object *map);

/*
 * The profile in a recording whose head has just been read. 0, or negative and err; -ENODATA: the file was cut short, and what
 * came before is there.
 */
int profile_read(struct profile *profile, struct recording_reader *reader, struct error *err);

#endif
