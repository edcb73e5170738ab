/* Records made of a fuzzer's bytes. See records.h. */

#define _GNU_SOURCE
#include "records.h"

/* stream_decode() is not for others to call. */
#include "tracer/stream/decode.c"

#include <jansson.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

uint8_t lies_byte(struct lies *lies)
{
	if (!lies->size)
		return 0;
	lies->size--;
	return *lies->bytes++;
}

uint64_t lies_number(struct lies *lies)
{
	uint8_t first = lies_byte(lies);
	uint64_t value = 0;

	if (first < 0xf0)
		return first % 16;
	for (unsigned i = 0; i < (first & 7u) + 1; i++)
		value = value << 8 | lies_byte(lies);
	return value;
}

struct slice lies_text(struct lies *lies)
{
	size_t size = lies_number(lies) % 256;
	struct slice slice = {(const char *)lies->bytes, size < lies->size ? size : lies->size};

	lies->bytes += slice.size;
	lies->size -= slice.size;
	return slice;
}

static uint32_t request(struct lies *lies)
{
	uint8_t byte = lies_byte(lies);

	return byte % 8 ? FUZZ_REQUEST : byte / 8;
}

static void add_events(struct lies *lies, msgpack_sbuffer *buffer)
{
	struct batch batch;
	unsigned count = lies_byte(lies) % 8;

	batch_begin(&batch, buffer, lies_number(lies));
	while (count--) {
		uint8_t what = lies_byte(lies);
		struct batch_event event = {.kind = (enum event_kind)(what % 4),
		                            .ending = (enum ending)((what >> 5) % 5),
		                            .method = (uint32_t)lies_number(lies),
		                            .fiber = (uint32_t)lies_number(lies),
		                            .time_ns = lies_number(lies),
		                            .duration_ns = lies_number(lies)};

		if (what & 4)
			event.values = lies_text(lies);
		if (what & 8)
			event.outcome = lies_text(lies);
		batch_add(&batch, &event);
	}
	batch_end(&batch);
}

static void add_method(struct lies *lies, msgpack_sbuffer *buffer)
{
	struct slice labels[4], locals[4];
	struct record record = {.kind = RECORD_METHOD};
	struct record_method *method = &record.method;

	method->ref = (uint32_t)lies_number(lies);
	method->class_name = lies_text(lies);
	method->separator = (char)lies_byte(lies);
	method->method_name = lies_text(lies);
	method->file = lies_text(lies);
	method->line = (uint32_t)lies_number(lies);
	method->engine = (enum engine_id)(lies_byte(lies) % 5);
	method->label_count = lies_byte(lies) % 5;
	for (uint32_t i = 0; i < method->label_count; i++)
		labels[i] = lies_text(lies);
	method->labels = labels;
	method->mark = (uint32_t)lies_number(lies);
	if (lies_byte(lies) & 1)
		method->place = lies_text(lies);
	method->local_count = lies_byte(lies) % 5;
	for (uint32_t i = 0; i < method->local_count; i++)
		locals[i] = lies_text(lies);
	method->locals = locals;
	method->flags = lies_byte(lies) % 2;
	record_encode(buffer, &record);
}

static void pack_key(msgpack_packer *packer, const char *key)
{
	msgpack_pack_str(packer, strlen(key));
	msgpack_pack_str_body(packer, key, strlen(key));
}

/* What has been counted of one method. */
static void pack_figures(struct lies *lies, msgpack_packer *packer)
{
	static const char *const keys[] = {"method",   "calls",  "errors",  "total", "self",       "min",    "max",
	                                   "unplaced", "cpu_ns", "objects", "gc_ns", "unmeasured", "parent", "folded"};
	size_t count = 1 + lies_byte(lies) % (sizeof(keys) / sizeof(*keys));
	uint32_t pairs = lies_byte(lies) % 8;
	struct slice key = lies_text(lies);

	msgpack_pack_map(packer, count + 2);
	pack_key(packer, "key");
	msgpack_pack_str(packer, key.size);
	msgpack_pack_str_body(packer, key.bytes, key.size);
	for (size_t i = 0; i < count; i++) {
		pack_key(packer, keys[i]);
		msgpack_pack_uint64(packer, lies_number(lies));
	}
	pack_key(packer, "histogram");
	msgpack_pack_array(packer, pairs);
	for (uint32_t i = 0; i < pairs; i++)
		msgpack_pack_uint64(packer, lies_number(lies));
}

static void add_statistics(struct lies *lies, msgpack_sbuffer *buffer, struct record *record)
{
	static const char *const keys[] = {"rate", "elapsed_ns", "open", "left_out", "full", "folded"};
	uint32_t methods = lies_byte(lies) % 4, count = lies_byte(lies) % 7;
	msgpack_sbuffer packed;
	msgpack_packer packer;

	msgpack_sbuffer_init(&packed);
	msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
	msgpack_pack_map(&packer, 1 + count);
	pack_key(&packer, "methods");
	msgpack_pack_array(&packer, methods);
	for (uint32_t i = 0; i < methods; i++)
		pack_figures(lies, &packer);
	for (uint32_t i = 0; i < count; i++) {
		pack_key(&packer, keys[i]);
		msgpack_pack_uint64(&packer, lies_number(lies));
	}
	record->data.packed = (struct slice){packed.data, packed.size};
	record_encode(buffer, record);
	msgpack_sbuffer_destroy(&packed);
}

#define LIED_STATES 16

static void add_states(struct lies *lies, msgpack_sbuffer *buffer)
{
	struct thread_state states[LIED_STATES];
	struct record record = {.kind = RECORD_STATES, .states = {.lost = lies_byte(lies) & 1, .states = states}};

	record.states.count = lies_byte(lies) % (LIED_STATES + 1);
	for (uint32_t i = 0; i < record.states.count; i++)
		states[i] = (struct thread_state){.thread = lies_byte(lies) & 3,
		                                  .time_ns = lies_number(lies),
		                                  .native_id = lies_byte(lies) & 3,
		                                  .event = (enum state_event)(lies_byte(lies) & 15)};
	record_encode(buffer, &record);
}

/* Those that are more than a few numbers and texts have functions of their own. */
static void add_record(struct lies *lies, msgpack_sbuffer *buffer, enum record_kind kind)
{
	static const char nonce[NONCE_SIZE];
	struct record record = {.kind = kind};

	switch (kind) {
	case RECORD_HELLO:
		record.hello = (struct record_hello){.version = PROTOCOL_VERSION, .nonce = {nonce, NONCE_SIZE}, .pid = 1};
		record.hello.ruby_version = lies_text(lies);
		record.hello.extension_version = lies_text(lies);
		record.hello.monotonic_ns = lies_number(lies);
		record.hello.realtime_ns = lies_number(lies);
		break;
	case RECORD_REPLY:
		record.reply =
			(struct record_reply){.command_id = request(lies), .code = lies_byte(lies) % 4, .text = lies_text(lies)};
		break;
	case RECORD_METHOD:
		add_method(lies, buffer);
		return;
	case RECORD_FIBER:
		record.fiber.ref = (uint32_t)lies_number(lies);
		record.fiber.thread_id = lies_number(lies);
		record.fiber.native_id = (uint32_t)lies_number(lies);
		record.fiber.thread_name = lies_text(lies);
		record.fiber.root = lies_byte(lies) & 1;
		record.fiber.created_at = lies_text(lies);
		break;
	case RECORD_FIBER_GONE:
		record.fiber_gone.ref = (uint32_t)lies_number(lies);
		break;
	case RECORD_CALLER:
		record.caller = (struct record_caller){.ref = (uint32_t)lies_number(lies),
		                                       .parent = (uint32_t)lies_number(lies),
		                                       .label = lies_text(lies),
		                                       .file = lies_text(lies),
		                                       .line = (uint32_t)lies_number(lies)};
		break;
	case RECORD_RETRIED:
		record.retried = (struct record_retried){(uint32_t)lies_number(lies), (uint32_t)lies_number(lies)};
		break;
	case RECORD_EVENTS:
		add_events(lies, buffer);
		return;
	case RECORD_LOST:
		record.lost = (struct record_lost){lies_number(lies), lies_number(lies), lies_number(lies)};
		break;
	case RECORD_NOTE:
		record.note = (struct record_note){(enum note_level)(lies_byte(lies) & 1), lies_text(lies)};
		break;
	case RECORD_MATCH:
		record.match.selector = (uint32_t)lies_number(lies);
		record.match.class_name = lies_text(lies);
		record.match.method_name = lies_text(lies);
		record.match.reason = lies_text(lies);
		break;
	case RECORD_END:
		record.end.reason = (enum end_reason)(lies_byte(lies) % 3);
		record.end.text = lies_text(lies);
		record.end.calls = lies_number(lies);
		record.end.lost = lies_number(lies);
		record.end.other_ractors = lies_number(lies);
		record.end.left_out = lies_number(lies);
		record.end.marks = lies_number(lies);
		record.end.marks_lost = lies_number(lies);
		record.end.counted = lies_number(lies);
		record.end.marks_left_out = lies_number(lies);
		break;
	case RECORD_OUTPUT:
		record.output =
			(struct record_output){request(lies), (enum output_stream)(1 + lies_byte(lies) % 3), lies_text(lies)};
		break;
	case RECORD_DATA:
		record.data.command_id = request(lies);
		record.data.packed = lies_text(lies);
		if (!record.data.packed.size) {
			add_statistics(lies, buffer, &record);
			return;
		}
		break;
	case RECORD_DONE:
		record.done =
			(struct record_done){.command_id = request(lies), .code = lies_byte(lies) & 1, .text = lies_text(lies)};
		break;
	case RECORD_FOUND:
		record.found.selector = (uint32_t)lies_number(lies);
		break;
	case RECORD_TOTALS:
		record.totals.mark = (uint32_t)lies_number(lies);
		record.totals.native_id = (uint32_t)lies_number(lies);
		record.totals.thread_name = lies_text(lies);
		record.totals.elapsed_ns = lies_number(lies);
		record.totals.count = lies_byte(lies) % (TOTALS_MAX + 1);
		for (uint32_t i = 0; i < record.totals.count; i++)
			record.totals.numbers[i] = lies_number(lies);
		break;
	case RECORD_STATES:
		add_states(lies, buffer);
		return;
	case RECORD_DEBUG:
		record.debug = (struct record_debug){lies_byte(lies), lies_text(lies)};
		break;
	}
	record_encode(buffer, &record);
}

/* One of no kind that we know of, or none at all. */
static void add_raw(struct lies *lies, msgpack_sbuffer *buffer)
{
	struct slice bytes = lies_text(lies);
	uint8_t prefix[RECORD_PREFIX_SIZE] = {(uint8_t)bytes.size, (uint8_t)(bytes.size >> 8)};

	msgpack_sbuffer_write(buffer, (const char *)prefix, sizeof(prefix));
	msgpack_sbuffer_write(buffer, bytes.bytes, bytes.size);
}

uint8_t lies_add(struct lies *lies, msgpack_sbuffer *buffer)
{
	uint8_t what = lies_byte(lies);

	if (what % 32 && what % 32 <= RECORD_TOTALS)
		add_record(lies, buffer, (enum record_kind)(what % 32));
	else
		add_raw(lies, buffer);
	return what;
}

/* As much as there is room for, as from a socket. */
static int pass_on(struct stream *stream, const char *bytes, size_t size, struct error *err)
{
	if (stream->begin == stream->end)
		stream->begin = stream->end = 0;
	if (size > INPUT_SIZE - stream->end)
		return -EMSGSIZE;
	memcpy(stream->bytes + stream->end, bytes, size);
	stream->end += size;
	return stream_decode(stream, err);
}

/* The same for all inputs: making one takes longer than the rest. */
struct stream *lies_stream(struct sink *sink, struct call_limit *limit, const struct stream_handler *handler, void *owner)
{
	static struct stream *stream, fresh;

	if (!stream) {
		stream = stream_new(1, NULL, NULL, NULL, NULL);
		fresh = *stream;
	}
	*stream = fresh;
	stream->sink = sink;
	stream->limit = limit;
	stream->handler = handler;
	stream->owner = owner;
	return stream;
}

void lies_end(struct stream *stream)
{
	calls_free(stream);
	thread_states_free(stream);
}

int lies_tell(struct lies *lies, struct stream *stream, struct error *err)
{
	msgpack_sbuffer buffer;
	int status = 0;

	msgpack_sbuffer_init(&buffer);
	while (lies->size && status == 0) {
		/* Now and then in two pieces. */
		size_t first = lies_add(lies, &buffer) & 0x80 ? buffer.size / 2 : buffer.size;

		status = pass_on(stream, buffer.data, first, err);
		if (status == 0 && first < buffer.size)
			status = pass_on(stream, buffer.data + first, buffer.size - first, err);
		msgpack_sbuffer_clear(&buffer);
	}
	msgpack_sbuffer_destroy(&buffer);
	return status;
}

int lies_file(int *fd)
{
	if (*fd < 0)
		*fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (*fd < 0 || ftruncate(*fd, 0) != 0 || lseek(*fd, 0, SEEK_SET) != 0)
		__builtin_trap();
	return *fd;
}

void lies_file_read(int fd, struct buffer *to)
{
	ssize_t got;

	while ((got = pread(fd, buffer_reserve(to, 65536), 65536, (off_t)to->size)) > 0)
		to->size += (size_t)got;
}

void must_be_harmless(const struct buffer *text)
{
	struct buffer shown = {0};
	const char *at = text->size ? text->bytes : "", *end = at + text->size;

	while (at < end) {
		size_t size = 0;

		while (at + size < end && at[size] != '\n' && at[size] != '\t')
			size++;
		shown.size = 0;
		buffer_add_printable(&shown, at, size);
		/* What was made printable once is printable. */
		if (shown.size != size || (size && memcmp(shown.bytes, at, size) != 0))
			__builtin_trap();
		at += size + (at + size < end);
	}
	buffer_free(&shown);
}

void must_be_json(const struct buffer *lines)
{
	const char *at = lines->size ? lines->bytes : "", *end = at + lines->size;

	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		json_t *json = newline ? json_loadb(at, (size_t)(newline - at),
		                                    JSON_ALLOW_NUL | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL)
		                       : NULL;

		if (!json) {
			fprintf(stderr, "no JSON: %.*s\n", (int)(end - at), at);
			__builtin_trap();
		}
		json_decref(json);
		at = newline + 1;
	}
	must_be_harmless(lines);
}
