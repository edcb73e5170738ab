/*
 * The JSON format: one object a line; the man page describes the fields. A call is written when it ends, so that everything about it is
 * in one object; its argument values wait in fiber->kept until then. Written by hand, since this is done a million times a second: what a line says about
 * its fiber and its method is made once, when it is first needed.
 */

#include "sink.h"

#include "proto/wire.h"

/* What comes first in each line of a fiber: {"type":"call","pid":...,"fiber":... */
static const struct buffer *fiber_part(struct fiber *fiber)
{
	struct buffer *to = &fiber->prepared;

	if (to->size)
		return to;
	buffer_add_text(to, "{\"type\":\"call\",\"pid\":");
	buffer_add_uint(to, (uint64_t)fiber->stream->pid);
	buffer_add_text(to, ",\"thread\":");
	buffer_add_uint(to, fiber->native_id ? fiber->native_id : fiber->thread_id);
	if (fiber->thread_name.size) {
		buffer_add_text(to, ",\"thread_name\":");
		buffer_add_json(to, fiber->thread_name);
	}
	buffer_add_text(to, ",\"fiber\":");
	buffer_add_uint(to, fiber->ref);
	if (fiber->created_at.size) {
		buffer_add_text(to, ",\"fiber_created_at\":");
		buffer_add_json(to, fiber->created_at);
	}
	return to;
}

/* And then in each of a method: ,"method":... up to the value of "depth". */
static const struct buffer *method_part(struct stream *stream, struct method *method)
{
	struct buffer *to = &method->prepared;
	struct buffer name = {0};

	if (to->size)
		return to;
	buffer_add_slice(&name, method->class_name);
	buffer_add_char(&name, method->separator);
	buffer_add_slice(&name, method->method_name);
	buffer_add_text(to, ",\"method\":");
	buffer_add_json(to, (struct slice){name.bytes, name.size});
	buffer_add_text(to, ",\"class\":");
	buffer_add_json(to, method->class_name);
	buffer_add_text(to, ",\"name\":");
	buffer_add_json(to, method->method_name);
	buffer_add_text(to, ",\"depth\":");
	stream->memory += to->capacity;
	buffer_free(&name);
	return to;
}

static struct slice label_of(const struct method *method, uint32_t index)
{
	return index < method->label_count ? method->labels[index] : (struct slice){"", 0};
}

static bool is_label(const struct method *method, uint32_t index, struct slice label)
{
	struct slice other = label_of(method, index);

	return other.size == label.size && memcmp(other.bytes, label.bytes, label.size) == 0;
}

/* A member for each value, and one only where several have the same label: the last one's value in the first one's place. */
static void add_values(struct buffer *to, const struct method *method, struct values values)
{
	uint32_t count = values.count;
	struct values rest = values;
	struct slice value;
	bool more = false;

	buffer_add_text(to, ",\"values\":{");
	for (uint32_t i = 0; values_next(&rest, &value); i++) {
		struct slice label = label_of(method, i);
		bool again = !value.bytes; /* or left out */

		for (uint32_t k = 0; k < i && !again; k++)
			again = is_label(method, k, label);
		if (again)
			continue;
		for (uint32_t k = i + 1; k < count; k++)
			if (is_label(method, k, label))
				value = values_get(values, k);
		if (more)
			buffer_add_char(to, ',');
		more = true;
		buffer_add_json(to, label);
		buffer_add_char(to, ':');
		buffer_add_json(to, value);
	}
	buffer_add_char(to, '}');
}

static uint64_t wall_ns(const struct stream *stream, uint64_t time_ns)
{
	return (uint64_t)((int64_t)time_ns + stream->wall_offset_ns);
}

/* Everything up to how it ended. */
static void add_begin(struct buffer *to, struct fiber *fiber, struct method *method, uint64_t start_ns,
                      const struct values *values)
{
	const struct buffer *part = fiber_part(fiber);

	buffer_add(to, part->bytes, part->size);
	part = method_part(fiber->stream, method);
	buffer_add(to, part->bytes, part->size);
	buffer_add_uint(to, fiber->depth);
	buffer_add_text(to, ",\"start_ns\":");
	buffer_add_uint(to, wall_ns(fiber->stream, start_ns));
	if (values->count)
		add_values(to, method, *values);
	if (method->file.bytes) {
		buffer_add_text(to, ",\"file\":");
		buffer_add_json(to, method->file);
		buffer_add_text(to, ",\"line\":");
		buffer_add_uint(to, method->line);
	}
}

static void add_end(struct buffer *to, enum ending ending, const struct values *outcome, uint64_t duration_ns)
{
	buffer_add_text(to, ",\"duration_ns\":");
	buffer_add_uint(to, duration_ns);
	buffer_add_text(to, ",\"ended\":\"");
	buffer_add_text(to, ending_name(ending));
	buffer_add_char(to, '"');
	if (outcome->count && ending == ENDING_RAISED) {
		buffer_add_text(to, ",\"exception\":{\"class\":");
		buffer_add_json(to, values_get(*outcome, 0));
		buffer_add_text(to, ",\"message\":");
		buffer_add_json(to, values_get(*outcome, 1));
		buffer_add_char(to, '}');
	} else if (outcome->count) {
		buffer_add_text(to, ",\"result\":");
		buffer_add_json(to, values_get(*outcome, 0));
	}
}

static void line_end(struct sink *sink)
{
	buffer_add(&sink->output->buffer, "}\n", 2);
	output_commit(sink->output);
}

/* Values are kept as they came: their number, and their bytes. What else the line takes is made now, while it can still be too much. */
static void json_start(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event)
{
	(void)sink;
	method_part(fiber->stream, call->method);
	if (event->values.count == 0)
		return;
	buffer_add(&fiber->kept, (const char *)&event->values.count, sizeof(event->values.count));
	buffer_add(&fiber->kept, (const char *)event->values.bytes, (size_t)(event->values.end - event->values.bytes));
}

static struct values kept_values(const struct fiber *fiber, const struct call *call)
{
	const char *from = fiber->kept.bytes + call->kept;
	struct values values = {0};

	if (fiber->kept.size == call->kept)
		return values;
	memcpy(&values.count, from, sizeof(values.count));
	values.bytes = (const uint8_t *)from + sizeof(values.count);
	values.end = (const uint8_t *)fiber->kept.bytes + fiber->kept.size;
	return values;
}

static void add_kept_begin(struct sink *sink, struct fiber *fiber, const struct call *call)
{
	struct values values = kept_values(fiber, call);

	add_begin(&sink->output->buffer, fiber, call->method, call->start_ns, &values);
	fiber->kept.size = call->kept;
}

static void json_end(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event, uint64_t duration_ns)
{
	add_kept_begin(sink, fiber, call);
	if (call->retries) {
		buffer_add_text(&sink->output->buffer, ",\"retries\":");
		buffer_add_uint(&sink->output->buffer, call->retries);
	}
	add_end(&sink->output->buffer, event->ending, &event->values, duration_ns);
	line_end(sink);
}

static void json_whole(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	struct buffer *to = &sink->output->buffer;

	add_begin(to, fiber, method, event->time_ns, &event->values);
	add_end(to, event->ending, &event->outcome, event->duration_ns);
	line_end(sink);
}

static void json_open(struct sink *sink, struct fiber *fiber, struct call *call)
{
	if (output_is_flood(sink->output)) {
		fiber->stream->open_left_out++;
		fiber->kept.size = call->kept;
		return;
	}
	add_kept_begin(sink, fiber, call);
	buffer_add_text(&sink->output->buffer, ",\"ended\":\"open\"");
	line_end(sink);
}

static void json_lost(struct sink *sink, struct stream *stream, const struct record_lost *lost)
{
	struct buffer *to = &sink->output->buffer;

	buffer_add_text(to, "{\"type\":\"lost\",\"pid\":");
	buffer_add_uint(to, (uint64_t)stream->pid);
	buffer_add_text(to, ",\"calls\":");
	buffer_add_uint(to, lost->calls);
	buffer_add_text(to, ",\"from_ns\":");
	buffer_add_uint(to, wall_ns(stream, lost->from_ns));
	buffer_add_text(to, ",\"to_ns\":");
	buffer_add_uint(to, wall_ns(stream, lost->to_ns));
	line_end(sink);
}

static void json_unmatched(struct sink *sink, pid_t pid, const char *selector)
{
	struct buffer *to = &sink->output->buffer;

	buffer_add_text(to, "{\"type\":\"unmatched\",\"pid\":");
	buffer_add_uint(to, (uint64_t)pid);
	buffer_add_text(to, ",\"selector\":");
	buffer_add_json(to, (struct slice){selector, strlen(selector)});
	line_end(sink);
}

static void json_summary(struct sink *sink, const struct sink_summary *summary)
{
	struct buffer *to = &sink->output->buffer;

	buffer_add_text(to, "{\"type\":\"summary\",\"pid\":");
	buffer_add_uint(to, (uint64_t)summary->pid);
	buffer_add_text(to, ",\"calls\":");
	buffer_add_uint(to, summary->calls);
	buffer_add_text(to, ",\"lost\":");
	buffer_add_uint(to, summary->lost);
	buffer_add_text(to, ",\"duration_ns\":");
	buffer_add_uint(to, summary->duration_ns);
	buffer_add_text(to, ",\"reason\":");
	buffer_add_json(to, (struct slice){summary->reason, strlen(summary->reason)});
	line_end(sink);
}

const struct sink_ops sink_json = {
	.name = "json",
	.size = sizeof(struct sink),
	.start = json_start,
	.end = json_end,
	.whole = json_whole,
	.open = json_open,
	.lost = json_lost,
	.unmatched = json_unmatched,
	.summary = json_summary,
};
