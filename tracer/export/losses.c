/* What is missing, in words. See losses.h. */

#include "tracer/export/losses.h"

#include <inttypes.h>

struct loss loss_of_calls(const struct record_lost *lost)
{
	return (struct loss){"lost calls", "calls", lost->calls, lost->from_ns, lost->to_ns};
}

struct loss loss_of_states(const struct threads_gap *gap)
{
	return (struct loss){"lost thread states", "changes", gap->changes, gap->from_ns, gap->to_ns};
}

uint64_t loss_duration(const struct loss *loss)
{
	return loss->to_ns > loss->from_ns ? loss->to_ns - loss->from_ns : 0;
}

static void add_loss(struct buffer *to, uint64_t count, const char *what, const char *why)
{
	if (!count)
		return;
	if (to->size)
		buffer_add_text(to, "; ");
	buffer_add_format(to, "%" PRIu64 " %s%s %s lost%s, and %s not in here", count, what, count == 1 ? "" : "s",
	                  count == 1 ? "was" : "were", why, count == 1 ? "is" : "are");
}

bool losses_add(const struct profile *profile, struct buffer *to)
{
	uint64_t samples = 0, objects = 0;
	struct buffer said = {0};
	bool any;

	for (uint32_t i = 0; i < profile->process_count; i++) {
		const struct profile_summary *summary = &profile->processes[i].summary;

		samples += summary->no_room_ticks + summary->threads_left_out;
		objects += summary->lost;
	}
	add_loss(&said, profile->lost_calls, "call", " while recording");
	add_loss(&said, samples, "sample", "");
	add_loss(&said, objects, "object", "");
	any = said.size > 0;
	if (any)
		buffer_add(to, said.bytes, said.size);
	buffer_free(&said);
	return any;
}
