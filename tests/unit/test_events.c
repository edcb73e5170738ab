/* Batches of events: what goes in comes out, dense, and nothing malformed gets through. */

#include "proto/record.h"
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* An array of two texts, "a" and "bc". */
static const struct slice two_values = {"\x92\xa1"
                                        "a\xa2"
                                        "bc",
                                        6};

static msgpack_sbuffer buffer;

static int setup(void **state)
{
	(void)state;
	msgpack_sbuffer_init(&buffer);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	msgpack_sbuffer_destroy(&buffer);
	return 0;
}

/*
 * What a batch of these events gives when it is decoded; a copy of exactly its size, so that a sanitizer sees what
 * reads beyond it.
 */
static void decode(struct record *record, uint8_t **copy)
{
	size_t size = buffer.size - RECORD_PREFIX_SIZE;
	struct error err = {0};
	msgpack_zone zone;

	*copy = malloc(size);
	memcpy(*copy, buffer.data + RECORD_PREFIX_SIZE, size);
	assert_true(msgpack_zone_init(&zone, 64));
	if (record_decode(record, *copy, size, &zone, &err) != 0)
		fail_msg("refused: %s", err.text);
	assert_int_equal(record->kind, RECORD_EVENTS);
	msgpack_zone_destroy(&zone);
}

static void assert_same(const struct event *event, const struct batch_event *expected)
{
	assert_int_equal(event->kind, expected->kind);
	assert_int_equal(event->ending, expected->ending);
	assert_true(event->method == expected->method);
	assert_true(event->fiber == expected->fiber);
	assert_true(event->time_ns == expected->time_ns);
	assert_true(event->duration_ns == expected->duration_ns);
	assert_int_equal(event->values.count, expected->values.size ? 2 : 0);
	assert_int_equal(event->outcome.count, expected->outcome.size ? 2 : 0);
}

static void goes_through(const struct batch_event *events, size_t count)
{
	struct batch batch;
	struct record record;
	struct event event;
	struct error err;
	uint8_t *copy;

	msgpack_sbuffer_clear(&buffer);
	batch_begin(&batch, &buffer, 1000);
	for (size_t i = 0; i < count; i++)
		assert_true(batch_add(&batch, &events[i]));
	batch_end(&batch);
	decode(&record, &copy);
	assert_int_equal(record.events.count, count);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(event_next(&record.events, &event, &err), 1);
		assert_same(&event, &events[i]);
	}
	assert_int_equal(event_next(&record.events, &event, &err), 0);
	assert_int_equal(event_next(&record.events, &event, &err), 0);
	free(copy);
}

static void events_come_back(void **state)
{
	static const struct batch_event events[] = {
		{.kind = EVENT_START, .method = 1, .fiber = 2, .time_ns = 1000},
		{.kind = EVENT_START, .method = UINT32_MAX, .fiber = 2, .time_ns = 1010},
		{.kind = EVENT_CALL, .method = UINT32_MAX, .fiber = 2, .time_ns = 1011, .duration_ns = 90},
		{.kind = EVENT_CALL,
	         .method = 0,
	         .fiber = UINT32_MAX,
	         .time_ns = 2000,
	         .duration_ns = 1,
	         .ending = ENDING_THROWN},
		{.kind = EVENT_END, .method = UINT32_MAX, .fiber = 2, .time_ns = 5000000000, .ending = ENDING_KILLED},
		{.kind = EVENT_END, .method = 1, .fiber = 2, .time_ns = 5000000001, .ending = ENDING_UNKNOWN},
	};

	(void)state;
	goes_through(events, sizeof(events) / sizeof(*events));
}

/* Of an outcome with these bytes: how many numbers follow its texts, and how many texts are left. */
static uint32_t numbers_of(const char *bytes, size_t size, uint32_t *texts, uint64_t numbers[3])
{
	struct batch batch;
	struct batch_event written = {.kind = EVENT_END, .method = 1, .fiber = 1, .time_ns = 1, .values = {bytes, size}};
	struct record record;
	struct event event;
	struct error err;
	uint32_t count;
	uint8_t *copy;

	msgpack_sbuffer_clear(&buffer);
	batch_begin(&batch, &buffer, 0);
	batch_add(&batch, &written);
	batch_end(&batch);
	decode(&record, &copy);
	assert_int_equal(event_next(&record.events, &event, &err), 1);
	count = values_take_numbers(&event.values, numbers, 3);
	*texts = event.values.count;
	if (*texts == 1)
		assert_slice(values_get(event.values, 0), "a");
	free(copy);
	return count;
}

static void numbers_stand_after_texts(void **state)
{
	uint64_t numbers[3];
	uint32_t texts;

	(void)state;
	assert_int_equal(numbers_of("\x93\xa1"
	                            "a\x05\xcd\x01\x02",
	                            7, &texts, numbers),
	                 2);
	assert_int_equal(texts, 1);
	assert_int_equal(numbers[0], 5);
	assert_int_equal(numbers[1], 0x102);
	assert_int_equal(numbers_of("\x92\xc0\x07", 3, &texts, numbers), 2);
	assert_int_equal(texts, 0);
	assert_true(numbers[0] == EVENT_NOT_KNOWN);
	assert_int_equal(numbers[1], 7);
}

/* A line's stack: a nil before it stands for a value that is not there. */
static void the_last_number_is_taken_by_itself(void **state)
{
	static const uint8_t bytes[] = "\xc0\xa1"
				       "a\x07";
	struct values values = {.bytes = bytes, .end = bytes + 4, .count = 3};
	uint64_t number = 0;

	(void)state;
	assert_true(values_take_last_number(&values, &number));
	assert_int_equal(number, 7);
	assert_int_equal(values.count, 2);
	assert_slice(values_get(values, 1), "a");
	assert_false(values_take_last_number(&values, &number));
	assert_int_equal(values.count, 2);
	values = (struct values){.bytes = bytes, .end = bytes + 1, .count = 1};
	assert_true(values_take_last_number(&values, &number));
	assert_true(number == EVENT_NOT_KNOWN);
	assert_false(values_take_last_number(&values, &number));
}

/* Takes the numbers, and the array before them, off the outcome that these bytes are; what the array has, joined. */
static const char *array_of(const char *bytes, size_t size, uint32_t *texts, uint32_t *numbers)
{
	static char joined[64];
	struct batch batch;
	struct batch_event written = {.kind = EVENT_CALL, .outcome = {bytes, size}};
	struct record record;
	struct event event;
	struct error err;
	uint64_t taken[3];
	struct values inner;
	struct slice text;
	uint8_t *copy;

	msgpack_sbuffer_clear(&buffer);
	batch_begin(&batch, &buffer, 0);
	batch_add(&batch, &written);
	batch_end(&batch);
	decode(&record, &copy);
	assert_int_equal(event_next(&record.events, &event, &err), 1);
	*numbers = values_take_numbers(&event.outcome, taken, 3);
	joined[0] = '\0';
	if (values_take_array(&event.outcome, &inner))
		while (values_next(&inner, &text))
			snprintf(joined + strlen(joined), sizeof(joined) - strlen(joined), "%.*s,",
			         text.bytes ? (int)text.size : 1, text.bytes ? text.bytes : "-");
	*texts = event.outcome.count;
	free(copy);
	return joined;
}

static void an_array_stands_between_texts_and_numbers(void **state)
{
	uint32_t texts, numbers;

	(void)state;
	assert_string_equal(array_of("\x94\xa1"
	                             "a\x93\xa1"
	                             "b\xc0\xa1"
	                             "c\x05\xc0",
	                             11, &texts, &numbers),
	                    "b,-,c,");
	assert_int_equal(texts, 1);
	assert_int_equal(numbers, 2);
	assert_string_equal(array_of("\x91\xdc\x00\x01\xa1z", 6, &texts, &numbers), "z,");
	assert_int_equal(texts, 0);
	assert_string_equal(array_of("\x91\xa1"
	                             "a",
	                             3, &texts, &numbers),
	                    "");
	assert_int_equal(texts, 1);
	assert_string_equal(array_of("\x92\xa1"
	                             "a\x90",
	                             4, &texts, &numbers),
	                    "");
	assert_int_equal(texts, 1);
}

static void numbers_are_as_many_as_were_asked_for(void **state)
{
	uint64_t numbers[3];
	uint32_t texts;

	(void)state;
	assert_int_equal(numbers_of("\x91\xa1"
	                            "a",
	                            3, &texts, numbers),
	                 0);
	assert_int_equal(texts, 1);
	assert_int_equal(numbers_of("\x90", 1, &texts, numbers), 0);
	/* four of them; and a text among them */
	assert_int_equal(numbers_of("\x94\x01\x02\x03\x04", 5, &texts, numbers), 0);
	assert_int_equal(numbers_of("\x92\x01\xa1"
	                            "b",
	                            4, &texts, numbers),
	                 0);
}

static void values_come_back(void **state)
{
	const struct batch_event events[] = {
		{.kind = EVENT_START, .method = 1, .fiber = 1, .time_ns = 1000, .values = two_values},
		{.kind = EVENT_CALL, .method = 2, .fiber = 1, .time_ns = 1001, .duration_ns = 1, .values = two_values},
		{.kind = EVENT_CALL, .method = 2, .fiber = 1, .time_ns = 1003, .duration_ns = 1, .outcome = two_values},
		{.kind = EVENT_CALL, .method = 2, .fiber = 1, .time_ns = 1005, .values = two_values, .outcome = two_values},
		{.kind = EVENT_END, .method = 1, .fiber = 1, .time_ns = 1009, .ending = ENDING_RAISED, .values = two_values},
		{.kind = EVENT_MARK, .method = 3, .fiber = 1, .time_ns = 1010, .values = two_values},
	};
	struct batch batch;
	struct record record;
	struct event event;
	struct error err;
	struct slice value;
	uint8_t *copy;

	(void)state;
	goes_through(events, sizeof(events) / sizeof(*events));
	msgpack_sbuffer_clear(&buffer);
	batch_begin(&batch, &buffer, 0);
	batch_add(&batch, &events[0]);
	batch_end(&batch);
	decode(&record, &copy);
	assert_int_equal(event_next(&record.events, &event, &err), 1);
	assert_slice(values_get(event.values, 0), "a");
	assert_slice(values_get(event.values, 1), "bc");
	assert_slice(values_get(event.values, 2), "");
	assert_true(values_next(&event.values, &value));
	assert_slice(value, "a");
	assert_true(values_next(&event.values, &value));
	assert_slice(value, "bc");
	assert_false(values_next(&event.values, &value));
	free(copy);
}

/* Around each size that a number can have. */
static void times_of_any_size_and_direction(void **state)
{
	struct batch_event events[2 * 64 + 1] = {0};
	size_t count = 0;

	(void)state;
	for (unsigned bits = 0; bits < 63; bits++) {
		events[count++] = (struct batch_event){.kind = EVENT_CALL,
		                                       .method = bits & 31 ? 1u << (bits & 31) : 0,
		                                       .fiber = (1u << (bits & 31)) - 1,
		                                       .time_ns = UINT64_C(1) << bits,
		                                       .duration_ns = (UINT64_C(1) << bits) - 1};
		events[count++] = (struct batch_event){.kind = EVENT_START, .time_ns = (UINT64_C(1) << bits) - 1};
	}
	events[count++] = (struct batch_event){.kind = EVENT_CALL, .time_ns = UINT64_MAX - 1, .duration_ns = 1};
	goes_through(events, count);
}

static void a_call_like_the_one_before_takes_five_bytes(void **state)
{
	struct batch batch;
	size_t before;

	(void)state;
	batch_begin(&batch, &buffer, 1000);
	batch_add(&batch,
	          &(struct batch_event){.kind = EVENT_CALL, .method = 70000, .fiber = 300, .time_ns = 1000, .duration_ns = 80});
	before = buffer.size;
	batch_add(&batch,
	          &(struct batch_event){.kind = EVENT_CALL, .method = 70000, .fiber = 300, .time_ns = 1300, .duration_ns = 200});
	assert_int_equal(buffer.size - before, 5);
}

static void a_full_batch_says_so_and_stays_whole(void **state)
{
	struct batch_event one = {.kind = EVENT_CALL, .values = two_values, .outcome = two_values};
	struct batch batch;
	struct record record;
	struct event event;
	struct error err;
	uint8_t *copy;
	uint32_t count = 0;

	(void)state;
	batch_begin(&batch, &buffer, 0);
	for (one.method = 0; one.method < BATCH_EVENTS_MAX; one.method++)
		assert_true(batch_add(&batch, &one));
	assert_false(batch_add(&batch, &one));
	batch_end(&batch);
	decode(&record, &copy);
	while (event_next(&record.events, &event, &err) == 1)
		assert_int_equal(event.method, count++);
	assert_int_equal(count, BATCH_EVENTS_MAX);
	free(copy);
}

static void a_batch_of_large_values_stays_below_the_frame_limit(void **state)
{
	char *values = malloc(VALUES_SIZE_MAX);
	struct batch_event one = {.kind = EVENT_START, .values = {values, VALUES_SIZE_MAX}};
	struct batch batch;
	struct record record;
	uint8_t *copy;
	uint32_t count = 0;

	(void)state;
	assert_non_null(values);
	memset(values, 'x', VALUES_SIZE_MAX);
	/* One text in an array of one: 0x91, str 16 and its length. */
	memcpy(values, "\x91\xda", 2);
	values[2] = (char)((VALUES_SIZE_MAX - 4) >> 8);
	values[3] = (char)((VALUES_SIZE_MAX - 4) & 0xff);
	batch_begin(&batch, &buffer, 0);
	while (batch_add(&batch, &one))
		count++;
	batch_end(&batch);
	assert_int_equal(count, FRAME_SIZE_MAX / VALUES_SIZE_MAX);
	decode(&record, &copy);
	assert_int_equal(record.events.count, count);
	free(copy);
	free(values);
}

/* The first event of a record: 4 fields, the last of which is an array of so many elements, which are these bytes. */
static int first_event(const char *bytes, size_t size, uint8_t fields, uint8_t elements, struct error *err)
{
	const uint8_t head[] = {(uint8_t)(0x90 | fields), RECORD_EVENTS, 1, 0, (uint8_t)(0x90 | elements)};
	uint8_t *record_bytes = malloc(sizeof(head) + size);
	struct record record;
	struct event event;
	msgpack_zone zone;
	int status;

	assert_non_null(record_bytes);
	memcpy(record_bytes, head, sizeof(head));
	memcpy(record_bytes + sizeof(head), bytes, size);
	assert_true(msgpack_zone_init(&zone, 64));
	status = record_decode(&record, record_bytes, sizeof(head) + size, &zone, err);
	if (status == 0) {
		status = event_next(&record.events, &event, err);
		while (status > 0 && record.events.elements_left)
			status = event_next(&record.events, &event, err);
		if (status > 0 && event_next(&record.events, &event, err) < 0)
			status = -EPROTO;
	}
	msgpack_zone_destroy(&zone);
	free(record_bytes);
	return status;
}

#define FIRST_EVENT(bytes, elements, err) first_event(bytes, sizeof(bytes) - 1, 4, elements, err)

static void malformed_events_are_refused(void **state)
{
	struct error err;

	(void)state;
	assert_int_equal(FIRST_EVENT("\0\1\1\1", 4, &err), 1);
	assert_int_equal(FIRST_EVENT("\2\1\1\1\1", 5, &err), 1);
	assert_int_equal(FIRST_EVENT("\3\1\1\1", 4, &err), 1);
	assert_int_equal(FIRST_EVENT("\0\1\1\1\x10\1", 6, &err), 1);
	assert_int_equal(FIRST_EVENT("\0\1\1\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 4, &err), 1);
	assert_int_equal(FIRST_EVENT("\0\1\1\xd0\xff", 4, &err), 1);
	assert_int_equal(FIRST_EVENT("\x0e\1\1\1\1\x91\xa1x\x92\xc0\xc4\1y", 7, &err), 1);

	assert_int_equal(FIRST_EVENT("\0\1\1", 3, &err), -EPROTO);
	assert_error(&err, -EPROTO, "not an integer");
	assert_int_equal(FIRST_EVENT("\0\1\xc0\1", 4, &err), -EPROTO);
	assert_error(&err, -EPROTO, "not an integer");
	assert_int_equal(FIRST_EVENT("\0\1\xff\1", 4, &err), -EPROTO); /* -1 */
	assert_int_equal(FIRST_EVENT("\0\1\xcf\0\0\0\1\0\0\0\0\1", 4, &err), -EPROTO);
	assert_error(&err, -EPROTO, "too large");
	assert_int_equal(FIRST_EVENT("\xcc\xa0\1\1\1", 4, &err), -EPROTO); /* no such ending */
	assert_error(&err, -EPROTO, "too large");
	assert_int_equal(FIRST_EVENT("\4\1\1\1", 4, &err), -EPROTO); /* announces values, has none */
	assert_error(&err, -EPROTO, "values are missing");
	assert_int_equal(FIRST_EVENT("\4\1\1\1\1", 5, &err), -EPROTO); /* values that are no array */
	assert_int_equal(FIRST_EVENT("\4\1\1\1\x92\xa1x", 5, &err), -EPROTO);
	assert_int_equal(FIRST_EVENT("\4\1\1\1\x91\xa9x", 5, &err), -EPROTO);
	assert_int_equal(FIRST_EVENT("\4\1\1\1\x91\xc1", 5, &err), -EPROTO);
	assert_int_equal(FIRST_EVENT("\x10\1", 2, &err), -EPROTO);
	assert_error(&err, -EPROTO, "refers to one before");
}

static void the_array_and_the_record_end_where_they_say(void **state)
{
	struct error err;

	(void)state;
	assert_int_equal(FIRST_EVENT("\0\1\1\1", 3, &err), -EPROTO);
	assert_error(&err, -EPROTO, "ends within an event");
	assert_int_equal(FIRST_EVENT("\0\1\1\1\1", 4, &err), -EPROTO);
	assert_error(&err, -EPROTO, "not one msgpack value");
	/* A field of a later version. */
	assert_int_equal(first_event("\0\1\1\1\x92\1\xa1x", 8, 5, 4, &err), 1);
	assert_int_equal(first_event("\0\1\1\1\x92\1\xa2x", 8, 5, 4, &err), -EPROTO);
	assert_int_equal(first_event("\0\1\1\1", 4, 5, 4, &err), -EPROTO);
}

static void deep_nesting_costs_no_stack(void **state)
{
	uint8_t *bytes = malloc(FRAME_SIZE_MAX);
	const uint8_t head[] = {0x94, RECORD_EVENTS, 1, 0, 0x95, 4, 1, 1, 1};
	struct record record;
	struct event event;
	struct error err;
	msgpack_zone zone;

	(void)state;
	assert_non_null(bytes);
	memset(bytes, 0x91, FRAME_SIZE_MAX);
	bytes[FRAME_SIZE_MAX - 1] = 1;
	memcpy(bytes, head, sizeof(head));
	assert_true(msgpack_zone_init(&zone, 64));
	assert_int_equal(record_decode(&record, bytes, FRAME_SIZE_MAX, &zone, &err), 0);
	assert_int_equal(event_next(&record.events, &event, &err), 1);
	assert_slice(values_get(event.values, 0), "");
	msgpack_zone_destroy(&zone);
	free(bytes);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(events_come_back),
		TEST(values_come_back),
		TEST(numbers_stand_after_texts),
		TEST(the_last_number_is_taken_by_itself),
		TEST(an_array_stands_between_texts_and_numbers),
		TEST(numbers_are_as_many_as_were_asked_for),
		TEST(times_of_any_size_and_direction),
		TEST(a_call_like_the_one_before_takes_five_bytes),
		TEST(a_full_batch_says_so_and_stays_whole),
		TEST(a_batch_of_large_values_stays_below_the_frame_limit),
		TEST(malformed_events_are_refused),
		TEST(the_array_and_the_record_end_where_they_say),
		TEST(deep_nesting_costs_no_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
