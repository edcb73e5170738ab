/* Any bytes as a record: what a tracer decodes from its socket. */

#include "proto/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	msgpack_zone zone;
	struct record record;
	struct event event;
	struct error err;

	if (!msgpack_zone_init(&zone, 1024))
		return 0;
	if (record_decode(&record, bytes, size, &zone, &err) == 0 && record.kind == RECORD_EVENTS)
		while (event_next(&record.events, &event, &err) == 1)
			for (uint32_t i = 0; i <= event.value_count; i++) {
				volatile size_t length = event_value(&event, i).size;

				(void)length;
			}
	msgpack_zone_destroy(&zone);
	return 0;
}
