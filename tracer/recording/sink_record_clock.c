/* What a recorder does by the clock: blocks that are old enough, and the line on the terminal. See sink_record.h. */

#include "tracer/recording/sink_record_parts.h"

#include <inttypes.h>

static uint64_t block_due_ns(const struct sink_record *recorder, const struct session *session)
{
	return session->records.size ? session->since_ns + recorder->block_ns : UINT64_MAX;
}

uint64_t recorder_blocks_due_ns(const struct sink_record *recorder)
{
	uint64_t due_ns = UINT64_MAX;

	for (size_t i = 0; i < recorder->count; i++) {
		uint64_t one_ns = block_due_ns(recorder, &recorder->sessions[i]);

		due_ns = one_ns < due_ns ? one_ns : due_ns;
	}
	return due_ns;
}

uint64_t recorder_wake_ns(const struct sink *sink)
{
	const struct sink_record *recorder = (const struct sink_record *)sink;
	uint64_t progress_ns = progress_line_due_ns(&recorder->progress);
	uint64_t due_ns = recorder->flight.recent ? flight_due_ns(recorder) : recorder_blocks_due_ns(recorder);

	return progress_ns < due_ns ? progress_ns : due_ns;
}

/* One process may be silent for hours while others keep us busy: what it has sent is not to be lost with us. */
static void write_due_blocks(struct sink_record *recorder, uint64_t now_ns)
{
	for (size_t i = 0; i < recorder->count; i++)
		if (now_ns >= block_due_ns(recorder, &recorder->sessions[i]))
			recorder_write_block(recorder, &recorder->sessions[i]);
}

/* How far it is. */
static void show_progress(struct sink_record *recorder, uint64_t now_ns)
{
	struct buffer text = {0};

	buffer_add_format(&text, "recording: %.1f s, %" PRIu64 " events, ", (double)(now_ns - recorder->began_ns) / 1e9,
	                  recorder->events);
	buffer_add_size(&text,
	                recorder->flight.recent ? recent_size(recorder->flight.recent) : sink_record_size(&recorder->sink));
	if (recorder->flight.recent)
		buffer_add_text(&text, " in memory");
	else if (recorder->rotated)
		buffer_add_format(&text, " in file %" PRIu32, recorder->rotated + 1);
	progress_line_show(&recorder->progress, &text);
	buffer_free(&text);
}

void recorder_wake(struct sink *sink, uint64_t now_ns)
{
	struct sink_record *recorder = (struct sink_record *)sink;

	if (recorder->flight.recent)
		flight_step(recorder, now_ns);
	else
		write_due_blocks(recorder, now_ns);
	if (now_ns >= progress_line_due_ns(&recorder->progress))
		show_progress(recorder, now_ns);
}
