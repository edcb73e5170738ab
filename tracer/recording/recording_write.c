/* The parts of a recording, written. See recording_write.h, and proto/RECORDING.md for the bytes. */

#ifdef HAVE_LIBZSTD

#include "tracer/recording/recording_write.h"

#include "proto/fields.h"

#include <errno.h>
#include <msgpack.h>
#include <stdlib.h>
#include <zstd.h>

#define LEVEL 1 /* as fast as records come; 3 makes them a tenth smaller */

const char *const recording_part_names[] = {[RECORDING_NOTHING] = "",
                                            [RECORDING_HEAD] = "recording",
                                            [RECORDING_SESSION] = "session",
                                            [RECORDING_BLOCK] = "block",
                                            [RECORDING_END] = "end"};

struct recording_writer {
	struct output *output;
	ZSTD_CCtx *zstd;
	msgpack_sbuffer part;
	msgpack_packer packer;
};

static void store_le32(char *to, uint32_t number)
{
	for (size_t i = 0; i < 4; i++)
		to[i] = (char)(number >> 8 * i);
}

/* --- A map, member by member */

static void text(struct recording_writer *writer, const char *key, struct slice value)
{
	pack_text(&writer->packer, key, strlen(key));
	pack_text(&writer->packer, value.bytes ? value.bytes : "", value.size);
}

static void number(struct recording_writer *writer, const char *key, uint64_t value)
{
	pack_text(&writer->packer, key, strlen(key));
	msgpack_pack_uint64(&writer->packer, value);
}

static void truth(struct recording_writer *writer, const char *key, bool value)
{
	pack_text(&writer->packer, key, strlen(key));
	(value ? msgpack_pack_true : msgpack_pack_false)(&writer->packer);
}

/* members: besides the one that names the part. */
static void part_begin(struct recording_writer *writer, enum recording_part part, uint32_t members)
{
	const char *name = recording_part_names[part];

	msgpack_sbuffer_clear(&writer->part);
	msgpack_pack_map(&writer->packer, members + 1);
	text(writer, "rbprobe", (struct slice){name, strlen(name)});
}

static void part_end(struct recording_writer *writer)
{
	struct buffer *to = &writer->output->buffer;
	char *prefix = buffer_reserve(to, RECORDING_PREFIX_SIZE);

	store_le32(prefix, RECORDING_PART_MAGIC);
	store_le32(prefix + 4, (uint32_t)writer->part.size);
	to->size += RECORDING_PREFIX_SIZE;
	buffer_add(to, writer->part.data, writer->part.size);
}

/* --- The parts */

void recording_write_head(struct recording_writer *writer, const struct recording_head *head)
{
	part_begin(writer, RECORDING_HEAD, head->rate_hz ? 10 : 9);
	number(writer, "version", RECORDING_VERSION);
	text(writer, "program", head->program);
	text(writer, "host", head->host);
	number(writer, "began_ns", head->began_ns);
	number(writer, "flags", head->flags);
	number(writer, "marks", head->marks);
	truth(writer, "slow", head->slow);
	truth(writer, "several", head->several);
	if (head->rate_hz)
		number(writer, "rate_hz", head->rate_hz);
	pack_text(&writer->packer, "selectors", strlen("selectors"));
	msgpack_pack_array(&writer->packer, head->selector_count);
	for (uint32_t i = 0; i < head->selector_count; i++)
		pack_text(&writer->packer, head->selectors[i].bytes, head->selectors[i].size);
	part_end(writer);
}

struct recording_writer *recording_write_open(struct output *output)
{
	struct recording_writer *writer = memory_zeroed(sizeof(*writer));

	writer->output = output;
	writer->zstd = ZSTD_createCCtx();
	if (!writer->zstd)
		memory_resize(NULL, SIZE_MAX); /* says so and ends the program */
	ZSTD_CCtx_setParameter(writer->zstd, ZSTD_c_compressionLevel, LEVEL);
	ZSTD_CCtx_setParameter(writer->zstd, ZSTD_c_checksumFlag, 1);
	msgpack_sbuffer_init(&writer->part);
	msgpack_packer_init(&writer->packer, &writer->part, msgpack_sbuffer_write);
	return writer;
}

void recording_write_session(struct recording_writer *writer, const struct recording_session *session)
{
	part_begin(writer, RECORDING_SESSION, 11);
	number(writer, "session", session->number);
	number(writer, "pid", session->pid);
	number(writer, "main_thread", session->main_thread);
	number(writer, "began_ns", session->began_ns);
	pack_text(&writer->packer, "wall_offset_ns", strlen("wall_offset_ns"));
	msgpack_pack_int64(&writer->packer, session->wall_offset_ns);
	text(writer, "ruby", session->ruby_version);
	text(writer, "extension", session->extension_version);
	text(writer, "command", session->command);
	truth(writer, "counts_lost", session->counts_lost);
	truth(writer, "continued", session->continued);
	number(writer, "open_calls", session->open_calls);
	part_end(writer);
}

char *recording_pack(struct recording_writer *writer, struct recording_block *block, const char *bytes)
{
	size_t bound = ZSTD_compressBound(block->size);
	char *frame = memory_resize(NULL, bound);
	size_t size = ZSTD_compress2(writer->zstd, frame, bound, bytes, block->size);

	if (ZSTD_isError(size)) {
		if (!writer->output->status)
			writer->output->status = error_set(&writer->output->error, -EIO, "zstd cannot pack the recording: %s",
			                                   ZSTD_getErrorName(size));
		free(frame);
		return NULL;
	}
	block->packed = (uint32_t)size;
	return memory_resize(frame, size);
}

void recording_write_packed(struct recording_writer *writer, const struct recording_block *block, const char *frame)
{
	part_begin(writer, RECORDING_BLOCK, 7);
	number(writer, "session", block->session);
	number(writer, "size", block->size);
	number(writer, "packed", block->packed);
	number(writer, "events", block->events);
	number(writer, "from_ns", block->from_ns);
	number(writer, "to_ns", block->to_ns);
	number(writer, "lost", block->lost);
	part_end(writer);
	buffer_add(&writer->output->buffer, frame, block->packed);
}

void recording_write_block(struct recording_writer *writer, struct recording_block block, const char *bytes)
{
	char *frame = recording_pack(writer, &block, bytes);

	if (frame)
		recording_write_packed(writer, &block, frame);
	free(frame);
}

void recording_write_end(struct recording_writer *writer, const struct recording_end *end)
{
	part_begin(writer, RECORDING_END, 4);
	number(writer, "session", end->session);
	number(writer, "duration_ns", end->duration_ns);
	text(writer, "reason", end->reason);
	truth(writer, "gone", end->gone);
	part_end(writer);
}

void recording_write_free(struct recording_writer *writer)
{
	ZSTD_freeCCtx(writer->zstd);
	msgpack_sbuffer_destroy(&writer->part);
	free(writer);
}

#endif
