/* Any bytes as a record: what a tracer decodes from its socket. */

#include "proto/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* As many as announced, all within the record. */
static void read_all(struct values values)
{
	uint32_t count = values.count;
	struct slice text;

	for (; values_next(&values, &text); count--)
		for (size_t i = 0; i < text.size; i++) {
			volatile char byte = text.bytes[i];

			(void)byte;
		}
	if (count != 0)
		__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	msgpack_zone zone;
	struct record record;
	struct event event;
	uint64_t numbers[3];
	struct error err;

	if (!msgpack_zone_init(&zone, 1024))
		return 0;
	if (record_decode(&record, bytes, size, &zone, &err) == 0 && record.kind == RECORD_EVENTS)
		while (event_next(&record.events, &event, &err) == 1) {
			read_all(event.values);
			read_all(event.outcome);
			values_take_numbers(&event.outcome, numbers, 1 + size % 3);
			read_all(event.outcome);
		}
	msgpack_zone_destroy(&zone);
	return 0;
}
