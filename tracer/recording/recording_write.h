#ifndef RBPROBE_RECORDING_WRITE_H
#define RBPROBE_RECORDING_WRITE_H

#include "tracer/base/output.h"
#include "tracer/recording/recording.h"

/* Writes the parts of a recording. Each call ends with a whole frame in the output's buffer; flushing is the caller's. */

struct recording_writer; /* what packing needs */

/* The output stays the caller's. Ends the program without memory, as buffers do. */
struct recording_writer *recording_write_open(struct output *output);
/* A file begins with it. */
void recording_write_head(struct recording_writer *writer, const struct recording_head *head);
void recording_write_session(struct recording_writer *writer, const struct recording_session *session);
/* Packs block->size bytes of whole records, and says in block->packed how much that is. NULL: the output has the reason. */
char *recording_pack(struct recording_writer *writer, struct recording_block *block, const char *bytes);
void recording_write_packed(struct recording_writer *writer, const struct recording_block *block, const char *frame);
/* Both. */
void recording_write_block(struct recording_writer *writer, struct recording_block block, const char *bytes);
void recording_write_end(struct recording_writer *writer, const struct recording_end *end);
void recording_write_free(struct recording_writer *writer);

#endif
