/* The records' encoding, both ways. See record.h. */

#include "proto/record.h"

#include "proto/debug_domains.h"
#include "proto/fields.h"
#include "proto/shape.h"

#include <errno.h>
#include <string.h>

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

static void pack_slices(msgpack_packer *packer, const struct slice *slices, uint32_t count)
{
	msgpack_pack_array(packer, count);
	for (uint32_t i = 0; i < count; i++)
		pack_slice(packer, slices[i]);
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
		msgpack_pack_array(&packer, 13);
		msgpack_pack_uint8(&packer, RECORD_METHOD);
		msgpack_pack_uint32(&packer, record->method.ref);
		pack_slice(&packer, record->method.class_name);
		msgpack_pack_uint8(&packer, (uint8_t)record->method.separator);
		pack_slice(&packer, record->method.method_name);
		pack_text_or_nil(&packer, record->method.file.bytes, record->method.file.size);
		msgpack_pack_uint32(&packer, (uint32_t)record->method.line);
		msgpack_pack_uint8(&packer, (uint8_t)record->method.engine);
		pack_slices(&packer, record->method.labels, record->method.label_count);
		msgpack_pack_uint32(&packer, record->method.mark);
		pack_text_or_nil(&packer, record->method.place.bytes, record->method.place.size);
		pack_slices(&packer, record->method.locals, record->method.local_count);
		msgpack_pack_uint32(&packer, record->method.flags);
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
		msgpack_pack_uint32(&packer, (uint32_t)record->match.line);
		msgpack_pack_uint8(&packer, (uint8_t)record->match.engine);
		pack_slice(&packer, record->match.reason);
		break;
	case RECORD_END:
		msgpack_pack_array(&packer, 11);
		msgpack_pack_uint8(&packer, RECORD_END);
		msgpack_pack_uint8(&packer, (uint8_t)record->end.reason);
		pack_slice(&packer, record->end.text);
		msgpack_pack_uint64(&packer, record->end.calls);
		msgpack_pack_uint64(&packer, record->end.lost);
		msgpack_pack_uint64(&packer, record->end.other_ractors);
		msgpack_pack_uint64(&packer, record->end.left_out);
		msgpack_pack_uint64(&packer, record->end.marks);
		msgpack_pack_uint64(&packer, record->end.marks_lost);
		msgpack_pack_uint64(&packer, record->end.counted);
		msgpack_pack_uint64(&packer, record->end.marks_left_out);
		break;
	case RECORD_TOTALS:
		msgpack_pack_array(&packer, 6);
		msgpack_pack_uint8(&packer, RECORD_TOTALS);
		msgpack_pack_uint32(&packer, record->totals.mark);
		msgpack_pack_uint32(&packer, record->totals.native_id);
		pack_slice(&packer, record->totals.thread_name);
		msgpack_pack_uint64(&packer, record->totals.elapsed_ns);
		msgpack_pack_array(&packer, record->totals.count);
		for (uint32_t i = 0; i < record->totals.count; i++)
			msgpack_pack_uint64(&packer, record->totals.numbers[i]);
		break;
	case RECORD_CALLER:
		msgpack_pack_array(&packer, 6);
		msgpack_pack_uint8(&packer, RECORD_CALLER);
		msgpack_pack_uint32(&packer, record->caller.ref);
		msgpack_pack_uint32(&packer, record->caller.parent);
		pack_slice(&packer, record->caller.label);
		pack_slice(&packer, record->caller.file);
		msgpack_pack_uint32(&packer, (uint32_t)record->caller.line);
		break;
	case RECORD_STATES:
		states_encode(&packer, &record->states);
		break;
	case RECORD_FIBER_GONE:
		msgpack_pack_array(&packer, 2);
		msgpack_pack_uint8(&packer, RECORD_FIBER_GONE);
		msgpack_pack_uint32(&packer, record->fiber_gone.ref);
		break;
	case RECORD_RETRIED:
		msgpack_pack_array(&packer, 3);
		msgpack_pack_uint8(&packer, RECORD_RETRIED);
		msgpack_pack_uint32(&packer, record->retried.fiber);
		msgpack_pack_uint32(&packer, record->retried.times);
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
	case RECORD_FOUND:
		msgpack_pack_array(&packer, 2);
		msgpack_pack_uint8(&packer, RECORD_FOUND);
		msgpack_pack_uint32(&packer, record->found.selector);
		break;
	case RECORD_DEBUG:
		msgpack_pack_array(&packer, 3);
		msgpack_pack_uint8(&packer, RECORD_DEBUG);
		msgpack_pack_uint32(&packer, record->debug.domain);
		pack_slice(&packer, record->debug.text);
		break;
	case RECORD_EVENTS:
		break;
	}
	record_finish(buffer, start);
}

static const struct slice *labels_decode(struct fields *fields, msgpack_zone *zone, uint32_t *label_count)
{
	const msgpack_object *elements;
	struct slice *labels;
	size_t count;

	elements = fields_array(fields, VALUES_MAX, &count);
	labels = count ? msgpack_zone_malloc(zone, count * sizeof(*labels)) : NULL;
	if (count && !labels)
		fields_refuse(fields, "does not fit into memory");
	for (size_t i = 0; i < count && fields_status(fields) == 0; i++) {
		struct fields one = {.what = "label", .next = &elements[i], .left = 1, .err = fields->err};

		labels[i] = fields_text(&one, EXPRESSION_SIZE_MAX);
		fields->status = fields_status(&one);
	}
	*label_count = (uint32_t)count;
	return labels;
}

static void method_decode(struct record_method *method, struct fields *fields, msgpack_zone *zone)
{
	method->ref = (uint32_t)fields_uint(fields, UINT32_MAX);
	method->class_name = fields_text(fields, NAME_SIZE_MAX);
	method->separator = (char)fields_uint(fields, 127);
	method->method_name = fields_text(fields, NAME_SIZE_MAX);
	method->file = fields_text_or_nil(fields, NAME_SIZE_MAX);
	method->line = (int32_t)fields_uint(fields, UINT32_MAX);
	method->engine = (enum engine_id)fields_uint(fields, ENGINE_COUNT - 1);
	method->labels = labels_decode(fields, zone, &method->label_count);
	method->mark = (uint32_t)fields_uint(fields, UINT32_MAX);
	method->place = fields_text_or_nil(fields, NAME_SIZE_MAX);
	method->locals = NULL;
	method->local_count = 0;
	if (fields->left)
		method->locals = labels_decode(fields, zone, &method->local_count);
	method->flags = fields->left ? (uint32_t)fields_uint(fields, UINT32_MAX) : 0;
}

static void totals_decode(struct record_totals *totals, struct fields *fields)
{
	const msgpack_object *elements;
	size_t count;

	memset(totals, 0, sizeof(*totals));
	totals->mark = (uint32_t)fields_uint(fields, UINT32_MAX);
	totals->native_id = (uint32_t)fields_uint(fields, UINT32_MAX);
	totals->thread_name = fields_text(fields, NAME_SIZE_MAX);
	totals->elapsed_ns = fields_uint(fields, UINT64_MAX);
	elements = fields_array(fields, TOTALS_MAX, &count);
	for (size_t i = 0; i < count && fields_status(fields) == 0; i++) {
		struct fields one = {.what = "total", .next = &elements[i], .left = 1, .err = fields->err};

		totals->numbers[i] = fields_uint(&one, UINT64_MAX);
		fields->status = fields_status(&one);
	}
	totals->count = (uint32_t)count;
}

int record_decode(struct record *record, const uint8_t *bytes, size_t size, msgpack_zone *zone, struct error *err)
{
	msgpack_object object;
	struct fields fields;
	struct cursor cursor = {bytes, bytes + size};
	size_t offset = 0;
	uint32_t count;
	uint64_t kind;

	if (size > FRAME_SIZE_MAX)
		return error_set(err, -EMSGSIZE, "a record of %zu bytes; the limit is %u", size, FRAME_SIZE_MAX);
	if (cursor_array(&cursor, &count) && count && cursor_uint(&cursor, &kind) && kind == RECORD_EVENTS) {
		record->kind = RECORD_EVENTS;
		return events_decode(&record->events, &cursor, count - 1, err);
	}
	memset(record, 0, sizeof(*record));
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
		break; /* above */
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
		record->match.line = (int32_t)fields_uint(&fields, UINT32_MAX);
		record->match.engine = (enum engine_id)fields_uint(&fields, ENGINE_COUNT - 1);
		record->match.reason = fields_text(&fields, TEXT_SIZE_MAX);
		break;
	case RECORD_END:
		record->end.reason = (enum end_reason)fields_uint(&fields, END_REFUSED);
		record->end.text = fields_text(&fields, TEXT_SIZE_MAX);
		record->end.calls = fields_uint(&fields, UINT64_MAX);
		record->end.lost = fields_uint(&fields, UINT64_MAX);
		record->end.other_ractors = fields_uint(&fields, UINT64_MAX);
		record->end.left_out = fields_uint(&fields, UINT64_MAX);
		record->end.marks = fields_uint(&fields, UINT64_MAX);
		record->end.marks_lost = fields_uint(&fields, UINT64_MAX);
		/* An extension that was loaded before these were there. */
		record->end.counted = fields.left ? fields_uint(&fields, UINT64_MAX) : 0;
		record->end.marks_left_out = fields.left ? fields_uint(&fields, UINT64_MAX) : 0;
		break;
	case RECORD_TOTALS:
		totals_decode(&record->totals, &fields);
		break;
	case RECORD_STATES:
		states_decode(&record->states, &fields, zone);
		break;
	case RECORD_CALLER:
		record->caller.ref = (uint32_t)fields_uint(&fields, UINT32_MAX);
		record->caller.parent = (uint32_t)fields_uint(&fields, UINT32_MAX);
		record->caller.label = fields_text(&fields, NAME_SIZE_MAX);
		record->caller.file = fields_text(&fields, NAME_SIZE_MAX);
		record->caller.line = (int32_t)fields_uint(&fields, UINT32_MAX);
		break;
	case RECORD_FIBER_GONE:
		record->fiber_gone.ref = (uint32_t)fields_uint(&fields, UINT32_MAX);
		break;
	case RECORD_RETRIED:
		record->retried.fiber = (uint32_t)fields_uint(&fields, UINT32_MAX);
		record->retried.times = (uint32_t)fields_uint(&fields, UINT32_MAX);
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
	case RECORD_FOUND:
		record->found.selector = (uint32_t)fields_uint(&fields, SELECTORS_MAX);
		break;
	case RECORD_DEBUG:
		record->debug.domain = (uint32_t)fields_uint(&fields, DEBUG_DOMAIN_NUMBER_MAX);
		record->debug.text = fields_text(&fields, TEXT_SIZE_MAX);
		break;
	}
	return fields_status(&fields);
}
