/* Recording: records of targets, kept in blocks. See sink_record.h. */

#define _GNU_SOURCE
#include "tracer/recording/sink_record_parts.h"

#include "proto/clock.h"
#include "proto/limits.h"
#include "proto/names.h"
#include "tracer/base/output_rotate.h"
#include "tracer/process/target.h"
#include "tracer/recording/session_state.h"
#include "tracer/stream/calls.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_SIZE (256u << 10) /* of records; a larger one hardly packs better */
#define BLOCKS_MIN 16           /* that are kept of what is recent, or more */
#define BLOCK_NS NS_PER_S       /* a block is written after this time, even if it is not full */

static struct session *session_of(struct sink_record *recorder, const struct stream *stream)
{
	if (recorder->last && recorder->last->stream == stream)
		return recorder->last;
	for (size_t i = 0; i < recorder->count; i++)
		if (recorder->sessions[i].stream == stream)
			return recorder->last = &recorder->sessions[i];
	return NULL;
}

static void add_block(struct sink_record *recorder, struct session *session)
{
	const struct recording_block block = {.session = session->number,
	                                      .size = (uint32_t)session->records.size,
	                                      .events = session->events,
	                                      .from_ns = session->from_ns,
	                                      .to_ns = session->to_ns,
	                                      .lost = session->lost};

	if (!session->records.size)
		return;
	if (recorder->flight.recent) {
		flight_add_block(recorder, block, session->records.bytes, session->since_ns);
	} else {
		recording_write_block(recorder->writer, block, session->records.bytes);
		/* Whatever kills us, the file has it. */
		output_flush(recorder->sink.output);
	}
	session->records.size = 0;
	session->events = session->from_ns = session->to_ns = session->lost = 0;
}

void recorder_add_blocks(struct sink_record *recorder)
{
	for (size_t i = 0; i < recorder->count; i++)
		add_block(recorder, &recorder->sessions[i]);
}

static struct slice whole(const struct buffer *text)
{
	return (struct slice){text->bytes, text->size};
}

static void count_open_calls(const struct fiber *fiber, void *owner)
{
	*(uint64_t *)owner += fiber->depth;
}

static void add_session(const struct sink_record *recorder, const struct session *session, bool continued)
{
	struct recording_session part = {.number = session->number,
	                                 .pid = (uint32_t)session->pid,
	                                 .main_thread = session->stream->main_native_id,
	                                 .began_ns = session->began_ns,
	                                 .wall_offset_ns = session->stream->wall_offset_ns,
	                                 .ruby_version = whole(&session->ruby_version),
	                                 .extension_version = whole(&session->extension_version),
	                                 .command = whole(&session->command),
	                                 .counts_lost = true,
	                                 .continued = continued};

	if (continued)
		calls_each_fiber(session->stream, count_open_calls, &part.open_calls);
	if (recorder->flight.recent)
		recent_session(recorder->flight.recent, &part);
	else
		recording_write_session(recorder->writer, &part);
}

struct state_block {
	struct sink_record *recorder;
	const struct session *session;
};

/* Its events are in a block before: they are counted there. */
static void add_state(void *owner, const struct buffer *records)
{
	const struct state_block *state = owner;
	const struct recording_block block = {.session = state->session->number, .size = (uint32_t)records->size};

	if (state->recorder->flight.recent)
		flight_add_block(state->recorder, block, records->bytes, 0);
	else
		recording_write_block(state->recorder->writer, block, records->bytes);
}

void recorder_add_known(struct sink_record *recorder)
{
	for (size_t i = 0; i < recorder->count; i++) {
		const struct session *session = &recorder->sessions[i];

		add_session(recorder, session, true);
		session_state_give(session->state, session->stream, add_state, &(struct state_block){recorder, session});
	}
}

/* How long its methods were armed only the last file knows. */
static void end_all_of_file(struct sink_record *recorder)
{
	static const char reason[] = "it goes on in the next file";

	for (size_t i = 0; i < recorder->count; i++)
		recording_write_end(recorder->writer, &(struct recording_end){.session = recorder->sessions[i].number,
		                                                              .reason = {reason, sizeof(reason) - 1}});
}

/* The next file can be read without those before: it begins with all that must be known. */
static void rotate(struct sink_record *recorder)
{
	struct output *output = recorder->sink.output;

	recorder_add_blocks(recorder);
	end_all_of_file(recorder);
	if (output_rotate(output, recorder->manner.path, recorder->manner.files) < 0)
		return;
	recorder->rotated++;
	recorder->file_began = output->flushed;
	recorder->numbers = 0;
	for (size_t i = 0; i < recorder->count; i++)
		recorder->sessions[i].number = recorder->numbers++;
	recording_write_head(recorder->writer, &recorder->head);
	recorder_add_known(recorder);
	output_flush(output);
}

void recorder_write_block(struct sink_record *recorder, struct session *session)
{
	add_block(recorder, session);
	if (recorder->manner.files && !recorder->flight.recent &&
	    sink_record_size(&recorder->sink) >= recorder->manner.rotate_size && !output_is_over(recorder->sink.output))
		rotate(recorder);
}

static void begin(struct sink_record *recorder)
{
	char *host = recorder->host;

	gethostname(host, sizeof(recorder->host) - 1);
	recorder->head.version = RECORDING_VERSION;
	recorder->head.program = (struct slice){RBPROBE_VERSION, strlen(RBPROBE_VERSION)};
	recorder->head.host = (struct slice){host, strlen(host)};
	recorder->head.began_ns = clock_ns(CLOCK_REALTIME);
	recorder->writer = recording_write_open(recorder->sink.output);
	/* A trace that is refused leaves no file, and the file that there was. */
	recorder->sink.output->held = !recorder->manner.flight && !recorder->sink.output->flushed;
	if (!recorder->manner.flight)
		recording_write_head(recorder->writer, &recorder->head);
	flight_open(recorder);
	recorder->block_size = recorder->flight.recent && recorder->manner.last.size / BLOCKS_MIN < BLOCK_SIZE
	                               ? (uint32_t)recorder->manner.last.size / BLOCKS_MIN
	                               : BLOCK_SIZE;
	recorder->block_ns = recorder->flight.recent ? recent_block_ns(&recorder->manner.last, BLOCK_NS) : BLOCK_NS;
	recorder->began_ns = clock_now_ns();
	progress_line_begin(&recorder->progress, recorder->manner.progress);
}

static void session_free(struct session *session)
{
	buffer_free(&session->ruby_version);
	buffer_free(&session->extension_version);
	buffer_free(&session->command);
	buffer_free(&session->records);
	session_state_free(session->state);
}

static void session_drop(struct sink_record *recorder, struct session *session)
{
	add_block(recorder, session);
	session_free(session);
	*session = recorder->sessions[--recorder->count];
	recorder->last = NULL;
}

/* A process that is greeted anew, after exec, has a session that is over. */
static void session_begin(struct sink_record *recorder, const struct stream *stream, const struct record_hello *hello)
{
	struct session *session = session_of(recorder, stream);
	struct target target;
	struct error err;
	char command[NAME_SIZE_MAX] = "";

	if (session)
		session_drop(recorder, session);
	if (!recorder->writer)
		begin(recorder);
	if (target_describe(&target, stream->pid, TARGET_BASIC, &err) == 0)
		target_command_line(&target, command, sizeof(command));
	recorder->sessions = memory_resize(recorder->sessions, (recorder->count + 1) * sizeof(*recorder->sessions));
	session = &recorder->sessions[recorder->count++];
	*session = (struct session){.stream = stream,
	                            .pid = stream->pid,
	                            .number = recorder->numbers++,
	                            .began_ns = clock_ns(CLOCK_REALTIME),
	                            .state = recorder->manner.files ? session_state_new() : NULL};
	buffer_add_slice(&session->ruby_version, hello->ruby_version);
	buffer_add_slice(&session->extension_version, hello->extension_version);
	buffer_add_text(&session->command, command);
	recorder->last = session;
	add_session(recorder, session, false);
}

/* What replaying needs; the rest was for us. */
static bool is_kept(enum record_kind kind)
{
	switch (kind) {
	case RECORD_METHOD:
	case RECORD_FIBER:
	case RECORD_FIBER_GONE:
	case RECORD_CALLER:
	case RECORD_EVENTS:
	case RECORD_RETRIED:
	case RECORD_LOST:
	case RECORD_NOTE:
	case RECORD_FOUND:
	case RECORD_TOTALS:
	case RECORD_STATES:
	case RECORD_END:
		return true;
	default:
		return false;
	}
}

/* END may know of more than had a place. */
static uint64_t lost_of(const struct stream *stream, const struct record *record)
{
	if (record->kind == RECORD_LOST)
		return record->lost.calls;
	if (record->kind == RECORD_END && record->end.lost > stream->lost)
		return record->end.lost - stream->lost;
	return 0;
}

static void on_record(struct sink *sink, struct stream *stream, const struct record *record, const uint8_t *bytes, size_t size)
{
	struct sink_record *recorder = (struct sink_record *)sink;
	struct session *session;
	uint64_t now_ns;

	if (recorder->flight.over)
		return;
	if ((record->kind == RECORD_REPLY && !record->reply.code) || record->kind == RECORD_EVENTS)
		sink->output->held = false;
	if (record->kind == RECORD_HELLO)
		session_begin(recorder, stream, &record->hello);
	session = is_kept(record->kind) ? session_of(recorder, stream) : NULL;
	if (!session)
		return;
	now_ns = clock_now_ns();
	if (!session->records.size)
		session->since_ns = now_ns;
	buffer_add(&session->records, (const char *)bytes, size);
	session->lost += lost_of(stream, record);
	if (session->state)
		session_state_note(session->state, record, bytes, size);
	if (session->records.size >= recorder->block_size || now_ns - session->since_ns >= recorder->block_ns)
		recorder_write_block(recorder, session);
	flight_step(recorder, now_ns);
}

static void note_event(struct sink *sink, const struct fiber *fiber, uint64_t from_ns, uint64_t to_ns)
{
	struct session *session = session_of((struct sink_record *)sink, fiber->stream);
	uint64_t offset_ns = (uint64_t)fiber->stream->wall_offset_ns;

	if (!session)
		return;
	((struct sink_record *)sink)->events++;
	if (!session->events++)
		session->from_ns = from_ns + offset_ns;
	session->to_ns = to_ns + offset_ns;
}

static void on_start(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event)
{
	if (((struct sink_record *)sink)->manner.files)
		session_state_begin(fiber, event);
	call->truths = flight_truths((struct sink_record *)sink, call->method, event->values);
	note_event(sink, fiber, event->time_ns, event->time_ns);
}

static void on_end(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event, uint64_t duration_ns)
{
	session_state_end(fiber, call);
	note_event(sink, fiber, event->time_ns, event->time_ns);
	flight_call((struct sink_record *)sink, fiber,
	            &(struct trigger_call){.method = call->method,
	                                   .ending = event->ending,
	                                   .outcome = event->values,
	                                   .duration_ns = duration_ns,
	                                   .truths = call->truths});
}

static void on_whole(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	note_event(sink, fiber, event->time_ns, event->time_ns + event->duration_ns);
	flight_call((struct sink_record *)sink, fiber,
	            &(struct trigger_call){.method = method,
	                                   .ending = event->ending,
	                                   .outcome = event->outcome,
	                                   .duration_ns = event->duration_ns,
	                                   .truths = flight_truths((struct sink_record *)sink, method, event->values)});
}

static void on_mark(struct sink *sink, struct fiber *fiber, struct method *mark, const struct event *event)
{
	note_event(sink, fiber, event->time_ns, event->time_ns);
	flight_mark((struct sink_record *)sink, fiber, mark, event->values);
}

static void on_line(struct sink *sink, struct fiber *fiber, struct method *line, const struct event *event)
{
	note_event(sink, fiber, event->time_ns, event->time_ns);
	flight_line((struct sink_record *)sink, fiber, line, event->values);
}

static void on_open(struct sink *sink, struct fiber *fiber, struct call *call)
{
	session_state_end(fiber, call);
	flight_fiber_gone((struct sink_record *)sink, fiber);
}

static bool holds(const struct sink *sink)
{
	const struct sink_record *recorder = (const struct sink_record *)sink;

	for (size_t i = 0; i < recorder->count; i++)
		if (recorder->sessions[i].records.size)
			return true;
	return false;
}

static void write_all(struct sink *sink)
{
	struct sink_record *recorder = (struct sink_record *)sink;

	for (size_t i = 0; i < recorder->count; i++)
		recorder_write_block(recorder, &recorder->sessions[i]);
}

static void add_end(struct sink_record *recorder, const struct recording_end *end)
{
	if (recorder->flight.recent)
		recent_end(recorder->flight.recent, end);
	else
		recording_write_end(recorder->writer, end);
}

/* Now, whatever is waited for. */
static void asked(struct sink *sink)
{
	struct sink_record *recorder = (struct sink_record *)sink;

	if (recorder->manner.flight) {
		flight_write(recorder, "written on SIGUSR1");
		return;
	}
	write_all(sink);
	output_flush(sink->output);
	recorder->manner.up_to_now(recorder->manner.owner);
}

static bool has_enough(const struct sink *sink)
{
	return ((const struct sink_record *)sink)->flight.over;
}

static void summary(struct sink *sink, const struct sink_summary *summary)
{
	struct sink_record *recorder = (struct sink_record *)sink;

	for (size_t i = 0; i < recorder->count; i++) {
		struct session *session = &recorder->sessions[i];

		if (session->pid != summary->pid)
			continue;
		recorder->ran = true;
		add_block(recorder, session);
		add_end(recorder, &(struct recording_end){.session = session->number,
		                                          .duration_ns = summary->duration_ns,
		                                          .reason = {summary->reason, strlen(summary->reason)},
		                                          .gone = summary->gone});
		session_drop(recorder, session);
		output_flush(sink->output);
		return;
	}
}

/* Of a process that refused, there is no summary. The next file of --rotate must not look at its stream. */
static void on_gone(struct sink *sink, const struct stream *stream)
{
	struct sink_record *recorder = (struct sink_record *)sink;
	struct session *session = session_of(recorder, stream);

	if (session)
		session_drop(recorder, session);
}

struct sink *sink_record_new(struct output *output, const struct sink_style *style, const struct recording_head *head,
                             const struct record_manner *manner)
{
	struct sink *sink = sink_new(&sink_record, output, style);

	((struct sink_record *)sink)->head = *head;
	((struct sink_record *)sink)->manner = *manner;
	return sink;
}

void sink_record_end(struct sink *sink)
{
	struct sink_record *recorder = (struct sink_record *)sink;

	recorder_add_blocks(recorder);
	flight_end(recorder);
	if (sink->output->held) {
		sink->output->held = false;
		sink->output->buffer.size = 0;
	}
	output_flush(sink->output);
	progress_line_end(&recorder->progress);
}

bool sink_record_waits(const struct sink *sink)
{
	const struct sink_record *recorder = (const struct sink_record *)sink;

	return recorder->ran && recorder->flight.recent && recorder->manner.triggers->count && !recorder->flight.met;
}

bool sink_record_is_cut(const struct sink *sink)
{
	return recent_is_cut(((const struct sink_record *)sink)->flight.recent);
}

uint64_t sink_record_size(const struct sink *sink)
{
	return output_size(sink->output) - ((const struct sink_record *)sink)->file_began;
}

uint32_t sink_record_older(const struct sink *sink)
{
	const struct sink_record *recorder = (const struct sink_record *)sink;

	if (!recorder->rotated || recorder->rotated < recorder->manner.files)
		return recorder->rotated;
	return recorder->manner.files - 1;
}

static void close_recorder(struct sink *sink)
{
	struct sink_record *recorder = (struct sink_record *)sink;

	for (size_t i = 0; i < recorder->count; i++)
		session_free(&recorder->sessions[i]);
	free(recorder->sessions);
	flight_free(recorder);
	if (recorder->writer)
		recording_write_free(recorder->writer);
}

const struct sink_ops sink_record = {
	.name = "recording",
	.size = sizeof(struct sink_record),
	.start = on_start,
	.end = on_end,
	.whole = on_whole,
	.mark = on_mark,
	.line = on_line,
	.open = on_open,
	.quiet = write_all,
	.holds = holds,
	.wake_ns = recorder_wake_ns,
	.wake = recorder_wake,
	.asked = asked,
	.enough = has_enough,
	.record = on_record,
	.summary = summary,
	.gone = on_gone,
	.close = close_recorder,
};
