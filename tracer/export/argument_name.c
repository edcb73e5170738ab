/* Names of arguments among the other things of a call. See argument_name.h. */

#include "tracer/export/argument_name.h"

/* Of calls, in the formats of this room. */
static const char *const taken[] = {"result", "exception", "message", "ended",    "retries", "locals",
                                    "cpu_ns", "objects",   "gc_ns",   "trace_id", "span_id"};

struct slice argument_name(struct slice label, struct buffer *room)
{
	for (size_t i = 0; i < sizeof(taken) / sizeof(*taken); i++) {
		if (label.size != strlen(taken[i]) || memcmp(label.bytes, taken[i], label.size) != 0)
			continue;
		room->size = 0;
		buffer_add_slice(room, label);
		buffer_add_text(room, " (argument)");
		return (struct slice){room->bytes, room->size};
	}
	return label;
}
