/*
 * JSON of trace events, which chrome://tracing, Perfetto's UI and many others open: a track for each fiber, times in microseconds
 * since the first event. A call is "B" and "E", or "X" where nothing that was recorded is inside; what else happened is "i".
 * Calls that have no end in the recording have no "E", and are drawn up to the end.
 */

#include "tracer/export/argument_name.h"
#include "tracer/export/export.h"
#include "tracer/export/held.h"
#include "tracer/export/losses.h"
#include "tracer/export/tracks.h"

#include "proto/clock.h"
#include "tracer/base/json.h"
#include "tracer/stream/measures.h"
#include "tracer/stream/thread_states.h"

#include <inttypes.h>

struct chrome_sink {
	struct held_sink held;
	struct tracks tracks;
	bool begun;
	int64_t zero_ns; /* by the wall clock */
	uint64_t calls, lost, states_lost;
	uint32_t states_rate_hz; /* 0: the VM told what threads do */
	struct buffer name;
};

static struct chrome_sink *chrome_of(struct sink *sink)
{
	return (struct chrome_sink *)sink;
}

static struct buffer *begin_event(struct chrome_sink *chrome)
{
	struct buffer *to = &chrome->held.sink.output->buffer;

	if (!chrome->begun)
		buffer_add_text(to, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
	else
		buffer_add_text(to, ",\n");
	chrome->begun = true;
	json_open_object(to);
	return to;
}

static void end_event(struct chrome_sink *chrome)
{
	json_close_object(&chrome->held.sink.output->buffer);
	output_commit(chrome->held.sink.output);
}

/* In microseconds, with three decimals: a double has them for a hundred days. */
static void add_us(struct buffer *to, const char *key, int64_t ns)
{
	uint64_t absolute = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;

	buffer_add_format(json_key(to, key), "%s%" PRIu64 ".%03u", ns < 0 ? "-" : "", (uint64_t)(absolute / NS_PER_US),
	                  (unsigned)(absolute % NS_PER_US));
}

static void add_name(struct chrome_sink *chrome, const char *kind, pid_t pid, uint32_t track, struct slice name)
{
	struct buffer *to = begin_event(chrome);

	json_member_string(to, "ph", "M");
	json_member_string(to, "name", kind);
	json_member_uint(to, "pid", (uint64_t)pid);
	json_member_uint(to, "tid", track);
	json_open_object(json_key(to, "args"));
	json_member_text(to, "name", name);
	json_close_object(to);
	end_event(chrome);
}

/* In ns. A file may say anything: what is too much for that begins anew. */
static int64_t since_first(struct chrome_sink *chrome, const struct stream *stream, uint64_t time_ns)
{
	uint64_t wall_ns = time_ns + (uint64_t)stream->wall_offset_ns;

	if (!chrome->begun)
		chrome->zero_ns = (int64_t)wall_ns;
	return (int64_t)(wall_ns - (uint64_t)chrome->zero_ns);
}

/* What all events of a fiber begin with. */
static struct buffer *begin(struct chrome_sink *chrome, struct fiber *fiber, const char *phase, uint64_t time_ns)
{
	int64_t passed_ns = since_first(chrome, fiber->stream, time_ns);
	bool is_new;
	uint32_t track = tracks_number(&chrome->tracks, fiber, &is_new);
	struct buffer *to;

	if (is_new) {
		chrome->name.size = 0;
		tracks_add_name(fiber, &chrome->name);
		add_name(chrome, "thread_name", fiber->stream->pid, track, (struct slice){chrome->name.bytes, chrome->name.size});
	}
	to = begin_event(chrome);
	json_member_string(to, "ph", phase);
	json_member_uint(to, "pid", (uint64_t)fiber->stream->pid);
	json_member_uint(to, "tid", track);
	add_us(to, "ts", passed_ns);
	return to;
}

static void add_values(struct buffer *to, const struct labels *labels, struct values values)
{
	struct slice text;

	for (uint32_t i = 0; i < labels->count && values_next(&values, &text); i++)
		if (text.bytes)
			json_quote(json_key_text(to, labels->names[i]), text);
}

static void add_arguments(struct chrome_sink *chrome, struct buffer *to, const struct labels *labels, struct values values)
{
	struct slice text;

	for (uint32_t i = 0; i < labels->count && values_next(&values, &text); i++)
		if (text.bytes)
			json_quote(json_key_text(to, argument_name(labels->names[i], &chrome->name)), text);
}

/* How it ended, among the args. */
static void add_outcome(const struct sink *sink, struct buffer *to, const struct method *method, enum ending ending,
                        struct values outcome)
{
	struct measures measures = measures_take(&outcome, sink->style.flags);
	struct values locals;

	/* Most arguments are variables, too. */
	if (values_take_array(&outcome, &locals)) {
		json_open_object(json_key(to, "locals"));
		add_values(to, &method->locals, locals);
		json_close_object(to);
	}
	if (ending == ENDING_RAISED) {
		json_member_text(to, "exception", outcome.count ? values_get(outcome, 0) : (struct slice){"raised", 6});
		if (values_get(outcome, 1).size)
			json_member_text(to, "message", values_get(outcome, 1));
	} else if (ending != ENDING_RETURNED) {
		json_member_string(to, "ended", ending_name(ending));
	} else if (outcome.count) {
		json_member_text(to, "result", values_get(outcome, 0));
	}
	measures_add_json(to, &measures);
}

static void add_method(struct buffer *to, const struct method *method)
{
	json_member_text(to, "name", method->shown);
	json_member_string(to, "cat", "call");
}

static void on_start(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event)
{
	struct buffer *to = begin(chrome_of(sink), fiber, "B", event->time_ns);

	add_method(to, call->method);
	json_open_object(json_key(to, "args"));
	add_arguments(chrome_of(sink), to, &call->method->labels, event->values);
	json_close_object(to);
	end_event(chrome_of(sink));
	chrome_of(sink)->calls++;
}

static void on_end(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event, uint64_t duration_ns)
{
	struct buffer *to = begin(chrome_of(sink), fiber, "E", call->start_ns + duration_ns);

	held_call(sink, fiber, call->method, call->start_ns, duration_ns);
	json_open_object(json_key(to, "args"));
	if (call->retries)
		json_member_uint(to, "retries", call->retries);
	add_outcome(sink, to, call->method, event->ending, event->values);
	json_close_object(to);
	end_event(chrome_of(sink));
}

static void on_whole(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	struct buffer *to = begin(chrome_of(sink), fiber, "X", event->time_ns);

	held_call(sink, fiber, method, event->time_ns, event->duration_ns);
	add_us(to, "dur", (int64_t)event->duration_ns);
	add_method(to, method);
	json_open_object(json_key(to, "args"));
	add_arguments(chrome_of(sink), to, &method->labels, event->values);
	add_outcome(sink, to, method, event->ending, event->outcome);
	json_close_object(to);
	end_event(chrome_of(sink));
	chrome_of(sink)->calls++;
}

/* What has a moment, and no duration. */
static void add_instant(struct sink *sink, struct fiber *fiber, const char *category, struct slice name,
                        const struct labels *labels, const struct event *event)
{
	struct buffer *to = begin(chrome_of(sink), fiber, "i", event->time_ns);

	json_member_string(to, "s", "t");
	json_member_text(to, "name", name);
	json_member_string(to, "cat", category);
	json_open_object(json_key(to, "args"));
	add_values(to, labels, event->values);
	json_close_object(to);
	end_event(chrome_of(sink));
}

static void on_line(struct sink *sink, struct fiber *fiber, struct method *line, const struct event *event)
{
	add_instant(sink, fiber, "line", line->shown, &line->labels, event);
}

static void on_mark(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	struct slice names[MARK_VALUES_MAX];
	struct labels labels = {.names = names};

	while (labels.count < mark_value_count(method->mark)) {
		names[labels.count] =
			(struct slice){method->mark->labels[labels.count], strlen(method->mark->labels[labels.count])};
		labels.count++;
	}
	add_instant(sink, fiber, "event", (struct slice){method->mark->name, strlen(method->mark->name)}, &labels, event);
}

static void write_thread(struct sink *sink, const struct stream *stream, const struct thread_span *span,
                         const struct waits_cause *cause)
{
	struct chrome_sink *chrome = chrome_of(sink);
	int64_t passed_ns = since_first(chrome, stream, span->from_ns);
	uint32_t track = TRACK_STATES_FROM + span->number;
	struct buffer *to;

	chrome->states_rate_hz = stream->states_rate_hz;
	if (span->first) {
		chrome->name.size = 0;
		thread_states_add_track(stream, span->native_id, &chrome->name);
		add_name(chrome, "thread_name", stream->pid, track, (struct slice){chrome->name.bytes, chrome->name.size});
	}
	to = begin_event(chrome);
	json_member_string(to, "ph", "X");
	json_member_uint(to, "pid", (uint64_t)stream->pid);
	json_member_uint(to, "tid", track);
	add_us(to, "ts", passed_ns);
	add_us(to, "dur", (int64_t)(span->to_ns - span->from_ns));
	json_member_string(to, "name", thread_doing_name(span->doing));
	json_member_string(to, "cat", "thread");
	if (cause->holder) {
		json_open_object(json_key(to, "args"));
		json_member_string(to, "held by", cause->holder);
		json_member_uint(to, "held_ns", cause->held_ns);
		if (cause->call.size)
			json_member_text(to, "in", cause->call);
		json_close_object(to);
	}
	end_event(chrome);
}

static void add_loss(struct chrome_sink *chrome, struct stream *stream, const struct loss *loss)
{
	int64_t passed_ns = since_first(chrome, stream, loss->from_ns);
	struct buffer *to = begin_event(chrome);

	json_member_string(to, "ph", "i");
	json_member_string(to, "s", "p");
	json_member_uint(to, "pid", (uint64_t)stream->pid);
	json_member_uint(to, "tid", (uint64_t)stream->pid);
	add_us(to, "ts", passed_ns);
	json_member_string(to, "name", loss->name);
	json_member_string(to, "cat", "lost");
	json_open_object(json_key(to, "args"));
	json_member_uint(to, loss->unit, loss->count);
	json_member_uint(to, "duration_ns", loss_duration(loss));
	json_close_object(to);
	end_event(chrome);
}

static void on_threads_lost(struct sink *sink, struct stream *stream, const struct threads_gap *gap)
{
	const struct loss gone = loss_of_states(gap);

	chrome_of(sink)->states_lost += gap->changes;
	/* Without a time it is in the sum alone. */
	if (gap->to_ns)
		add_loss(chrome_of(sink), stream, &gone);
}

static void on_lost(struct sink *sink, struct stream *stream, const struct record_lost *lost)
{
	const struct loss gone = loss_of_calls(lost);

	add_loss(chrome_of(sink), stream, &gone);
}

static void on_summary(struct sink *sink, const struct sink_summary *summary)
{
	struct chrome_sink *chrome = chrome_of(sink);

	held_summary(sink, summary);
	chrome->name.size = 0;
	buffer_add_format(&chrome->name, "ruby %d", (int)summary->pid);
	add_name(chrome, "process_name", summary->pid, (uint32_t)summary->pid,
	         (struct slice){chrome->name.bytes, chrome->name.size});
	chrome->lost += summary->lost;
}

static void on_close(struct sink *sink)
{
	struct chrome_sink *chrome = chrome_of(sink);
	struct buffer *to = &sink->output->buffer;

	if (!chrome->begun)
		buffer_add_text(to, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
	buffer_add_text(to, "\n],\"otherData\":");
	json_open_object(to);
	json_member_string(to, "exporter", "rbprobe");
	json_member_int(to, "began_ns", chrome->zero_ns);
	json_member_uint(to, "calls", chrome->calls);
	json_member_uint(to, "lost", chrome->lost);
	json_member_uint(to, "states_lost", chrome->states_lost);
	if (chrome->states_rate_hz)
		json_member_uint(to, "states_sampled_hz", chrome->states_rate_hz);
	json_close_object(to);
	json_close_line(to);
	tracks_free(&chrome->tracks);
	buffer_free(&chrome->name);
}

static void on_init(struct sink *sink)
{
	chrome_of(sink)->held.write = write_thread;
}

static const struct sink_ops sink_chrome = {
	.name = "chrome",
	.size = sizeof(struct chrome_sink),
	.init = on_init,
	.start = on_start,
	.end = on_end,
	.whole = on_whole,
	.mark = on_mark,
	.line = on_line,
	.thread = held_thread,
	.threads_lost = on_threads_lost,
	.lost = on_lost,
	.summary = on_summary,
	.close = on_close,
};

const struct export_format export_chrome = {.name = "chrome", .calls = &sink_chrome, .held = true};
