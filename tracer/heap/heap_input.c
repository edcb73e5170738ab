/* Where a dump comes from, and how it is compressed: seen from its first bytes, so that a pipe will do. See heap_input.h. */

#define _GNU_SOURCE
#include "tracer/heap/heap_input.h"

#include "tracer/base/buffer.h"
#include "tracer/base/library.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef HAVE_LIBZSTD
#include <zstd.h>
#endif

#define PACKED_SIZE (256u << 10)

struct format;

struct heap_input {
	const struct format *format;
	const char *name;
	int fd;
	bool ended;            /* read(2) has said so */
	bool between;          /* of compressed pieces: none has begun that has not ended */
	bool over;             /* what follows the last compressed piece is none */
	uint64_t trailing;     /* bytes of that */
	unsigned char *packed; /* what was read and is not yet unpacked */
	size_t start, end;
#ifdef HAVE_ZLIB
	z_stream inflate;
#endif
#ifdef HAVE_LIBZSTD
	ZSTD_DStream *zstd;
#endif
};

/* How one kind of compression is undone. */
struct format {
	const char *name;
	unsigned char magic[4];
	size_t magic_size; /* 0: everything else */
	enum library library;
	int (*open)(struct heap_input *input);
	/* Takes from packed[start..end], and returns how much of `to` it filled, or -EBADMSG. */
	ssize_t (*unpack)(struct heap_input *input, char *to, size_t size);
	void (*close)(struct heap_input *input);
};

static ssize_t plain_unpack(struct heap_input *input, char *to, size_t size)
{
	size_t take = input->end - input->start < size ? input->end - input->start : size;

	memcpy(to, input->packed + input->start, take);
	input->start += take;
	return (ssize_t)take;
}

#ifdef HAVE_ZLIB
static int gzip_open(struct heap_input *input)
{
	return inflateInit2(&input->inflate, 15 + 16) == Z_OK ? 0 : -ENOMEM;
}

/* Zeros, with which tapes and some file systems fill up the last block, are nothing. */
static void pass_over(struct heap_input *input)
{
	size_t at = input->start;

	input->over = true;
	while (at < input->end && !input->trailing && !input->packed[at])
		at++;
	input->trailing += input->end - at;
	input->start = input->end;
}

/* Several files one after the other are one; what is after the last is left out, as gzip does, and counted. */
static ssize_t gzip_unpack(struct heap_input *input, char *to, size_t size)
{
	z_stream *stream = &input->inflate;
	int status;

	if (input->between && stream->total_in) {
		if (input->over || input->packed[input->start] != input->format->magic[0]) {
			pass_over(input);
			return 0;
		}
		inflateReset(stream);
	}
	input->between = false;
	stream->next_in = input->packed + input->start;
	stream->avail_in = (uInt)(input->end - input->start);
	stream->next_out = (unsigned char *)to;
	stream->avail_out = (uInt)size;
	status = inflate(stream, Z_NO_FLUSH);
	input->start = input->end - stream->avail_in;
	if (status == Z_STREAM_END)
		input->between = true;
	else if (status != Z_OK && status != Z_BUF_ERROR)
		return size > stream->avail_out ? (ssize_t)(size - stream->avail_out) : -EBADMSG;
	return (ssize_t)(size - stream->avail_out);
}

static void gzip_close(struct heap_input *input)
{
	inflateEnd(&input->inflate);
}
#endif

#ifdef HAVE_LIBZSTD
static int zstd_open(struct heap_input *input)
{
	input->zstd = ZSTD_createDStream();
	return input->zstd ? 0 : -ENOMEM;
}

static ssize_t zstd_unpack(struct heap_input *input, char *to, size_t size)
{
	ZSTD_inBuffer from = {input->packed, input->end, input->start};
	ZSTD_outBuffer out = {to, size, 0};
	size_t status = ZSTD_decompressStream(input->zstd, &out, &from);

	input->start = from.pos;
	if (ZSTD_isError(status))
		return out.pos ? (ssize_t)out.pos : -EBADMSG;
	input->between = status == 0;
	return (ssize_t)out.pos;
}

static void zstd_close(struct heap_input *input)
{
	ZSTD_freeDStream(input->zstd);
}
#endif

static const struct format formats[] = {
	{.name = "gzip",
         .magic = {0x1f, 0x8b},
         .magic_size = 2,
         .library = LIBRARY_ZLIB,
#ifdef HAVE_ZLIB
         .open = gzip_open,
         .unpack = gzip_unpack,
         .close = gzip_close
#endif
        },
	{.name = "zstd",
         .magic = {0x28, 0xb5, 0x2f, 0xfd},
         .magic_size = 4,
         .library = LIBRARY_ZSTD,
#ifdef HAVE_LIBZSTD
         .open = zstd_open,
         .unpack = zstd_unpack,
         .close = zstd_close
#endif
        },
	{.name = "plain", .unpack = plain_unpack},
};

static ssize_t read_more(struct heap_input *input, char *to, size_t size, struct error *err)
{
	ssize_t got;

	do
		got = read(input->fd, to, size);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return error_set(err, -errno, "cannot read %s: %s", input->name, strerror(errno));
	input->ended = got == 0;
	return got;
}

/* Moves what is left to the front and adds to it. */
static int fill(struct heap_input *input, struct error *err)
{
	ssize_t got;

	memmove(input->packed, input->packed + input->start, input->end - input->start);
	input->end -= input->start;
	input->start = 0;
	got = read_more(input, (char *)input->packed + input->end, PACKED_SIZE - input->end, err);
	if (got > 0)
		input->end += (size_t)got;
	return got < 0 ? (int)got : 0;
}

/* A pipe may give its first bytes one by one. */
static int recognise(struct heap_input *input, struct error *err)
{
	/* RECORDING_PART_MAGIC (proto/RECORDING.md) */
	static const unsigned char recording[] = {0x52, 0x2a, 0x4d, 0x18};
	int status = 0;

	while (status == 0 && input->end < sizeof(input->format->magic) && !input->ended)
		status = fill(input, err);
	if (status < 0)
		return status;
	if (input->end >= sizeof(recording) && memcmp(input->packed, recording, sizeof(recording)) == 0)
		return error_set(err, -EINVAL, "%s is no heap dump: it is a recording, which `rbprobe report` shows",
		                 input->name);
	input->format = formats;
	while (input->end < input->format->magic_size ||
	       memcmp(input->packed, input->format->magic, input->format->magic_size) != 0)
		input->format++;
	input->between = true;
	if (input->format->magic_size && library_require(input->format->library, input->name, err) < 0)
		return err->code;
	if (input->format->open && input->format->open(input) < 0)
		return error_set(err, -ENOMEM, "cannot unpack %s: out of memory", input->name);
	return 0;
}

int heap_input_open(struct heap_input **opened, const char *path, struct error *err)
{
	struct heap_input *input = memory_zeroed(sizeof(*input));
	bool standard = strcmp(path, "-") == 0;
	int status = 0;

	*opened = NULL;
	input->name = standard ? "standard input" : path;
	input->packed = memory_zeroed(PACKED_SIZE);
	input->fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (input->fd < 0)
		status = error_set(err, -errno, "cannot open %s: %s", path, strerror(errno));
	if (status == 0)
		status = recognise(input, err);
	if (status < 0) {
		heap_input_close(input);
		return status;
	}
	*opened = input;
	return 0;
}

void heap_input_close(struct heap_input *input)
{
	if (!input)
		return;
	if (input->format && input->format->close)
		input->format->close(input);
	if (input->fd > STDIN_FILENO)
		close(input->fd);
	free(input->packed);
	free(input);
}

const char *heap_input_name(const struct heap_input *input)
{
	return input->name;
}

uint64_t heap_input_trailing(const struct heap_input *input)
{
	return input->trailing;
}

ssize_t heap_input_read(struct heap_input *input, char *to, size_t size, struct error *err)
{
	for (;;) {
		size_t before;
		ssize_t got;

		/* Nothing has to go through our buffer but what showed the format. */
		if (input->start == input->end && !input->format->open)
			return input->ended ? 0 : read_more(input, to, size, err);
		before = input->start;
		got = input->start < input->end || !input->between ? input->format->unpack(input, to, size) : 0;
		if (got > 0)
			return got;
		if (got == 0 && input->start > before && input->start < input->end)
			continue; /* a piece without content */
		if (got == 0 && input->ended && input->between && input->start == input->end)
			return 0;
		if (got < 0 || input->ended)
			return error_set(err, -EBADMSG, "the %s data of %s %s", input->format->name, input->name,
			                 got < 0 ? "are damaged" : "end too early");
		if (fill(input, err) < 0)
			return err->code;
	}
}
