/*
 * Any file as a recording, up to what `rbprobe replay` shows of it: bytes that nobody has written so, or parts that the writer of
 * recordings has made of lies, some of them damaged afterwards or cut short.
 */

#define _GNU_SOURCE
#include "records.h"

/* How it reads a file to the end is nobody else's. */
#include "tracer/commands/cmd_replay.c"

#include "tracer/recording/recording_write.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DAMAGES_MAX 4

static void write_block(struct lies *lies, struct recording_writer *writer, uint32_t session)
{
	unsigned count = 1 + lies_byte(lies) % 16;
	msgpack_sbuffer records;

	msgpack_sbuffer_init(&records);
	while (count-- && lies->size)
		lies_add(lies, &records);
	recording_write_block(writer,
	                      (struct recording_block){.session = session,
	                                               .size = (uint32_t)records.size,
	                                               .events = lies_number(lies),
	                                               .from_ns = lies_number(lies),
	                                               .to_ns = lies_number(lies)},
	                      records.size ? records.data : "");
	msgpack_sbuffer_destroy(&records);
}

/* Most are the next in their order, or the last one. */
static uint32_t session_number(struct lies *lies, uint32_t usual)
{
	uint8_t byte = lies_byte(lies);

	return byte % 8 ? usual : (uint32_t)lies_number(lies);
}

static void write_sessions(struct lies *lies, struct recording_writer *writer)
{
	uint32_t count = 0;

	while (lies->size) {
		uint8_t what = lies_byte(lies) % 8;
		uint32_t last = session_number(lies, count ? count - 1 : 0);

		if (what == 1)
			return;
		if (what == 0 || !count)
			recording_write_session(writer, &(struct recording_session){.number = session_number(lies, count++),
			                                                            .pid = (uint32_t)lies_number(lies),
			                                                            .began_ns = lies_number(lies),
			                                                            .wall_offset_ns = (int64_t)lies_number(lies),
			                                                            .ruby_version = lies_text(lies),
			                                                            .extension_version = lies_text(lies),
			                                                            .command = lies_text(lies),
			                                                            .continued = lies_byte(lies) & 1,
			                                                            .open_calls = lies_number(lies)});
		else if (what == 2)
			recording_write_end(writer, &(struct recording_end){.session = last,
			                                                    .duration_ns = lies_number(lies),
			                                                    .reason = lies_text(lies),
			                                                    .gone = lies_byte(lies) & 1});
		else
			write_block(lies, writer, last);
	}
}

/* One after the other, as `cat` puts them. */
static void write_recordings(struct lies *lies, struct output *output)
{
	while (lies->size) {
		struct slice selectors[4];
		struct recording_head head = {.program = lies_text(lies),
		                              .host = lies_text(lies),
		                              .began_ns = lies_number(lies),
		                              .flags = (uint32_t)lies_number(lies),
		                              .marks = (uint32_t)lies_number(lies),
		                              .slow = lies_byte(lies) & 1,
		                              .several = lies_byte(lies) & 1,
		                              .selector_count = lies_byte(lies) % 5,
		                              .selectors = selectors};
		struct recording_writer *writer;

		for (uint32_t i = 0; i < head.selector_count; i++)
			selectors[i] = lies_text(lies);
		writer = recording_write_open(output);
		recording_write_head(writer, &head);
		write_sessions(lies, writer);
		recording_write_free(writer);
	}
}

/* Where, and what is there instead, is said in front of all else, so that the rest of the bytes means the same without it. */
static void damage(struct buffer *file, const uint8_t *damages, unsigned count)
{
	for (unsigned i = 0; i < count && file->size; i++, damages += 3) {
		size_t at = (damages[0] | (size_t)damages[1] << 8) % file->size;

		if (damages[2])
			file->bytes[at] ^= (char)damages[2];
		else
			file->size = at;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct sink_ops *const formats[] = {&sink_text, &sink_json, &sink_rbtrace};
	static int file = -1, shown_file = -1;
	struct lies lies = {data, size};
	uint8_t mode = lies_byte(&lies), more = lies_byte(&lies), damages[DAMAGES_MAX * 3];
	struct replay replay = {.invocation = {.output.fd = lies_file(&shown_file),
	                                       .options = {.quiet = true,
	                                                   .count = more & 4 ? 3 : 0,
	                                                   .format = formats[(more & 3) % 3],
	                                                   .style = {.durations = more & 8, .start_times = more & 16}}}};
	struct output written = {.fd = -1};
	struct recording_reader *reader;
	struct buffer shown = {0};
	char path[64];
	struct error err;

	for (unsigned i = 0; i < (mode >> 2) % (DAMAGES_MAX + 1u) * 3; i++)
		damages[i] = lies_byte(&lies);
	if (mode & 1)
		buffer_add(&written.buffer, (const char *)lies.bytes, lies.size);
	else
		write_recordings(&lies, &written);
	damage(&written.buffer, damages, (mode >> 2) % (DAMAGES_MAX + 1u));
	if (write(lies_file(&file), written.buffer.bytes, written.buffer.size) != (ssize_t)written.buffer.size)
		__builtin_trap();
	buffer_free(&written.buffer);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	if (recording_open(&reader, path, -1, &err) < 0)
		__builtin_trap();
	if (mode & 2)
		replay_info(reader, &replay.invocation.output, replay.invocation.options.format == &sink_json, &err);
	else
		replay_calls(&replay, reader);
	recording_close(reader);
	output_flush(&replay.invocation.output);
	lies_file_read(shown_file, &shown);
	if (replay.invocation.options.format == &sink_json)
		must_be_json(&shown);
	else
		must_be_harmless(&shown);
	buffer_free(&shown);
	buffer_free(&replay.invocation.output.buffer);
	return 0;
}
