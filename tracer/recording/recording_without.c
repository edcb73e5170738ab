/* Where there is no libzstd: record and replay refuse before. See recording_read.h and recording_write.h. */

#ifndef HAVE_LIBZSTD

#include "tracer/base/library.h"
#include "tracer/recording/recording_read.h"
#include "tracer/recording/recording_write.h"

#include <errno.h>

int recording_open(struct recording_reader **made, const char *path, int stop, struct error *err)
{
	(void)stop;
	*made = NULL;
	return library_require(LIBRARY_ZSTD, path, err);
}

void recording_close(struct recording_reader *reader)
{
	(void)reader;
}

int recording_next(struct recording_reader *reader, struct recording_item *item, struct error *err)
{
	(void)reader;
	(void)item;
	return library_require(LIBRARY_ZSTD, "replay", err);
}

void recording_put_back(struct recording_reader *reader, const struct recording_item *item)
{
	(void)reader;
	(void)item;
}

int recording_unpack(struct recording_reader *reader, struct buffer *records, struct error *err)
{
	(void)reader;
	(void)records;
	return library_require(LIBRARY_ZSTD, "replay", err);
}

struct recording_writer *recording_write_open(struct output *output)
{
	(void)output;
	return NULL;
}

void recording_write_head(struct recording_writer *writer, const struct recording_head *head)
{
	(void)writer;
	(void)head;
}

void recording_write_session(struct recording_writer *writer, const struct recording_session *session)
{
	(void)writer;
	(void)session;
}

char *recording_pack(struct recording_writer *writer, struct recording_block *block, const char *bytes)
{
	(void)writer;
	(void)block;
	(void)bytes;
	return NULL;
}

void recording_write_packed(struct recording_writer *writer, const struct recording_block *block, const char *frame)
{
	(void)writer;
	(void)block;
	(void)frame;
}

void recording_write_block(struct recording_writer *writer, struct recording_block block, const char *bytes)
{
	(void)writer;
	(void)block;
	(void)bytes;
}

void recording_write_end(struct recording_writer *writer, const struct recording_end *end)
{
	(void)writer;
	(void)end;
}

void recording_write_free(struct recording_writer *writer)
{
	(void)writer;
}

#endif
