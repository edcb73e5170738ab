/* What threads do, as lines of JSON. See sink_json_threads.h. */

#include "tracer/stream/sink_json_threads.h"

#include "tracer/base/json.h"
#include "tracer/stream/thread_states.h"

void json_thread(struct sink *sink, struct stream *stream, const struct thread_span *span)
{
	struct buffer *to = &sink->output->buffer, name = {0};

	thread_states_add_name(stream, span->native_id, &name);
	json_open_object(to);
	json_member_string(to, "type", "thread");
	json_member_uint(to, "pid", (uint64_t)stream->pid);
	json_member_uint(to, "thread", span->native_id);
	json_member_text(to, "name", (struct slice){name.bytes, name.size});
	json_member_string(to, "doing", thread_doing_word(span->doing));
	json_member_uint(to, "start_ns", (uint64_t)((int64_t)span->from_ns + stream->wall_offset_ns));
	json_member_uint(to, "duration_ns", span->to_ns - span->from_ns);
	if (stream->states_rate_hz)
		json_member_uint(to, "sampled_hz", stream->states_rate_hz);
	json_close_line(to);
	output_commit(sink->output);
	buffer_free(&name);
}

void json_threads_lost(struct sink *sink, struct stream *stream, const struct threads_gap *gap)
{
	struct buffer *to = &sink->output->buffer;

	json_open_object(to);
	json_member_string(to, "type", "threads_lost");
	json_member_uint(to, "pid", (uint64_t)stream->pid);
	json_member_uint(to, "changes", gap->changes);
	if (gap->to_ns) {
		json_member_uint(to, "from_ns", (uint64_t)((int64_t)gap->from_ns + stream->wall_offset_ns));
		json_member_uint(to, "to_ns", (uint64_t)((int64_t)gap->to_ns + stream->wall_offset_ns));
	}
	json_close_line(to);
	output_commit(sink->output);
}
