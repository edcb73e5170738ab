/*
 * Perfetto's protobuf: one TracePacket after the other, so that a file that was cut short can be opened. A track for each fiber
 * below that of its process; a call is a slice, what else happened is an instant. Times are ns since 1970.
 */

#include "tracer/export/export.h"

#ifdef HAVE_LIBPROTOBUF_C

#include "tracer/export/argument_name.h"
#include "tracer/export/held.h"
#include "tracer/export/losses.h"
#include "tracer/export/pack.h"
#include "tracer/export/tracks.h"
#include "tracer/stream/measures.h"
#include "tracer/stream/thread_states.h"

#include "proto/limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <tracer/export/perfetto.pb-c.h>

#define SEQUENCE 1u /* all packets are of one */
#define STATE_BEGINS 1u
#define STATE_NEEDED 2u
#define CLOCK_REAL 1u
#define CLOCK_BOOT 6u               /* the one of packets that name none */
#define NOTES_MAX (VALUES_MAX + 8u) /* local variables, and how it ended */

struct note {
	size_t name, value; /* in texts */
};

struct perfetto_sink {
	struct held_sink held;
	struct tracks tracks;
	bool begun;
	uint64_t names;
	uint64_t last_ns; /* by the wall clock: of the last event that was written; 0: none was */
	/* of the packet that is made */
	struct buffer texts;
	struct note notes[NOTES_MAX];
	size_t note_count;
};

typedef Perfetto__Protos__TrackEvent__Type event_type;

static struct perfetto_sink *perfetto_of(struct sink *sink)
{
	return (struct perfetto_sink *)sink;
}

static void add_packet(struct perfetto_sink *perfetto, Perfetto__Protos__TracePacket *packet)
{
	Perfetto__Protos__Trace trace = PERFETTO__PROTOS__TRACE__INIT;

	packet->has_trusted_packet_sequence_id = packet->has_sequence_flags = true;
	packet->trusted_packet_sequence_id = SEQUENCE;
	packet->sequence_flags = perfetto->begun ? STATE_NEEDED : STATE_BEGINS;
	perfetto->begun = true;
	trace.n_packet = 1;
	trace.packet = &packet;
	pack_message(&perfetto->held.sink.output->buffer, &trace.base);
	output_commit(perfetto->held.sink.output);
}

/* That the times are those of the wall clock. */
static void add_clocks(struct perfetto_sink *perfetto, uint64_t wall_ns)
{
	Perfetto__Protos__TracePacket packet = PERFETTO__PROTOS__TRACE_PACKET__INIT;
	Perfetto__Protos__ClockSnapshot snapshot = PERFETTO__PROTOS__CLOCK_SNAPSHOT__INIT;
	Perfetto__Protos__ClockSnapshot__Clock real = PERFETTO__PROTOS__CLOCK_SNAPSHOT__CLOCK__INIT, boot = real;
	Perfetto__Protos__ClockSnapshot__Clock *clocks[] = {&boot, &real};

	real.has_clock_id = boot.has_clock_id = real.has_timestamp = boot.has_timestamp = true;
	real.clock_id = CLOCK_REAL;
	boot.clock_id = CLOCK_BOOT;
	real.timestamp = boot.timestamp = wall_ns;
	snapshot.n_clocks = 2;
	snapshot.clocks = clocks;
	packet.clock_snapshot = &snapshot;
	add_packet(perfetto, &packet);
}

static uint64_t process_track(const struct stream *stream)
{
	return (uint64_t)(uint32_t)stream->pid << 32;
}

/* Before its first event; again where it got a name. */
static void add_process(struct perfetto_sink *perfetto, const struct stream *stream)
{
	Perfetto__Protos__TracePacket packet = PERFETTO__PROTOS__TRACE_PACKET__INIT;
	Perfetto__Protos__TrackDescriptor track = PERFETTO__PROTOS__TRACK_DESCRIPTOR__INIT;
	Perfetto__Protos__ProcessDescriptor process = PERFETTO__PROTOS__PROCESS_DESCRIPTOR__INIT;
	char name[] = "ruby";

	track.has_uuid = process.has_pid = true;
	track.uuid = process_track(stream);
	process.pid = (int32_t)stream->pid;
	process.process_name = name;
	track.process = &process;
	packet.track_descriptor = &track;
	add_packet(perfetto, &packet);
}

static void add_track(struct perfetto_sink *perfetto, const struct stream *stream, uint32_t number, bool is_thread,
                      const struct buffer *name)
{
	Perfetto__Protos__TracePacket packet = PERFETTO__PROTOS__TRACE_PACKET__INIT;
	Perfetto__Protos__TrackDescriptor track = PERFETTO__PROTOS__TRACK_DESCRIPTOR__INIT;
	Perfetto__Protos__ThreadDescriptor thread = PERFETTO__PROTOS__THREAD_DESCRIPTOR__INIT;
	struct buffer shown = {0};

	add_process(perfetto, stream);
	buffer_add_printable(&shown, name->bytes, name->size);
	buffer_add_char(&shown, '\0');
	track.has_uuid = track.has_parent_uuid = true;
	track.uuid = process_track(stream) | number;
	track.parent_uuid = process_track(stream);
	track.name = shown.bytes;
	if (is_thread) {
		thread.has_pid = thread.has_tid = true;
		thread.pid = (int32_t)stream->pid;
		thread.tid = number;
		thread.thread_name = shown.bytes;
		track.thread = &thread;
	}
	packet.track_descriptor = &track;
	add_packet(perfetto, &packet);
	buffer_free(&shown);
}

static uint64_t track_of(struct perfetto_sink *perfetto, struct fiber *fiber, uint64_t wall_ns)
{
	bool is_new;
	uint32_t number = tracks_number(&perfetto->tracks, fiber, &is_new);
	struct buffer name = {0};

	if (!perfetto->begun)
		add_clocks(perfetto, wall_ns);
	if (is_new) {
		tracks_add_name(fiber, &name);
		add_track(perfetto, fiber->stream, number, number < TRACK_FREE_FROM, &name);
		buffer_free(&name);
	}
	return process_track(fiber->stream) | number;
}

/* --- What comes with an event */

static size_t add_text(struct perfetto_sink *perfetto, const char *bytes, size_t size)
{
	size_t at = perfetto->texts.size;

	buffer_add_printable(&perfetto->texts, bytes, size);
	buffer_add_char(&perfetto->texts, '\0');
	return at;
}

static void add_note(struct perfetto_sink *perfetto, struct slice name, struct slice value)
{
	if (perfetto->note_count < NOTES_MAX)
		perfetto->notes[perfetto->note_count++] = (struct note){.name = add_text(perfetto, name.bytes, name.size),
		                                                        .value = add_text(perfetto, value.bytes, value.size)};
}

static void add_word(struct perfetto_sink *perfetto, const char *name, struct slice value)
{
	add_note(perfetto, (struct slice){name, strlen(name)}, value);
}

static void add_number(struct perfetto_sink *perfetto, const char *name, uint64_t number)
{
	char text[24];

	add_word(perfetto, name, (struct slice){text, (size_t)snprintf(text, sizeof(text), "%" PRIu64, number)});
}

static void add_values(struct perfetto_sink *perfetto, const struct labels *labels, struct values values)
{
	struct slice text;

	for (uint32_t i = 0; i < labels->count && values_next(&values, &text); i++)
		if (text.bytes)
			add_note(perfetto, labels->names[i], text);
}

static void add_arguments(struct perfetto_sink *perfetto, const struct labels *labels, struct values values)
{
	struct buffer room = {0};
	struct slice text;

	for (uint32_t i = 0; i < labels->count && values_next(&values, &text); i++)
		if (text.bytes)
			add_note(perfetto, argument_name(labels->names[i], &room), text);
	buffer_free(&room);
}

/* Most arguments are variables, too. */
static void add_locals(struct perfetto_sink *perfetto, const struct labels *labels, struct values values)
{
	struct buffer name = {0};
	struct slice text;

	for (uint32_t i = 0; i < labels->count && values_next(&values, &text); i++) {
		name.size = 0;
		buffer_add_text(&name, "locals.");
		buffer_add_slice(&name, labels->names[i]);
		if (text.bytes)
			add_note(perfetto, (struct slice){name.bytes, name.size}, text);
	}
	buffer_free(&name);
}

static void add_outcome(struct perfetto_sink *perfetto, const struct method *method, enum ending ending, struct values outcome)
{
	static const char *const names[] = {"cpu_ns", "objects", "gc_ns"};
	static const uint32_t flags[] = {TRACE_CPU, TRACE_OBJECTS, TRACE_GC};
	struct measures measures = measures_take(&outcome, perfetto->held.sink.style.flags);
	struct values locals;
	struct span_text span;

	if (values_take_array(&outcome, &locals))
		add_locals(perfetto, &method->locals, locals);
	if (ending == ENDING_RAISED) {
		add_word(perfetto, "exception", outcome.count ? values_get(outcome, 0) : (struct slice){"raised", 6});
		if (values_get(outcome, 1).size)
			add_word(perfetto, "message", values_get(outcome, 1));
	} else if (ending != ENDING_RETURNED) {
		add_word(perfetto, "ended", (struct slice){ending_name(ending), strlen(ending_name(ending))});
	} else if (outcome.count) {
		add_word(perfetto, "result", values_get(outcome, 0));
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (measures.flags & flags[i] && measures.numbers[i] != EVENT_NOT_KNOWN)
			add_number(perfetto, names[i], measures.numbers[i]);
	if (measures_span_text(&measures, &span)) {
		add_word(perfetto, "trace_id", (struct slice){span.trace, strlen(span.trace)});
		add_word(perfetto, "span_id", (struct slice){span.id, strlen(span.id)});
	}
}

/* --- Events */

/* A method's name is in the packet that needs it first, and has a number from then on. */
static void set_name(struct perfetto_sink *perfetto, struct method *method, Perfetto__Protos__TrackEvent *event,
                     Perfetto__Protos__EventName *name, Perfetto__Protos__InternedData *data)
{
	size_t at;

	event->has_name_iid = true;
	if (method->prepared.size) {
		memcpy(&event->name_iid, method->prepared.bytes, sizeof(event->name_iid));
		return;
	}
	event->name_iid = ++perfetto->names;
	buffer_add(&method->prepared, (const char *)&event->name_iid, sizeof(event->name_iid));
	name->has_iid = true;
	name->iid = event->name_iid;
	at = add_text(perfetto, method->shown.bytes, method->shown.size);
	name->name = perfetto->texts.bytes + at;
	data->n_event_names = 1;
}

/* named: NULL, or what a slice or an instant is called. With the notes that were added. */
static void add_event(struct perfetto_sink *perfetto, event_type type, uint64_t track, uint64_t wall_ns, struct method *named,
                      const char *category, const char *word)
{
	Perfetto__Protos__TracePacket packet = PERFETTO__PROTOS__TRACE_PACKET__INIT;
	Perfetto__Protos__TrackEvent event = PERFETTO__PROTOS__TRACK_EVENT__INIT;
	Perfetto__Protos__InternedData data = PERFETTO__PROTOS__INTERNED_DATA__INIT;
	Perfetto__Protos__EventName name = PERFETTO__PROTOS__EVENT_NAME__INIT, *event_names = &name;
	Perfetto__Protos__DebugAnnotation notes[NOTES_MAX], *note_pointers[NOTES_MAX];

	packet.has_timestamp = event.has_type = event.has_track_uuid = true;
	packet.timestamp = perfetto->last_ns = wall_ns;
	packet.track_event = &event;
	event.type = type;
	event.track_uuid = track;
	event.name = (char *)word;
	if (category) {
		event.n_categories = 1;
		event.categories = (char **)&category;
	}
	data.event_names = &event_names;
	if (named)
		set_name(perfetto, named, &event, &name, &data);
	if (data.n_event_names)
		packet.interned_data = &data;
	for (size_t i = 0; i < perfetto->note_count; i++) {
		perfetto__protos__debug_annotation__init(&notes[i]);
		notes[i].name = perfetto->texts.bytes + perfetto->notes[i].name;
		notes[i].string_value = perfetto->texts.bytes + perfetto->notes[i].value;
		note_pointers[i] = &notes[i];
	}
	event.n_debug_annotations = perfetto->note_count;
	event.debug_annotations = note_pointers;
	add_packet(perfetto, &packet);
	perfetto->note_count = 0;
	perfetto->texts.size = 0;
}

static uint64_t wall_ns(const struct stream *stream, uint64_t time_ns)
{
	return time_ns + (uint64_t)stream->wall_offset_ns;
}

static void begin_slice(struct perfetto_sink *perfetto, struct fiber *fiber, struct method *method, const struct event *event)
{
	uint64_t began_ns = wall_ns(fiber->stream, event->time_ns), track = track_of(perfetto, fiber, began_ns);

	add_arguments(perfetto, &method->labels, event->values);
	add_event(perfetto, PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN, track, began_ns, method, "call", NULL);
}

static void end_slice(struct perfetto_sink *perfetto, struct fiber *fiber, const struct method *method, enum ending ending,
                      const struct values *outcome, uint64_t time_ns)
{
	uint64_t ended_ns = wall_ns(fiber->stream, time_ns), track = track_of(perfetto, fiber, ended_ns);

	add_outcome(perfetto, method, ending, *outcome);
	add_event(perfetto, PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_SLICE_END, track, ended_ns, NULL, NULL, NULL);
}

static void on_start(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event)
{
	begin_slice(perfetto_of(sink), fiber, call->method, event);
}

static void on_end(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event, uint64_t duration_ns)
{
	held_call(sink, fiber, call->method, call->start_ns, duration_ns);
	if (call->retries)
		add_number(perfetto_of(sink), "retries", call->retries);
	end_slice(perfetto_of(sink), fiber, call->method, event->ending, &event->values, call->start_ns + duration_ns);
}

static void on_whole(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	held_call(sink, fiber, method, event->time_ns, event->duration_ns);
	begin_slice(perfetto_of(sink), fiber, method, event);
	end_slice(perfetto_of(sink), fiber, method, event->ending, &event->outcome, event->time_ns + event->duration_ns);
}

static void on_line(struct sink *sink, struct fiber *fiber, struct method *line, const struct event *event)
{
	struct perfetto_sink *perfetto = perfetto_of(sink);
	uint64_t at_ns = wall_ns(fiber->stream, event->time_ns), track = track_of(perfetto, fiber, at_ns);

	add_values(perfetto, &line->labels, event->values);
	add_event(perfetto, PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_INSTANT, track, at_ns, line, "line", NULL);
}

static void on_mark(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	struct perfetto_sink *perfetto = perfetto_of(sink);
	uint64_t at_ns = wall_ns(fiber->stream, event->time_ns), track = track_of(perfetto, fiber, at_ns);
	struct values values = event->values;
	struct slice text;

	for (uint32_t i = 0; i < mark_value_count(method->mark) && values_next(&values, &text); i++)
		if (text.bytes)
			add_word(perfetto, method->mark->labels[i], text);
	add_event(perfetto, PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_INSTANT, track, at_ns, NULL, "event", method->mark->name);
}

static void write_thread(struct sink *sink, const struct stream *stream, const struct thread_span *span,
                         const struct waits_cause *cause)
{
	struct perfetto_sink *perfetto = perfetto_of(sink);
	uint64_t from_ns = wall_ns(stream, span->from_ns), track = process_track(stream) | (TRACK_STATES_FROM + span->number);
	struct buffer name = {0};

	if (!perfetto->begun)
		add_clocks(perfetto, from_ns);
	if (span->first) {
		thread_states_add_track(stream, span->native_id, &name);
		add_track(perfetto, stream, TRACK_STATES_FROM + span->number, false, &name);
		buffer_free(&name);
	}
	if (cause->holder) {
		add_word(perfetto, "held by", (struct slice){cause->holder, strlen(cause->holder)});
		add_number(perfetto, "held_ns", cause->held_ns);
	}
	if (cause->call.size)
		add_word(perfetto, "in", cause->call);
	add_event(perfetto, PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN, track, from_ns, NULL, "thread",
	          thread_doing_name(span->doing));
	add_event(perfetto, PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_SLICE_END, track, wall_ns(stream, span->to_ns), NULL, NULL,
	          NULL);
}

static void add_loss(struct perfetto_sink *perfetto, const struct stream *stream, const struct loss *loss)
{
	/* Where no time is known, it stands with what came last. */
	uint64_t from_ns = loss->to_ns || !perfetto->last_ns ? wall_ns(stream, loss->from_ns) : perfetto->last_ns;

	if (!perfetto->begun)
		add_clocks(perfetto, from_ns);
	add_process(perfetto, stream);
	add_number(perfetto, loss->unit, loss->count);
	add_number(perfetto, "duration_ns", loss_duration(loss));
	add_event(perfetto, PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_INSTANT, process_track(stream), from_ns, NULL, "lost",
	          loss->name);
}

static void on_threads_lost(struct sink *sink, struct stream *stream, const struct threads_gap *gap)
{
	const struct loss gone = loss_of_states(gap);

	add_loss(perfetto_of(sink), stream, &gone);
}

static void on_lost(struct sink *sink, struct stream *stream, const struct record_lost *lost)
{
	const struct loss gone = loss_of_calls(lost);

	add_loss(perfetto_of(sink), stream, &gone);
}

static void on_close(struct sink *sink)
{
	tracks_free(&perfetto_of(sink)->tracks);
	buffer_free(&perfetto_of(sink)->texts);
}

static void on_init(struct sink *sink)
{
	perfetto_of(sink)->held.write = write_thread;
}

static const struct sink_ops sink_perfetto = {
	.name = "perfetto",
	.size = sizeof(struct perfetto_sink),
	.init = on_init,
	.start = on_start,
	.end = on_end,
	.whole = on_whole,
	.mark = on_mark,
	.line = on_line,
	.thread = held_thread,
	.threads_lost = on_threads_lost,
	.lost = on_lost,
	.summary = held_summary,
	.close = on_close,
};

#define SINK_PERFETTO &sink_perfetto
#else
#define SINK_PERFETTO NULL
#endif

const struct export_format export_perfetto = {
	.name = "perfetto", .calls = SINK_PERFETTO, .held = true, .binary = true, .needs = {[LIBRARY_PROTOBUF] = true}};
