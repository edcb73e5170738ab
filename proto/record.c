/* The records' encoding, both ways. See record.h. */

#include "record.h"

#include "fields.h"
#include "shape.h"

#include <errno.h>
#include <string.h>

/* An event is four numbers, and an array of values where it has some. The first number holds these bits. */
enum {
	EVENT_END = 1 << 0,
	EVENT_VALUES = 1 << 1,
	EVENT_ENDING_SHIFT = 2,
	EVENT_CODE_MAX = (ENDING_COUNT << EVENT_ENDING_SHIFT) - 1,
};

/* The batch's header is written when its events are known: these bytes are kept free for it. */
#define BATCH_HEADER_SIZE (RECORD_PREFIX_SIZE + 1 + 1 + 5 + 9 + 5)

static size_t record_begin(msgpack_sbuffer *buffer)
{
	static const char prefix[RECORD_PREFIX_SIZE];
	size_t start = buffer->size;

	msgpack_sbuffer_write(buffer, prefix, sizeof(prefix));
	return start;
}

static void prefix_store(char *to, size_t size)
{
	for (size_t i = 0; i < RECORD_PREFIX_SIZE; i++)
		to[i] = (char)(size >> (8 * i));
}

static void record_finish(msgpack_sbuffer *buffer, size_t start)
{
	prefix_store(buffer->data + start, buffer->size - start - RECORD_PREFIX_SIZE);
}

static void pack_slice(msgpack_packer *packer, struct slice text)
{
	pack_text(packer, text.bytes ? text.bytes : "", text.size);
}

void record_encode(msgpack_sbuffer *buffer, const struct record *record)
{
	msgpack_packer packer;
	size_t start = record_begin(buffer);

	msgpack_packer_init(&packer, buffer, msgpack_sbuffer_write);
	switch (record->kind) {
	case RECORD_HELLO:
		msgpack_pack_array(&packer, 8);
		msgpack_pack_uint8(&packer, RECORD_HELLO);
		msgpack_pack_uint32(&packer, record->hello.version);
		pack_slice(&packer, record->hello.nonce);
		msgpack_pack_uint32(&packer, record->hello.pid);
		pack_slice(&packer, record->hello.ruby_version);
		pack_slice(&packer, record->hello.extension_version);
		msgpack_pack_uint64(&packer, record->hello.monotonic_ns);
		msgpack_pack_uint64(&packer, record->hello.realtime_ns);
		break;
	case RECORD_REPLY:
		msgpack_pack_array(&packer, 5);
		msgpack_pack_uint8(&packer, RECORD_REPLY);
		msgpack_pack_uint32(&packer, record->reply.command_id);
		msgpack_pack_uint32(&packer, record->reply.code);
		pack_slice(&packer, record->reply.text);
		msgpack_pack_uint64(&packer, record->reply.count);
		break;
	case RECORD_METHOD:
		msgpack_pack_array(&packer, 9);
		msgpack_pack_uint8(&packer, RECORD_METHOD);
		msgpack_pack_uint32(&packer, record->method.ref);
		pack_slice(&packer, record->method.class_name);
		msgpack_pack_uint8(&packer, (uint8_t)record->method.separator);
		pack_slice(&packer, record->method.method_name);
		pack_text_or_nil(&packer, record->method.file.bytes, record->method.file.size);
		msgpack_pack_uint32(&packer, record->method.line);
		msgpack_pack_uint8(&packer, (uint8_t)record->method.engine);
		msgpack_pack_array(&packer, record->method.label_count);
		for (uint32_t i = 0; i < record->method.label_count; i++)
			pack_slice(&packer, record->method.labels[i]);
		break;
	case RECORD_FIBER:
		msgpack_pack_array(&packer, 7);
		msgpack_pack_uint8(&packer, RECORD_FIBER);
		msgpack_pack_uint32(&packer, record->fiber.ref);
		msgpack_pack_uint64(&packer, record->fiber.thread_id);
		msgpack_pack_uint32(&packer, record->fiber.native_id);
		pack_slice(&packer, record->fiber.thread_name);
		msgpack_pack_uint8(&packer, record->fiber.root);
		pack_slice(&packer, record->fiber.created_at);
		break;
	case RECORD_LOST:
		msgpack_pack_array(&packer, 4);
		msgpack_pack_uint8(&packer, RECORD_LOST);
		msgpack_pack_uint64(&packer, record->lost.calls);
		msgpack_pack_uint64(&packer, record->lost.from_ns);
		msgpack_pack_uint64(&packer, record->lost.to_ns);
		break;
	case RECORD_NOTE:
		msgpack_pack_array(&packer, 3);
		msgpack_pack_uint8(&packer, RECORD_NOTE);
		msgpack_pack_uint8(&packer, (uint8_t)record->note.level);
		pack_slice(&packer, record->note.text);
		break;
	case RECORD_MATCH:
		msgpack_pack_array(&packer, 9);
		msgpack_pack_uint8(&packer, RECORD_MATCH);
		msgpack_pack_uint32(&packer, record->match.selector);
		pack_slice(&packer, record->match.class_name);
		msgpack_pack_uint8(&packer, (uint8_t)record->match.separator);
		pack_slice(&packer, record->match.method_name);
		pack_text_or_nil(&packer, record->match.file.bytes, record->match.file.size);
		msgpack_pack_uint32(&packer, record->match.line);
		msgpack_pack_uint8(&packer, (uint8_t)record->match.engine);
		pack_slice(&packer, record->match.reason);
		break;
	case RECORD_END:
		msgpack_pack_array(&packer, 6);
		msgpack_pack_uint8(&packer, RECORD_END);
		msgpack_pack_uint8(&packer, (uint8_t)record->end.reason);
		pack_slice(&packer, record->end.text);
		msgpack_pack_uint64(&packer, record->end.calls);
		msgpack_pack_uint64(&packer, record->end.lost);
		msgpack_pack_uint64(&packer, record->end.other_ractors);
		break;
	case RECORD_FIBER_GONE:
		msgpack_pack_array(&packer, 2);
		msgpack_pack_uint8(&packer, RECORD_FIBER_GONE);
		msgpack_pack_uint32(&packer, record->fiber_gone.ref);
		break;
	case RECORD_OUTPUT:
		msgpack_pack_array(&packer, 4);
		msgpack_pack_uint8(&packer, RECORD_OUTPUT);
		msgpack_pack_uint32(&packer, record->output.command_id);
		msgpack_pack_uint8(&packer, (uint8_t)record->output.stream);
		msgpack_pack_bin(&packer, record->output.bytes.size);
		msgpack_pack_bin_body(&packer, record->output.bytes.bytes, record->output.bytes.size);
		break;
	case RECORD_DATA:
		msgpack_pack_array(&packer, 3);
		msgpack_pack_uint8(&packer, RECORD_DATA);
		msgpack_pack_uint32(&packer, record->data.command_id);
		msgpack_sbuffer_write(buffer, record->data.packed.bytes, record->data.packed.size);
		break;
	case RECORD_DONE:
		msgpack_pack_array(&packer, 4);
		msgpack_pack_uint8(&packer, RECORD_DONE);
		msgpack_pack_uint32(&packer, record->done.command_id);
		msgpack_pack_uint32(&packer, record->done.code);
		pack_slice(&packer, record->done.text);
		break;
	case RECORD_EVENTS:
		break;
	}
	record_finish(buffer, start);
}

static void method_decode(struct record_method *method, struct fields *fields, msgpack_zone *zone)
{
	const msgpack_object *elements;
	struct slice *labels;
	size_t count;

	method->ref = (uint32_t)fields_uint(fields, UINT32_MAX);
	method->class_name = fields_text(fields, NAME_SIZE_MAX);
	method->separator = (char)fields_uint(fields, 127);
	method->method_name = fields_text(fields, NAME_SIZE_MAX);
	method->file = fields_text_or_nil(fields, NAME_SIZE_MAX);
	method->line = (uint32_t)fields_uint(fields, UINT32_MAX);
	method->engine = (enum engine_id)fields_uint(fields, ENGINE_COUNT - 1);
	elements = fields_array(fields, VALUES_MAX, &count);
	labels = count ? msgpack_zone_malloc(zone, count * sizeof(*labels)) : NULL;
	if (count && !labels)
		fields_refuse(fields, "does not fit into memory");
	for (size_t i = 0; i < count && fields_status(fields) == 0; i++) {
		struct fields one = {.what = "label", .next = &elements[i], .left = 1, .err = fields->err};

		labels[i] = fields_text(&one, EXPRESSION_SIZE_MAX);
		fields->status = fields_status(&one);
	}
	method->labels = labels;
	method->label_count = (uint32_t)count;
}

static void events_decode(struct record_events *events, struct fields *fields)
{
	size_t count;

	events->count = (uint32_t)fields_uint(fields, BATCH_EVENTS_MAX);
	events->time_ns = fields_uint(fields, UINT64_MAX);
	events->next = fields_array(fields, 5u * BATCH_EVENTS_MAX, &count);
	events->stop = events->next + count;
}

int record_decode(struct record *record, const uint8_t *bytes, size_t size, msgpack_zone *zone, struct error *err)
{
	msgpack_object object;
	struct fields fields;
	size_t offset = 0;

	memset(record, 0, sizeof(*record));
	if (size > FRAME_SIZE_MAX)
		return error_set(err, -EMSGSIZE, "a record of %zu bytes; the limit is %u", size, FRAME_SIZE_MAX);
	if (!shape_is_sound(bytes, size) ||
	    msgpack_unpack((const char *)bytes, size, &offset, zone, &object) != MSGPACK_UNPACK_SUCCESS || offset != size)
		return error_set(err, -EPROTO, "malformed record: not one msgpack value");
	if (!fields_open(&fields, "record", &object, err))
		return fields_status(&fields);
	record->kind = (enum record_kind)fields_uint(&fields, UINT16_MAX);
	switch (record->kind) {
	case RECORD_HELLO:
		record->hello.version = (uint32_t)fields_uint(&fields, UINT32_MAX);
		record->hello.nonce = fields_text(&fields, NONCE_SIZE);
		record->hello.pid = (uint32_t)fields_uint(&fields, INT32_MAX);
		record->hello.ruby_version = fields_text(&fields, NAME_SIZE_MAX);
		record->hello.extension_version = fields_text(&fields, NAME_SIZE_MAX);
		record->hello.monotonic_ns = fields_uint(&fields, UINT64_MAX);
		record->hello.realtime_ns = fields_uint(&fields, UINT64_MAX);
		break;
	case RECORD_REPLY:
		record->reply.command_id = (uint32_t)fields_uint(&fields, UINT32_MAX);
		record->reply.code = (uint32_t)fields_uint(&fields, INT32_MAX);
		record->reply.text = fields_text(&fields, TEXT_SIZE_MAX);
		record->reply.count = fields_uint(&fields, UINT64_MAX);
		break;
	case RECORD_METHOD:
		method_decode(&record->method, &fields, zone);
		break;
	case RECORD_FIBER:
		record->fiber.ref = (uint32_t)fields_uint(&fields, UINT32_MAX);
		record->fiber.thread_id = fields_uint(&fields, UINT64_MAX);
		record->fiber.native_id = (uint32_t)fields_uint(&fields, UINT32_MAX);
		record->fiber.thread_name = fields_text(&fields, NAME_SIZE_MAX);
		record->fiber.root = fields_uint(&fields, 1) != 0;
		record->fiber.created_at = fields_text(&fields, NAME_SIZE_MAX);
		break;
	case RECORD_EVENTS:
		events_decode(&record->events, &fields);
		break;
	case RECORD_LOST:
		record->lost.calls = fields_uint(&fields, UINT64_MAX);
		record->lost.from_ns = fields_uint(&fields, UINT64_MAX);
		record->lost.to_ns = fields_uint(&fields, UINT64_MAX);
		break;
	case RECORD_NOTE:
		record->note.level = (enum note_level)fields_uint(&fields, NOTE_WARNING);
		record->note.text = fields_text(&fields, TEXT_SIZE_MAX);
		break;
	case RECORD_MATCH:
		record->match.selector = (uint32_t)fields_uint(&fields, SELECTORS_MAX);
		record->match.class_name = fields_text(&fields, NAME_SIZE_MAX);
		record->match.separator = (char)fields_uint(&fields, 127);
		record->match.method_name = fields_text(&fields, NAME_SIZE_MAX);
		record->match.file = fields_text_or_nil(&fields, NAME_SIZE_MAX);
		record->match.line = (uint32_t)fields_uint(&fields, UINT32_MAX);
		record->match.engine = (enum engine_id)fields_uint(&fields, ENGINE_COUNT - 1);
		record->match.reason = fields_text(&fields, TEXT_SIZE_MAX);
		break;
	case RECORD_END:
		record->end.reason = (enum end_reason)fields_uint(&fields, END_REFUSED);
		record->end.text = fields_text(&fields, TEXT_SIZE_MAX);
		record->end.calls = fields_uint(&fields, UINT64_MAX);
		record->end.lost = fields_uint(&fields, UINT64_MAX);
		record->end.other_ractors = fields_uint(&fields, UINT64_MAX);
		break;
	case RECORD_FIBER_GONE:
		record->fiber_gone.ref = (uint32_t)fields_uint(&fields, UINT32_MAX);
		break;
	case RECORD_OUTPUT:
		record->output.command_id = (uint32_t)fields_uint(&fields, UINT32_MAX);
		record->output.stream = (enum output_stream)fields_uint(&fields, OUTPUT_STREAM_COUNT - 1);
		record->output.bytes = fields_text(&fields, OUTPUT_SIZE_MAX);
		break;
	case RECORD_DATA:
		record->data.command_id = (uint32_t)fields_uint(&fields, UINT32_MAX);
		record->data.object = fields_value(&fields);
		break;
	case RECORD_DONE:
		record->done.command_id = (uint32_t)fields_uint(&fields, UINT32_MAX);
		record->done.code = (uint32_t)fields_uint(&fields, INT32_MAX);
		record->done.text = fields_text(&fields, TEXT_SIZE_MAX);
		break;
	}
	return fields_status(&fields);
}

int event_next(struct record_events *events, struct event *event, struct error *err)
{
	const msgpack_object *number = events->next;
	uint64_t code;

	if (number == events->stop)
		return 0;
	if (events->stop - number < 4)
		return error_set(err, -EPROTO, "malformed batch: it ends within an event");
	for (int i = 0; i < 4; i++)
		if (number[i].type != MSGPACK_OBJECT_POSITIVE_INTEGER &&
		    !(i == 3 && number[i].type == MSGPACK_OBJECT_NEGATIVE_INTEGER))
			return error_set(err, -EPROTO, "malformed batch: an event's field is not an integer");
	code = number[0].via.u64;
	if (code > EVENT_CODE_MAX || number[1].via.u64 > UINT32_MAX || number[2].via.u64 > UINT32_MAX)
		return error_set(err, -EPROTO, "malformed batch: an event's field is too large");
	events->time_ns += (uint64_t)number[3].via.i64;
	event->end = (code & EVENT_END) != 0;
	event->has_values = (code & EVENT_VALUES) != 0;
	event->ending = (enum ending)(code >> EVENT_ENDING_SHIFT);
	event->method = (uint32_t)number[1].via.u64;
	event->fiber = (uint32_t)number[2].via.u64;
	event->time_ns = events->time_ns;
	event->values = NULL;
	event->value_count = 0;
	events->next = number + 4;
	if (event->has_values) {
		const msgpack_object *values = events->next;

		if (values == events->stop || values->type != MSGPACK_OBJECT_ARRAY || values->via.array.size > VALUES_MAX)
			return error_set(err, -EPROTO, "malformed batch: an event's values are missing or too many");
		event->values = values->via.array.ptr;
		event->value_count = values->via.array.size;
		events->next++;
	}
	return 1;
}

struct slice event_value(const struct event *event, uint32_t index)
{
	const msgpack_object *value;

	if (index >= event->value_count)
		return (struct slice){"", 0};
	value = &event->values[index];
	if (value->type != MSGPACK_OBJECT_STR)
		return (struct slice){"", 0};
	return (struct slice){value->via.str.ptr, value->via.str.size};
}

void batch_begin(struct batch *batch, msgpack_sbuffer *buffer, uint64_t base_ns)
{
	static const char header[BATCH_HEADER_SIZE];

	batch->buffer = buffer;
	batch->start = buffer->size;
	batch->base_ns = base_ns;
	batch->time_ns = base_ns;
	batch->count = 0;
	batch->elements = 0;
	msgpack_sbuffer_write(buffer, header, sizeof(header));
}

bool batch_add(struct batch *batch, bool end, enum ending ending, uint32_t method, uint32_t fiber, uint64_t time_ns,
               const void *values, size_t value_size)
{
	msgpack_packer packer;

	if (batch->count == BATCH_EVENTS_MAX || batch->buffer->size - batch->start + value_size + 32 > FRAME_SIZE_MAX)
		return false;
	batch->elements += value_size ? 5 : 4;
	msgpack_packer_init(&packer, batch->buffer, msgpack_sbuffer_write);
	msgpack_pack_uint8(&packer, (uint8_t)((end ? EVENT_END : 0) | (value_size ? EVENT_VALUES : 0) |
	                                      ((unsigned)ending << EVENT_ENDING_SHIFT)));
	msgpack_pack_uint32(&packer, method);
	msgpack_pack_uint32(&packer, fiber);
	msgpack_pack_int64(&packer, (int64_t)(time_ns - batch->time_ns));
	if (value_size)
		msgpack_sbuffer_write(batch->buffer, values, value_size);
	batch->time_ns = time_ns;
	batch->count++;
	return true;
}

static void big_endian_store(char *to, uint64_t number, size_t size)
{
	for (size_t i = 0; i < size; i++)
		to[i] = (char)(number >> (8 * (size - 1 - i)));
}

/* The header has msgpack's longest forms throughout, so that its size is known before its numbers are. */
void batch_end(struct batch *batch)
{
	char *header = batch->buffer->data + batch->start;

	prefix_store(header, batch->buffer->size - batch->start - RECORD_PREFIX_SIZE);
	header += RECORD_PREFIX_SIZE;
	*header++ = (char)0x94; /* array of 4 */
	*header++ = RECORD_EVENTS;
	*header++ = (char)0xce; /* uint 32 */
	big_endian_store(header, batch->count, 4);
	header += 4;
	*header++ = (char)0xcf; /* uint 64 */
	big_endian_store(header, batch->base_ns, 8);
	header += 8;
	*header++ = (char)0xdd; /* array 32 */
	big_endian_store(header, batch->elements, 4);
}
