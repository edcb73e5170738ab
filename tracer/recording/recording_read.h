#ifndef RBPROBE_RECORDING_READ_H
#define RBPROBE_RECORDING_READ_H

#include "tracer/base/buffer.h"
#include "tracer/recording/recording.h"

#include "proto/error.h"

/* Reads a recording part by part. It may be anybody's: no length or number in it is believed. */

struct recording_reader;

/* One part; what it points to lives until the next is read. */
struct recording_item {
	enum recording_part part;
	union {
		struct recording_head head;
		struct recording_session session;
		struct recording_block block;
		struct recording_end end;
	};
};

/*
 * path "-": standard input. stop: a descriptor, such as that of signals, or -1; where it can be read, recording_next() returns
 * -EINTR. Returns 0, or negative with err; -EINTR: a signal came while it waited for a FIFO's writer.
 */
int recording_open(struct recording_reader **made, const char *path, int stop, struct error *err);
void recording_close(struct recording_reader *reader);

/*
 * The next part: 1; 0 after the last one; negative with err: -ENODATA where the file was cut short (all before it is whole),
 * -EBADMSG where it is no recording or is damaged, and others where it cannot be read. Parts of later versions are left out.
 */
int recording_next(struct recording_reader *reader, struct recording_item *item, struct error *err);

/* The item that was just read is the next one as well. */
void recording_put_back(struct recording_reader *reader, const struct recording_item *item);
/* The records of the block that recording_next() has just found, into an emptied buffer. 0, or negative as there. */
int recording_unpack(struct recording_reader *reader, struct buffer *records, struct error *err);

#endif
