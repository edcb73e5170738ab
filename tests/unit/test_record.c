/* Records: every kind comes back as it was, and nothing malformed gets through. EVENTS: test_events.c. */

#include "proto/fields.h"
#include "proto/marks.h"
#include "proto/record.h"
#include "unit.h"

#include <errno.h>
#include <stdlib.h>

static msgpack_zone *zone;
static msgpack_sbuffer buffer;

static int setup(void **state)
{
	(void)state;
	zone = msgpack_zone_new(4096);
	msgpack_sbuffer_init(&buffer);
	return zone ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	msgpack_zone_free(zone);
	msgpack_sbuffer_destroy(&buffer);
	return 0;
}

/* The record at offset of the buffer, its size taken from the prefix. */
static int decode_at(size_t offset, struct record *record, struct error *err)
{
	const uint8_t *prefix = (const uint8_t *)buffer.data + offset;
	size_t size = prefix[0] | prefix[1] << 8 | prefix[2] << 16 | (size_t)prefix[3] << 24;

	assert_true(offset + RECORD_PREFIX_SIZE + size <= buffer.size);
	return record_decode(record, prefix + RECORD_PREFIX_SIZE, size, zone, err);
}

static struct record passed(const struct record *record)
{
	struct record result;
	struct error err = {0};
	size_t offset = buffer.size;

	record_encode(&buffer, record);
	if (decode_at(offset, &result, &err) != 0)
		fail_msg("refused: %s", err.text);
	assert_int_equal(result.kind, record->kind);
	return result;
}

static void refused(const uint8_t *bytes, size_t size, int code, const char *part)
{
	struct record record;
	struct error err;

	assert_int_equal(record_decode(&record, bytes, size, zone, &err), code);
	assert_error(&err, code, part);
}

static void hello(void **state)
{
	struct record record = {.kind = RECORD_HELLO};
	struct record result;

	(void)state;
	record.hello = (struct record_hello){PROTOCOL_VERSION, {"0123456789abcdef", 16}, 77, SLICE("3.1.2"), SLICE("0.1.0"),
	                                     UINT64_MAX,       1700000000000000000};
	result = passed(&record);
	assert_int_equal(result.hello.version, PROTOCOL_VERSION);
	assert_slice(result.hello.nonce, "0123456789abcdef");
	assert_int_equal(result.hello.pid, 77);
	assert_slice(result.hello.ruby_version, "3.1.2");
	assert_slice(result.hello.extension_version, "0.1.0");
	assert_true(result.hello.monotonic_ns == UINT64_MAX);
	assert_true(result.hello.realtime_ns == 1700000000000000000);
}

static void reply(void **state)
{
	struct record record = {.kind = RECORD_REPLY};
	struct record result;

	(void)state;
	record.reply = (struct record_reply){3, EINVAL, SLICE("no"), 12};
	result = passed(&record);
	assert_int_equal(result.reply.command_id, 3);
	assert_int_equal(result.reply.code, EINVAL);
	assert_slice(result.reply.text, "no");
	assert_int_equal(result.reply.count, 12);
}

static void method(void **state)
{
	const struct slice labels[] = {SLICE("self"), SLICE("@total")};
	const struct slice locals[] = {SLICE("sum")};
	struct record record = {.kind = RECORD_METHOD};
	struct record result;

	(void)state;
	record.method = (struct record_method){
		9,          SLICE("Order"), '#', SLICE("save"), SLICE("/app/order.rb"), 12, ENGINE_TARGET, 2, labels,
		MARK_RAISE, {NULL, 0},      1,   locals,        METHOD_ALWAYS};
	result = passed(&record);
	assert_int_equal(result.method.ref, 9);
	assert_slice(result.method.class_name, "Order");
	assert_int_equal(result.method.separator, '#');
	assert_slice(result.method.method_name, "save");
	assert_slice(result.method.file, "/app/order.rb");
	assert_int_equal(result.method.line, 12);
	assert_int_equal(result.method.engine, ENGINE_TARGET);
	assert_int_equal(result.method.label_count, 2);
	assert_slice(result.method.labels[0], "self");
	assert_slice(result.method.labels[1], "@total");
	assert_int_equal(result.method.local_count, 1);
	assert_slice(result.method.locals[0], "sum");
	assert_int_equal(result.method.flags, METHOD_ALWAYS);
	assert_int_equal(result.method.mark, MARK_RAISE);
	assert_null(result.method.place.bytes);
	record.method.place = SLICE("order.rb:12");
	record.method.line = -9;
	result = passed(&record);
	assert_slice(result.method.place, "order.rb:12");
	assert_int_equal(result.method.line, -9);
}

static void a_method_that_is_not_written_in_ruby_has_no_file(void **state)
{
	struct record record = {.kind = RECORD_METHOD};
	struct record result;

	(void)state;
	record.method = (struct record_method){9, SLICE("String"), '#', SLICE("gsub"), {NULL, 0}, 0, ENGINE_HOOK, 0, NULL,
	                                       0, {NULL, 0},       0,   NULL,          0};
	result = passed(&record);
	assert_null(result.method.file.bytes);
	assert_int_equal(result.method.label_count, 0);
	assert_int_equal(result.method.local_count, 0);
}

static void fiber_lost_note_match_end(void **state)
{
	struct record record = {.kind = RECORD_FIBER};
	struct record result;

	(void)state;
	record.fiber = (struct record_fiber){2, UINT64_MAX, 1234, SLICE("worker 1"), false, SLICE("app.rb:12")};
	result = passed(&record);
	assert_int_equal(result.fiber.ref, 2);
	assert_true(result.fiber.thread_id == UINT64_MAX);
	assert_int_equal(result.fiber.native_id, 1234);
	assert_slice(result.fiber.thread_name, "worker 1");
	assert_false(result.fiber.root);
	assert_slice(result.fiber.created_at, "app.rb:12");

	record = (struct record){.kind = RECORD_LOST, .lost = {1, 2, 3}};
	result = passed(&record);
	assert_memory_equal(&result.lost, &record.lost, sizeof(result.lost));

	record = (struct record){.kind = RECORD_NOTE, .note = {NOTE_WARNING, SLICE("careful")}};
	result = passed(&record);
	assert_int_equal(result.note.level, NOTE_WARNING);
	assert_slice(result.note.text, "careful");

	record = (struct record){.kind = RECORD_MATCH,
	                         .match = {3, SLICE("Dir"), '.', SLICE("pwd"), {NULL, 0}, 0, ENGINE_NONE, SLICE("inlined")}};
	result = passed(&record);
	assert_int_equal(result.match.selector, 3);
	assert_slice(result.match.class_name, "Dir");
	assert_int_equal(result.match.engine, ENGINE_NONE);
	assert_slice(result.match.reason, "inlined");

	record = (struct record){.kind = RECORD_END, .end = {END_EXIT, SLICE("bye"), 100, 7, 1, 60, 5, 2, 8000, 3}};
	result = passed(&record);
	assert_int_equal(result.end.reason, END_EXIT);
	assert_slice(result.end.text, "bye");
	assert_int_equal(result.end.calls, 100);
	assert_int_equal(result.end.lost, 7);
	assert_int_equal(result.end.other_ractors, 1);
	assert_int_equal(result.end.left_out, 60);
	assert_int_equal(result.end.marks, 5);
	assert_int_equal(result.end.marks_lost, 2);
	assert_int_equal(result.end.counted, 8000);
	assert_int_equal(result.end.marks_left_out, 3);

	record = (struct record){.kind = RECORD_TOTALS,
	                         .totals = {MARK_GVL, 1234, SLICE("worker 1"), 9, 5, {1, 2, 3, 4, UINT64_MAX}}};
	result = passed(&record);
	assert_int_equal(result.totals.mark, MARK_GVL);
	assert_int_equal(result.totals.native_id, 1234);
	assert_slice(result.totals.thread_name, "worker 1");
	assert_int_equal(result.totals.elapsed_ns, 9);
	assert_int_equal(result.totals.count, 5);
	assert_true(result.totals.numbers[4] == UINT64_MAX);
	assert_true(result.totals.numbers[5] == 0);
}

static void output_data_done(void **state)
{
	struct record record = {.kind = RECORD_OUTPUT};
	struct record result;
	msgpack_sbuffer packed;
	msgpack_packer packer;

	(void)state;
	record.output.command_id = 7;
	record.output.stream = OUTPUT_STDERR;
	record.output.bytes = (struct slice){"a\0\xff", 3};
	result = passed(&record);
	assert_int_equal(result.output.command_id, 7);
	assert_int_equal(result.output.stream, OUTPUT_STDERR);
	assert_int_equal(result.output.bytes.size, 3);
	assert_memory_equal(result.output.bytes.bytes, "a\0\xff", 3);

	msgpack_sbuffer_init(&packed);
	msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
	msgpack_pack_map(&packer, 1);
	pack_text(&packer, "key", 3);
	msgpack_pack_int(&packer, -5);
	record = (struct record){.kind = RECORD_DATA, .data = {.command_id = 8, .packed = {packed.data, packed.size}}};
	result = passed(&record);
	assert_int_equal(result.data.command_id, 8);
	assert_int_equal(result.data.object->type, MSGPACK_OBJECT_MAP);
	assert_int_equal(result.data.object->via.map.ptr[0].val.via.i64, -5);
	msgpack_sbuffer_destroy(&packed);

	record = (struct record){.kind = RECORD_DONE, .done = {.command_id = 9, .code = 5, .text = SLICE("why")}};
	result = passed(&record);
	assert_int_equal(result.done.command_id, 9);
	assert_int_equal(result.done.code, 5);
	assert_slice(result.done.text, "why");
}

static void found(void **state)
{
	struct record record = {.kind = RECORD_FOUND, .found = {.selector = 9999}};

	(void)state;
	assert_int_equal(passed(&record).found.selector, 9999);
}

static void retried(void **state)
{
	struct record record = {.kind = RECORD_RETRIED, .retried = {.fiber = UINT32_MAX, .times = 3}};

	(void)state;
	assert_int_equal(passed(&record).retried.fiber, UINT32_MAX);
	assert_int_equal(passed(&record).retried.times, 3);
}

static void callers(void **state)
{
	struct record record = {
		.kind = RECORD_CALLER,
		.caller = {.ref = 7, .parent = 6, .label = SLICE("Shop#open"), .file = SLICE("a.rb"), .line = 12}};

	(void)state;
	assert_int_equal(passed(&record).caller.ref, 7);
	assert_int_equal(passed(&record).caller.parent, 6);
	assert_slice(passed(&record).caller.label, "Shop#open");
	assert_slice(passed(&record).caller.file, "a.rb");
	assert_int_equal(passed(&record).caller.line, 12);
	record.caller.line = -1;
	assert_int_equal(passed(&record).caller.line, -1);
}

static void bytes_that_are_no_text_survive(void **state)
{
	struct record record = {.kind = RECORD_NOTE, .note = {NOTE_INFO, {"\xff\0\xfe", 3}}};

	(void)state;
	assert_memory_equal(passed(&record).note.text.bytes, "\xff\0\xfe", 3);
}

static void debug_lines(void **state)
{
	struct record record = {.kind = RECORD_DEBUG, .debug = {.domain = 6, .text = SLICE("String#gsub: patch")}};

	(void)state;
	assert_int_equal(passed(&record).debug.domain, 6);
	assert_slice(passed(&record).debug.text, "String#gsub: patch");
	msgpack_sbuffer_clear(&buffer);
	record.debug.domain = 32;
	record_encode(&buffer, &record);
	refused((uint8_t *)buffer.data + RECORD_PREFIX_SIZE, buffer.size - RECORD_PREFIX_SIZE, -EPROTO, "is too large");
}

static void an_unknown_kind_is_no_error(void **state)
{
	static const uint8_t bytes[] = {0x92, 0xcc, 200, 0xc0};
	struct record record;
	struct error err;

	(void)state;
	assert_int_equal(record_decode(&record, bytes, sizeof(bytes), zone, &err), 0);
	assert_int_equal(record.kind, 200);
}

static void limits_of_records(void **state)
{
	static char text[EXPRESSION_SIZE_MAX + 1];
	struct record record = {.kind = RECORD_NOTE, .note = {NOTE_INFO, {text, TEXT_SIZE_MAX}}};

	(void)state;
	memset(text, 'x', sizeof(text));
	passed(&record);

	msgpack_sbuffer_clear(&buffer);
	record.note.text.size++;
	record_encode(&buffer, &record);
	refused((uint8_t *)buffer.data + RECORD_PREFIX_SIZE, buffer.size - RECORD_PREFIX_SIZE, -EPROTO, "is too long");

	msgpack_sbuffer_clear(&buffer);
	record = (struct record){.kind = RECORD_FIBER, .fiber = {1, 1, 1, {text, NAME_SIZE_MAX + 1}, true, {"", 0}}};
	record_encode(&buffer, &record);
	refused((uint8_t *)buffer.data + RECORD_PREFIX_SIZE, buffer.size - RECORD_PREFIX_SIZE, -EPROTO, "is too long");

	refused((const uint8_t *)text, FRAME_SIZE_MAX + 1, -EMSGSIZE, "the limit is 1048576");
}

static void too_many_labels_are_refused(void **state)
{
	struct slice labels[VALUES_MAX + 1];
	struct record record = {.kind = RECORD_METHOD};

	(void)state;
	for (size_t i = 0; i <= VALUES_MAX; i++)
		labels[i] = SLICE("self");
	record.method = (struct record_method){1,          SLICE("A"), '#', SLICE("b"), {NULL, 0}, 0,    ENGINE_HOOK,
	                                       VALUES_MAX, labels,     0,   {NULL, 0},  0,         NULL, 0};
	assert_int_equal(passed(&record).method.label_count, VALUES_MAX);
	msgpack_sbuffer_clear(&buffer);
	record.method.label_count++;
	record_encode(&buffer, &record);
	refused((uint8_t *)buffer.data + RECORD_PREFIX_SIZE, buffer.size - RECORD_PREFIX_SIZE, -EPROTO, "has too many elements");
}

static void deep_nesting_does_not_exhaust_the_stack(void **state)
{
	uint8_t *bytes = malloc(FRAME_SIZE_MAX);
	struct record record;
	struct error err;

	(void)state;
	assert_non_null(bytes);
	memset(bytes, 0x91, FRAME_SIZE_MAX);
	assert_int_equal(record_decode(&record, bytes, FRAME_SIZE_MAX, zone, &err), -EPROTO);
	free(bytes);
}

static void what_is_announced_is_not_allocated_before_it_is_there(void **state)
{
	static const uint8_t array[] = {0x91, 0xdd, 0x40, 0, 0, 0, 1}, map[] = {0xdf, 0x40, 0, 0, 0, 1},
			     small_map[] = {0x88, 1, 1, 1, 1, 1};
	static const uint8_t text[] = {0xdb, 0xff, 0xff, 0xff, 0xff, 1}, extension[] = {0xc9, 0, 0, 0, 1, 1};

	(void)state;
	refused(array, sizeof(array), -EPROTO, "not one msgpack value");
	refused(map, sizeof(map), -EPROTO, "not one msgpack value");
	refused(small_map, sizeof(small_map), -EPROTO, "not one msgpack value");
	refused(text, sizeof(text), -EPROTO, "not one msgpack value");
	refused(extension, sizeof(extension), -EPROTO, "not one msgpack value");
}

static void garbage_and_truncation_are_refused(void **state)
{
	const struct slice labels[] = {SLICE("self")};
	struct record record = {.kind = RECORD_METHOD};
	struct error err;
	uint32_t random = 1;

	(void)state;
	record.method = (struct record_method){
		9, SLICE("Order"), '#', SLICE("save"), SLICE("/o.rb"), 12, ENGINE_TARGET, 1, labels, 0, {NULL, 0}, 0, NULL, 0};
	record_encode(&buffer, &record);
	for (size_t size = 0; size < buffer.size - RECORD_PREFIX_SIZE; size++) {
		uint8_t *part = malloc(size ? size : 1);

		assert_non_null(part);
		memcpy(part, buffer.data + RECORD_PREFIX_SIZE, size);
		assert_int_equal(record_decode(&record, part, size, zone, &err), -EPROTO);
		free(part);
	}
	/* Any bytes at all: an answer, whichever, and no access outside (a sanitizer would tell). */
	for (int round = 0; round < 20000; round++) {
		uint8_t bytes[48];

		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)((random = random * 1664525 + 1013904223) >> 24);
		bytes[0] = 0x90 | (bytes[0] & 15);
		bytes[1] = (bytes[1] % 10);
		if (record_decode(&record, bytes, 1 + (random >> 8) % sizeof(bytes), zone, &err) == 0 &&
		    record.kind == RECORD_EVENTS) {
			struct event event;

			while (event_next(&record.events, &event, &err) == 1)
				values_get(event.values, 0);
		}
		msgpack_zone_clear(zone);
	}
}

static void names_of_numbers(void **state)
{
	(void)state;
	assert_string_equal(ending_name(ENDING_THROWN), "thrown");
	assert_string_equal(ending_name((enum ending)77), "unknown");
	assert_string_equal(engine_name(ENGINE_TARGET), "target");
	assert_string_equal(engine_name((enum engine_id)77), "none");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(hello),
		TEST(reply),
		TEST(method),
		TEST(a_method_that_is_not_written_in_ruby_has_no_file),
		TEST(fiber_lost_note_match_end),
		TEST(output_data_done),
		TEST(found),
		TEST(retried),
		TEST(callers),
		TEST(debug_lines),
		TEST(bytes_that_are_no_text_survive),
		TEST(an_unknown_kind_is_no_error),
		TEST(limits_of_records),
		TEST(too_many_labels_are_refused),
		TEST(deep_nesting_does_not_exhaust_the_stack),
		TEST(what_is_announced_is_not_allocated_before_it_is_there),
		TEST(garbage_and_truncation_are_refused),
		TEST(names_of_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
