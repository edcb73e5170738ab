/* The flight recorder: what is kept in memory, and when it is written. See sink_record.h. */

#include "tracer/recording/sink_record_parts.h"

#include "proto/clock.h"
#include "tracer/base/output_rotate.h"

#define AFTER_NS NS_PER_S /* for so long the calls around the one that was waited for may end */
#define REST_NS NS_PER_S  /* between files of triggers; */
#define REST_TIMES 10     /* and so many times what writing one has taken */

void flight_open(struct sink_record *recorder)
{
	if (recorder->manner.flight)
		recorder->flight.recent = recent_new(&recorder->manner.last);
}

void flight_free(struct sink_record *recorder)
{
	recent_free(recorder->flight.recent);
	buffer_free(&recorder->flight.why);
}

void flight_add_block(struct sink_record *recorder, struct recording_block block, const char *bytes, uint64_t since_ns)
{
	char *frame = recorder->flight.over ? NULL : recording_pack(recorder->writer, &block, bytes);

	if (frame)
		recent_block(recorder->flight.recent, &block, frame, since_ns, clock_now_ns());
}

/* --- What is waited for */

static bool is_waiting(const struct sink_record *recorder)
{
	const struct flight *flight = &recorder->flight;

	return flight->recent && recorder->manner.triggers->count && !flight->why.size && !flight->over;
}

/* depth: of the calls around it. */
static void trigger(struct flight *flight, const struct fiber *fiber)
{
	buffer_add_char(&flight->why, '\0');
	flight->fiber = fiber->depth ? fiber : NULL;
	flight->wait_ns = clock_now_ns() + AFTER_NS;
	flight->met = true;
}

void flight_call(struct sink_record *recorder, const struct fiber *fiber, const struct trigger_call *call)
{
	struct flight *flight = &recorder->flight;

	if (is_waiting(recorder) && triggers_call(recorder->manner.triggers, fiber, call, &flight->why))
		trigger(flight, fiber);
	else if (flight->fiber == fiber && !fiber->depth)
		flight->fiber = NULL;
}

void flight_line(struct sink_record *recorder, const struct fiber *fiber, struct method *line, struct values values)
{
	if (is_waiting(recorder) && triggers_line(recorder->manner.triggers, fiber, line, values, &recorder->flight.why))
		trigger(&recorder->flight, fiber);
}

void flight_mark(struct sink_record *recorder, const struct fiber *fiber, const struct method *mark, struct values values)
{
	if (is_waiting(recorder) && triggers_mark(recorder->manner.triggers, fiber, mark, values, &recorder->flight.why))
		trigger(&recorder->flight, fiber);
}

void flight_fiber_gone(struct sink_record *recorder, const struct fiber *fiber)
{
	if (recorder->flight.fiber == fiber)
		recorder->flight.fiber = NULL;
}

/* --- When it is written */

static uint64_t write_due_ns(const struct flight *flight)
{
	uint64_t due_ns = flight->fiber ? flight->wait_ns : 0;

	if (!flight->why.size)
		return UINT64_MAX;
	return due_ns > flight->rest_ns ? due_ns : flight->rest_ns;
}

uint64_t flight_due_ns(const struct sink_record *recorder)
{
	const struct flight *flight = &recorder->flight;
	uint64_t write_ns, stretch_ns, block_ns;

	if (!flight->recent || flight->over)
		return UINT64_MAX;
	write_ns = write_due_ns(flight);
	stretch_ns = recent_due_ns(flight->recent);
	block_ns = recorder_blocks_due_ns(recorder);
	stretch_ns = block_ns < stretch_ns ? block_ns : stretch_ns;
	return write_ns < stretch_ns ? write_ns : stretch_ns;
}

void flight_step(struct sink_record *recorder, uint64_t now_ns)
{
	struct flight *flight = &recorder->flight;

	if (!recorder->writer || now_ns < flight_due_ns(recorder))
		return;
	if (now_ns >= write_due_ns(flight)) {
		flight_write(recorder, flight->why.bytes);
		flight->why.size = 0;
		flight->fiber = NULL;
		flight->over = !recorder->manner.goes_on;
	}
	if (flight->over)
		return;
	if (now_ns >= recorder_blocks_due_ns(recorder))
		recorder_add_blocks(recorder);
	if (!recent_is_due(flight->recent, now_ns))
		return;
	recorder_add_blocks(recorder);
	recent_begin(flight->recent, now_ns);
	recorder_add_known(recorder);
	recent_known(flight->recent);
}

static bool begin_file(struct sink_record *recorder)
{
	struct output *output = recorder->sink.output;

	if (output->flushed && output_rotate(output, recorder->manner.path, recorder->manner.files) < 0)
		return false;
	recorder->rotated += output->flushed != 0;
	recorder->file_began = output->flushed;
	return true;
}

void flight_end(struct sink_record *recorder)
{
	const struct flight *flight = &recorder->flight;

	if (!flight->recent)
		return;
	if (recent_has_news(flight->recent))
		flight_write(recorder, NULL);
	else if (recorder->ran && !recorder->sink.output->flushed)
		recorder->manner.nothing(recorder->manner.owner);
	recorder->sink.output->is_spared = true;
}

void flight_write(struct sink_record *recorder, const char *reason)
{
	struct flight *flight = &recorder->flight;
	struct recording_head head = recorder->head;
	struct output *output = recorder->sink.output;
	uint64_t began_ns = clock_now_ns(), from_ns, to_ns;

	if (!flight->recent || !recorder->writer || flight->over || output_is_over(output))
		return;
	recorder_add_blocks(recorder);
	recent_expire(flight->recent, began_ns);
	if (!recent_span(flight->recent, &from_ns, &to_ns)) {
		recorder->manner.nothing(recorder->manner.owner);
		return;
	}
	if (!begin_file(recorder))
		return;
	head.began_ns = from_ns;
	recording_write_head(recorder->writer, &head);
	recent_write(flight->recent, recorder->writer, reason);
	output_flush(output);
	/* It is written as often as somebody asks for it, which is no flood of what a process sends. */
	output_earn(output, sink_record_size(&recorder->sink));
	flight->rest_ns = clock_now_ns() + REST_NS + REST_TIMES * (clock_now_ns() - began_ns);
	if (!output->status)
		recorder->manner.written(recorder->manner.owner, &recorder->sink, to_ns - from_ns, reason);
}
