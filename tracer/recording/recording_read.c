/* The parts of a recording, read. See recording_read.h, and proto/RECORDING.md for the bytes. */

#ifdef HAVE_LIBZSTD

#define _GNU_SOURCE
#include "tracer/recording/recording_read.h"

#include "proto/limits.h"
#include "proto/shape.h"
#include "tracer/base/value.h"

#include <errno.h>
#include <inttypes.h>
#include <msgpack.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <zstd.h>

#define ZONE_SIZE (16u << 10)
#define GZIP_MAGIC 0x8b1fu
#define SKIPPABLE_MASK 0xFFFFFFF0u
#define SKIPPABLE_MAGIC 0x184D2A50u

struct recording_reader {
	FILE *file;
	int stop; /* -1, or readable where nothing more is wanted */
	const char *name;
	uint64_t position;
	bool begun;  /* a head was seen */
	bool failed; /* nothing more can be read */
	bool again;  /* the next item is this one: */
	struct recording_item item;
	struct recording_block block;
	uint32_t pending; /* bytes of the packed frame that comes next, and was not unpacked */
	struct buffer bytes;
	struct slice selectors[SELECTORS_MAX];
	msgpack_zone zone;
	ZSTD_DCtx *zstd;
};

int recording_open(struct recording_reader **made, const char *path, int stop, struct error *err)
{
	bool standard_input = strcmp(path, "-") == 0;
	FILE *file = standard_input ? stdin : fopen(path, "rbe");
	struct recording_reader *reader;
	struct stat status;

	if (file && fstat(fileno(file), &status) == 0 && S_ISDIR(status.st_mode)) {
		fclose(file);
		file = NULL;
		errno = EISDIR;
	}
	if (!file)
		return error_set(err, -errno, "cannot read %s: %s", path, strerror(errno));
	reader = memory_zeroed(sizeof(*reader));
	reader->file = file;
	reader->stop = stop;
	reader->name = standard_input ? "standard input" : path;
	reader->zstd = ZSTD_createDCtx();
	if (!reader->zstd || !msgpack_zone_init(&reader->zone, ZONE_SIZE))
		memory_resize(NULL, SIZE_MAX); /* says so and ends the program */
	*made = reader;
	return 0;
}

void recording_close(struct recording_reader *reader)
{
	if (!reader)
		return;
	if (reader->file != stdin)
		fclose(reader->file);
	ZSTD_freeDCtx(reader->zstd);
	msgpack_zone_destroy(&reader->zone);
	buffer_free(&reader->bytes);
	free(reader);
}

static int damaged(struct recording_reader *reader, struct error *err, const char *what)
{
	reader->failed = true;
	if (!reader->begun)
		return error_set(err, -EBADMSG, "%s is no recording of `rbprobe record`: %s", reader->name, what);
	return error_set(err, -EBADMSG, "%s is damaged at byte %" PRIu64 " (%s); what comes after that cannot be read",
	                 reader->name, reader->position, what);
}

/* It may be whole: only this rbprobe cannot say what it means. */
static int too_new(struct recording_reader *reader, const struct recording_head *head, struct error *err)
{
	reader->failed = true;
	return error_set(err, -EBADMSG,
	                 "%s has version %u of the format, and this rbprobe knows none after %u: use the rbprobe that wrote it "
	                 "(%.*s), or a later one",
	                 reader->name, head->version, RECORDING_VERSION, (int)(head->program.size < 40 ? head->program.size : 40),
	                 head->program.size ? head->program.bytes : "?");
}

static int cut_short(const struct recording_reader *reader, struct error *err)
{
	return error_set(err, -ENODATA,
	                 "%s was cut short, at byte %" PRIu64 ": whoever wrote it was killed, or the disk was full", reader->name,
	                 reader->position);
}

static int interrupted(const struct recording_reader *reader, struct error *err)
{
	return error_set(err, -EINTR, "interrupted: of %s, nothing after byte %" PRIu64 " was read", reader->name,
	                 reader->position);
}

static bool is_stopped(const struct recording_reader *reader)
{
	return reader->stop >= 0 && poll(&(struct pollfd){.fd = reader->stop, .events = POLLIN}, 1, 0) > 0;
}

/* 1, 0 where the file ends before the first byte, or negative. */
static int take(struct recording_reader *reader, size_t size, struct error *err)
{
	size_t got;

	reader->bytes.size = 0;
	got = fread(buffer_reserve(&reader->bytes, size), 1, size, reader->file);
	reader->bytes.size = got;
	if (got == size) {
		reader->position += size;
		return 1;
	}
	reader->failed = true;
	if (ferror(reader->file) && errno == EINTR)
		return interrupted(reader, err);
	if (ferror(reader->file))
		return error_set(err, -EIO, "cannot read %s: %s", reader->name, strerror(errno));
	if (!reader->begun)
		return damaged(reader, err,
		               got ? "it is too short"
		                   : "it is empty, as one of --last is until it is written, or where rbprobe was killed before");
	if (got == 0)
		return 0;
	return cut_short(reader, err);
}

static int take_whole(struct recording_reader *reader, size_t size, struct error *err)
{
	int status = size ? take(reader, size, err) : 1;

	if (status != 0)
		return status;
	return cut_short(reader, err);
}

/* Past bytes that nobody wants. */
static int pass(struct recording_reader *reader, uint64_t size, struct error *err)
{
	while (size) {
		size_t piece = size < RECORDING_PART_MAX ? (size_t)size : RECORDING_PART_MAX;
		int status = take_whole(reader, piece, err);

		if (status < 0)
			return status;
		size -= piece;
	}
	return 1;
}

static uint32_t le32_at(const struct buffer *bytes, size_t at)
{
	const unsigned char *from = (const unsigned char *)bytes->bytes + at;

	return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static uint32_t small(const msgpack_object *map, const char *key)
{
	uint64_t number = value_uint(value_get(map, key));

	return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

static void read_head(struct recording_reader *reader, const msgpack_object *map, struct recording_head *head)
{
	const msgpack_object *selectors = value_get(map, "selectors");
	uint32_t count = value_count(selectors);

	*head = (struct recording_head){.version = small(map, "version"),
	                                .program = value_text(value_get(map, "program")),
	                                .host = value_text(value_get(map, "host")),
	                                .began_ns = value_uint(value_get(map, "began_ns")),
	                                .flags = small(map, "flags"),
	                                .marks = small(map, "marks"),
	                                .slow = value_bool(value_get(map, "slow")),
	                                .several = value_bool(value_get(map, "several")),
	                                .rate_hz = small(map, "rate_hz"),
	                                .selector_count = count < SELECTORS_MAX ? count : SELECTORS_MAX,
	                                .selectors = reader->selectors};
	for (uint32_t i = 0; i < head->selector_count; i++)
		reader->selectors[i] = value_text(value_at(selectors, i));
}

static void read_session(const msgpack_object *map, struct recording_session *session)
{
	const msgpack_object *offset = value_get(map, "wall_offset_ns");

	*session = (struct recording_session){.number = small(map, "session"),
	                                      .pid = small(map, "pid"),
	                                      .main_thread = small(map, "main_thread"),
	                                      .began_ns = value_uint(value_get(map, "began_ns")),
	                                      .ruby_version = value_text(value_get(map, "ruby")),
	                                      .extension_version = value_text(value_get(map, "extension")),
	                                      .command = value_text(value_get(map, "command")),
	                                      .counts_lost = value_bool(value_get(map, "counts_lost")),
	                                      .continued = value_bool(value_get(map, "continued")),
	                                      .open_calls = value_uint(value_get(map, "open_calls"))};
	if (offset && (offset->type == MSGPACK_OBJECT_POSITIVE_INTEGER || offset->type == MSGPACK_OBJECT_NEGATIVE_INTEGER))
		session->wall_offset_ns = offset->via.i64;
}

static int read_block(struct recording_reader *reader, const msgpack_object *map, struct error *err)
{
	struct recording_block block = {.session = small(map, "session"),
	                                .size = small(map, "size"),
	                                .packed = small(map, "packed"),
	                                .events = value_uint(value_get(map, "events")),
	                                .from_ns = value_uint(value_get(map, "from_ns")),
	                                .to_ns = value_uint(value_get(map, "to_ns")),
	                                .lost = value_uint(value_get(map, "lost"))};

	if (block.size > RECORDING_BLOCK_MAX || block.packed > ZSTD_compressBound(RECORDING_BLOCK_MAX))
		return damaged(reader, err, "a block is too large");
	reader->block = block;
	reader->pending = block.packed;
	return 1;
}

static enum recording_part part_of(const msgpack_object *map)
{
	struct slice name = value_text(value_get(map, "rbprobe"));

	for (enum recording_part part = RECORDING_HEAD; part <= RECORDING_END; part++)
		if (slice_is(name, recording_part_names[part]))
			return part;
	return RECORDING_NOTHING;
}

/* What is in reader->bytes. */
static int read_part(struct recording_reader *reader, struct recording_item *item, struct error *err)
{
	size_t offset = 0;
	msgpack_object map;

	msgpack_zone_clear(&reader->zone);
	if (!shape_is_sound((const uint8_t *)reader->bytes.bytes, reader->bytes.size) ||
	    msgpack_unpack(reader->bytes.bytes, reader->bytes.size, &offset, &reader->zone, &map) != MSGPACK_UNPACK_SUCCESS)
		return damaged(reader, err, "a part is malformed");
	item->part = part_of(&map);
	if (!reader->begun && item->part != RECORDING_HEAD)
		return damaged(reader, err, "it does not begin as one");
	switch (item->part) {
	case RECORDING_HEAD:
		read_head(reader, &map, &item->head);
		reader->begun = true;
		if (item->head.version > RECORDING_VERSION)
			return too_new(reader, &item->head, err);
		return 1;
	case RECORDING_SESSION:
		read_session(&map, &item->session);
		if (item->session.pid > INT32_MAX)
			return damaged(reader, err, "no process has such a PID");
		return 1;
	case RECORDING_BLOCK:
		if (read_block(reader, &map, err) < 0)
			return err->code;
		item->block = reader->block;
		return 1;
	case RECORDING_END:
		item->end = (struct recording_end){.session = small(&map, "session"),
		                                   .duration_ns = value_uint(value_get(&map, "duration_ns")),
		                                   .reason = value_text(value_get(&map, "reason")),
		                                   .gone = value_bool(value_get(&map, "gone"))};
		return 1;
	case RECORDING_NOTHING:
		break;
	}
	return 1;
}

/* What a file is that does not begin as a recording does. */
static const char *what_else(uint32_t first)
{
	if ((first & 0xff) == '{')
		return "it is JSON; `rbprobe heap report` shows heap dumps";
	if (first == ZSTD_MAGICNUMBER || (first & 0xffff) == GZIP_MAGIC)
		return "it is compressed; `rbprobe heap report` shows heap dumps";
	return "it has other bytes";
}

/* A frame that is a part, or is passed over. */
static int next_frame(struct recording_reader *reader, struct recording_item *item, struct error *err)
{
	int status = take(reader, RECORDING_PREFIX_SIZE, err);
	uint32_t magic, size;

	item->part = RECORDING_NOTHING;
	if (status <= 0)
		return status;
	magic = le32_at(&reader->bytes, 0);
	size = le32_at(&reader->bytes, 4);
	if (magic == RECORDING_PART_MAGIC) {
		if (size > RECORDING_PART_MAX)
			return damaged(reader, err, "a part is too large");
		status = take_whole(reader, size, err);
		return status < 0 ? status : read_part(reader, item, err);
	}
	if ((magic & SKIPPABLE_MASK) != SKIPPABLE_MAGIC || !reader->begun)
		return damaged(reader, err, reader->begun ? "it has other bytes" : what_else(magic));
	return pass(reader, size, err);
}

int recording_next(struct recording_reader *reader, struct recording_item *item, struct error *err)
{
	int status = 1;

	if (reader->again) {
		reader->again = false;
		*item = reader->item;
		return 1;
	}
	if (reader->failed)
		return 0;
	if (reader->pending) {
		uint32_t pending = reader->pending;

		reader->pending = 0;
		status = pass(reader, pending, err);
	}
	item->part = RECORDING_NOTHING;
	/* A file that never ends may have nothing else. */
	while (status > 0 && item->part == RECORDING_NOTHING)
		status = is_stopped(reader) ? interrupted(reader, err) : next_frame(reader, item, err);
	return status;
}

void recording_put_back(struct recording_reader *reader, const struct recording_item *item)
{
	reader->item = *item;
	reader->again = true;
}

int recording_unpack(struct recording_reader *reader, struct buffer *records, struct error *err)
{
	uint32_t packed = reader->pending, size = reader->block.size;
	size_t got;
	int status;

	reader->pending = 0;
	records->size = 0;
	status = take_whole(reader, packed, err);
	if (status < 0)
		return status;
	got = ZSTD_decompressDCtx(reader->zstd, buffer_reserve(records, size), size, reader->bytes.bytes, packed);
	if (ZSTD_isError(got) || got != size)
		return damaged(reader, err, "a block is not what it was when it was written");
	records->size = size;
	return 0;
}

#endif
