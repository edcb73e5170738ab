/* Calls that have ended, and may have been inside one that is told later. See ended.h. */

#include "tracer/recording/ended.h"

#include <string.h>

struct ended {
	uint64_t start_ns, duration_ns;
};

static void put_together(struct buffer *kept, size_t from)
{
	struct ended pair[2];
	size_t to = from;

	for (size_t i = 0; i < ENDED_MAX; i += 2, to += sizeof(*pair)) {
		memcpy(pair, kept->bytes + from + i * sizeof(*pair), sizeof(pair));
		pair[0].duration_ns += pair[1].duration_ns;
		memcpy(kept->bytes + to, pair, sizeof(*pair));
	}
	kept->size = to;
}

void ended_add(struct buffer *kept, size_t from, uint64_t start_ns, uint64_t duration_ns)
{
	const struct ended ended = {start_ns, duration_ns};

	if (kept->size - from == ENDED_MAX * sizeof(ended))
		put_together(kept, from);
	buffer_add(kept, (const char *)&ended, sizeof(ended));
}

uint64_t ended_take(struct buffer *kept, size_t from, uint64_t start_ns)
{
	uint64_t inside_ns = 0;
	struct ended ended;

	for (; kept->size > from; kept->size -= sizeof(ended)) {
		memcpy(&ended, kept->bytes + kept->size - sizeof(ended), sizeof(ended));
		if (ended.start_ns < start_ns)
			break;
		inside_ns += ended.duration_ns;
	}
	return inside_ns;
}
