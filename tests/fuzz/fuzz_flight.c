/*
 * What a lying process sends to `rbprobe record --last`, with so little room that most of it goes again: whatever that was, what
 * is written is a whole recording, and can be shown without what came before.
 */

#define _GNU_SOURCE
#include "records.h"

#include "tracer/commands/replay_session.h"
#include "tracer/recording/recording_read.h"
#include "tracer/recording/sink_record.h"
#include "tracer/stream/calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PROCESS 0x7ffffffe /* none */

static bool greeted;

/* As a live one: nobody greets twice. */
static int on_hello(void *owner, const struct record_hello *hello, struct error *err)
{
	(void)owner;
	(void)hello;
	if (greeted)
		return error_set(err, -EPROTO, "again");
	greeted = true;
	return 0;
}

static const struct stream_handler handlers = {.hello = on_hello};

/* And announces some things by the small numbers that are used most, so that events are soon something. */
static void greet(struct stream *stream)
{
	static const uint8_t nonce[NONCE_SIZE];
	const struct record hello = {
		.kind = RECORD_HELLO,
		.hello = {.version = PROTOCOL_VERSION, .nonce = {(const char *)nonce, NONCE_SIZE}, .pid = 1}};
	msgpack_sbuffer buffer;
	struct batch batch;
	struct error err;

	greeted = false;
	msgpack_sbuffer_init(&buffer);
	record_encode(&buffer, &hello);
	for (uint32_t ref = 0; ref < 4; ref++) {
		record_encode(&buffer, &(struct record){.kind = RECORD_METHOD,
		                                        .method = {.ref = ref,
		                                                   .class_name = {"Order", 5},
		                                                   .separator = '#',
		                                                   .method_name = {"save", 4}}});
		record_encode(&buffer, &(struct record){.kind = RECORD_FIBER, .fiber = {.ref = ref, .root = true}});
	}
	batch_begin(&batch, &buffer, 1);
	batch_add(&batch, &(struct batch_event){.kind = EVENT_START, .method = 1, .fiber = 1, .time_ns = 1});
	batch_end(&batch);
	if (stream_feed(stream, buffer.data, buffer.size, &err) < 0)
		abort();
	msgpack_sbuffer_destroy(&buffer);
}

static void on_written(void *owner, const struct sink *sink, uint64_t span_ns, const char *reason)
{
	(void)sink;
	(void)span_ns;
	(void)reason;
	*(bool *)owner = true;
}

static void on_nothing(void *owner)
{
	(void)owner;
}

/* It may be refused for what it makes us remember, and for nothing else. */
static void must_be_shown(int file)
{
	struct output nowhere = {.fd = -1};
	struct options options = {.quiet = true, .format = &sink_json};
	struct replay_sessions sessions;
	struct recording_reader *reader;
	char path[64];
	struct error err;
	int status;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	if (recording_open(&reader, path, -1, &err) < 0)
		abort();
	replay_open(&sessions, path, &options, &nowhere);
	status = replay_all(&sessions, reader, &err);
	replay_close(&sessions);
	recording_close(reader);
	buffer_free(&nowhere.buffer);
	if (status < 0 && status != -ENOMEM && status != -ENOSPC) {
		fprintf(stderr, "%s\n", err.text);
		abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct selector any = {.method_pattern = {"*", 1}};
	static const struct triggers triggers = {
		.count = 3,
		.items = {{.text = "slow", .slow_ns = 1u << 30, .method = &any},
	                  {.text = "raised", .raised = {"E*", 2}},
	                  {.text = "raise", .raise = {"", 0}}},
	};
	static const struct sink_style style;
	static const struct recording_head head;
	static const uint64_t sizes[] = {1 << 20, 8000, 2000, 1};
	static int file = -1;
	struct lies lies = {data, size};
	uint8_t mode = lies_byte(&lies);
	bool written = false;
	const struct record_manner manner = {.files = 2,
	                                     .path = "/dev/null/none",
	                                     .flight = true,
	                                     .last = {.ns = mode & 16 ? 1 : 0, .size = sizes[mode & 3]},
	                                     .triggers = mode & 4 ? &triggers : &(const struct triggers){.count = 0},
	                                     .written = on_written,
	                                     .nothing = on_nothing,
	                                     .owner = &written};
	struct output output = {.fd = lies_file(&file)};
	struct sink *sink = sink_record_new(&output, &style, &head, &manner);
	struct stream *stream = lies_stream(sink, NULL, &handlers, NULL);
	struct error err;

	stream->pid = PROCESS;
	greet(stream);
	lies_tell(&lies, stream, &err);
	calls_finish(stream);
	if (mode & 8)
		sink->ops->asked(sink);
	else
		sink->ops->summary(sink, &(struct sink_summary){.pid = PROCESS, .reason = "it is over"});
	if (!written)
		sink_record_end(sink);
	if (written && !output.status)
		must_be_shown(file);
	lies_end(stream);
	sink_free(sink);
	buffer_free(&output.buffer);
	return 0;
}
