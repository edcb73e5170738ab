/* Ring records to EVENTS, LOST, RETRIED and FIBER_GONE. See encoder.h. Context: writer. */

#include "tracee/base/encoder.h"

#include "proto/events.h"
#include "proto/record.h"

#define GIVE_BACK_SIZE (16u << 10) /* of the ring, at a time */

void encoder_open(struct encoder *encoder, struct ring *ring, msgpack_sbuffer *output)
{
	*encoder = (struct encoder){.ring = ring, .output = output, .held_back = RING_NOWHERE, .told = RING_NOWHERE};
	ticks_clock_open(&encoder->clock);
}

/* What is no event. */
static void encode_aside(struct encoder *encoder, const struct ring_record *record)
{
	const struct ring_gap *gap = ring_payload(record);
	struct record aside = {.kind = RECORD_FIBER_GONE, .fiber_gone = {.ref = record->fiber}};

	if (record->kind == RING_LOST) {
		aside.kind = RECORD_LOST;
		aside.lost.calls = gap->calls;
		aside.lost.from_ns = ticks_to_ns(&encoder->clock, gap->from);
		aside.lost.to_ns = ticks_to_ns(&encoder->clock, gap->to);
	}
	record_encode(encoder->output, &aside);
}

/* What a batch has no place for: its end follows. */
static void encode_retries(struct encoder *encoder, const struct ring_record *record)
{
	struct record retried = {.kind = RECORD_RETRIED, .retried = {.fiber = record->fiber, .times = record->duration}};

	record_encode(encoder->output, &retried);
}

/* Only an event that is really older than another one is told with an older time. */
static uint64_t time_ns(struct encoder *encoder, uint64_t ticks)
{
	uint64_t ns = ticks_to_ns(&encoder->clock, ticks);

	if (ticks < encoder->ticks)
		return ns < encoder->ns ? ns : encoder->ns;
	encoder->ticks = ticks;
	if (ns > encoder->ns)
		encoder->ns = ns;
	return encoder->ns;
}

static const enum event_kind event_kinds[] = {
	[RING_START] = EVENT_START,       [RING_END] = EVENT_END,   [RING_CALL] = EVENT_CALL,
	[RING_CALL_OUTCOME] = EVENT_CALL, [RING_MARK] = EVENT_MARK,
};

static bool is_event(const struct ring_record *record)
{
	return record->kind != RING_LOST && record->kind != RING_FIBER_GONE;
}

static void event_of(struct encoder *encoder, const struct ring_record *record, struct batch_event *event)
{
	event->kind = event_kinds[record->kind];
	event->ending = (enum ending)record->ending;
	event->method = record->method;
	event->fiber = record->fiber;
	event->values = (struct slice){ring_payload(record), record->payload_size};
	event->outcome = (struct slice){NULL, 0};
	event->time_ns = time_ns(encoder, record->time);
	event->duration_ns = 0;
	if (event->kind == EVENT_CALL)
		event->duration_ns = time_ns(encoder, record->time + record->duration) - event->time_ns;
	if (record->kind == RING_CALL_OUTCOME) {
		const struct ring_outcome *outcome = ring_outcome(record);

		event->outcome = (struct slice){(const char *)outcome->bytes, outcome->size};
	}
}

/* What is left to tell of a start that was told while it was held back: nothing, or its end. */
static bool rest_of_told(struct batch_event *event)
{
	if (event->kind == EVENT_START)
		return false;
	event->kind = EVENT_END;
	event->time_ns += event->duration_ns;
	event->values = event->outcome;
	event->outcome = (struct slice){NULL, 0};
	return true;
}

bool encoder_take(struct encoder *encoder, uint64_t end, size_t output_size)
{
	struct ring *ring = encoder->ring;
	msgpack_sbuffer *output = encoder->output;
	uint64_t position = ring_position(ring);
	uint64_t given_back = position;
	struct batch batch;
	bool open = false;

	if (position != end)
		ticks_clock_adjust(&encoder->clock);
	while (position != end && output->size < output_size) {
		const struct ring_record *record = ring_record_at(ring, position);
		struct batch_event event;

		if (!is_event(record)) {
			if (open)
				batch_end(&batch);
			open = false;
			encode_aside(encoder, record);
			position += ring_record_bytes(record);
			continue;
		}
		if (record->kind == RING_END && record->duration) {
			if (open)
				batch_end(&batch);
			open = false;
			encode_retries(encoder, record);
		}
		event_of(encoder, record, &event);
		if (position != encoder->told || rest_of_told(&event)) {
			if (!open)
				batch_begin(&batch, encoder->output, event.time_ns);
			open = true;
			if (!batch_add(&batch, &event)) {
				batch_end(&batch);
				batch_begin(&batch, encoder->output, event.time_ns);
				batch_add(&batch, &event);
			}
		}
		position += ring_record_bytes(record);
		if (position - given_back >= GIVE_BACK_SIZE)
			ring_advance(ring, given_back = position);
	}
	if (open)
		batch_end(&batch);
	ring_advance(ring, position);
	return position == end;
}

bool encoder_tell_held_back(struct encoder *encoder)
{
	const struct ring_record *record = ring_held_back(encoder->ring);
	uint64_t position = ring_position(encoder->ring);
	struct batch_event event = {.kind = EVENT_START};
	struct batch batch;

	if (record && encoder->held_back == position && encoder->told != position) {
		ticks_clock_adjust(&encoder->clock);
		event.method = record->method;
		event.fiber = record->fiber;
		event.time_ns = time_ns(encoder, record->time);
		event.values = (struct slice){ring_payload(record), record->payload_size};
		batch_begin(&batch, encoder->output, event.time_ns);
		batch_add(&batch, &event);
		batch_end(&batch);
		encoder->told = position;
	}
	encoder->held_back = record ? position : RING_NOWHERE;
	return record && encoder->told != position;
}
