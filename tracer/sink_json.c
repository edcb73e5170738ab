/*
 * The JSON format: one object a line; the man page describes the fields. A call is written when it ends, so that everything about it is
 * in one object; its argument values wait in fiber->kept until then.
 */

#include "sink.h"

#include "proto/wire.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

struct json_sink {
	struct sink sink;
	struct buffer scratch;
};

/* jansson wants valid UTF-8; names and values of a target may hold anything. */
static const char *scratch_text(struct json_sink *json, struct slice text)
{
	json->scratch.size = 0;
	buffer_add_utf8(&json->scratch, text.bytes, text.size);
	buffer_add_char(&json->scratch, '\0');
	return json->scratch.bytes;
}

static json_t *text_value(struct json_sink *json, struct slice text)
{
	const char *bytes = scratch_text(json, text);

	return json_stringn_nocheck(bytes, json->scratch.size - 1);
}

static void set(json_t *object, const char *key, json_t *value)
{
	json_object_set_new_nocheck(object, key, value);
}

static void set_number(json_t *object, const char *key, uint64_t number)
{
	set(object, key, json_integer((json_int_t)number));
}

static int add_to_output(const char *bytes, size_t size, void *data)
{
	buffer_add(data, bytes, size);
	return 0;
}

static void write_line(struct json_sink *json, json_t *object)
{
	struct output *output = json->sink.output;

	if (json_dump_callback(object, add_to_output, &output->buffer, JSON_COMPACT) != 0 && output->status == 0)
		output->status = error_set(&output->error, -ENOMEM, "cannot make JSON: out of memory");
	buffer_add_char(&output->buffer, '\n');
	json_decref(object);
	output_commit(output);
}

static uint64_t wall_ns(const struct stream *stream, uint64_t time_ns)
{
	return (uint64_t)((int64_t)time_ns + stream->wall_offset_ns);
}

/* A value is kept as its size and its bytes. */
static void json_start(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event)
{
	(void)sink;
	(void)call;
	for (uint32_t i = 0; i < event->value_count; i++) {
		struct slice value = event_value(event, i);

		buffer_add(&fiber->kept, (const char *)&value.size, sizeof(value.size));
		buffer_add_slice(&fiber->kept, value);
	}
}

static json_t *kept_values(struct json_sink *json, struct fiber *fiber, const struct call *call)
{
	json_t *values = json_object();
	size_t offset = call->kept;

	for (uint32_t i = 0; offset < fiber->kept.size; i++) {
		struct slice value;
		json_t *text;

		memcpy(&value.size, fiber->kept.bytes + offset, sizeof(value.size));
		value.bytes = fiber->kept.bytes + offset + sizeof(value.size);
		offset += sizeof(value.size) + value.size;
		text = text_value(json, value);
		set(values, i < call->method->label_count ? scratch_text(json, call->method->labels[i]) : "", text);
	}
	fiber->kept.size = call->kept;
	return values;
}

static json_t *call_object(struct json_sink *json, struct fiber *fiber, const struct call *call)
{
	const struct method *method = call->method;
	json_t *object = json_object();
	bool values = fiber->kept.size > call->kept;

	set(object, "type", json_string("call"));
	set_number(object, "pid", (uint64_t)fiber->stream->pid);
	set_number(object, "thread", fiber->native_id ? fiber->native_id : fiber->thread_id);
	if (fiber->thread_name.size)
		set(object, "thread_name", text_value(json, fiber->thread_name));
	set_number(object, "fiber", fiber->ref);
	if (fiber->created_at.size)
		set(object, "fiber_created_at", text_value(json, fiber->created_at));
	json->scratch.size = 0;
	buffer_add_utf8(&json->scratch, method->class_name.bytes, method->class_name.size);
	buffer_add_char(&json->scratch, method->separator);
	buffer_add_utf8(&json->scratch, method->method_name.bytes, method->method_name.size);
	set(object, "method", json_stringn_nocheck(json->scratch.bytes, json->scratch.size));
	set(object, "class", text_value(json, method->class_name));
	set(object, "name", text_value(json, method->method_name));
	set_number(object, "depth", fiber->depth);
	set_number(object, "start_ns", wall_ns(fiber->stream, call->start_ns));
	if (values)
		set(object, "values", kept_values(json, fiber, call));
	if (method->file.bytes) {
		set(object, "file", text_value(json, method->file));
		set_number(object, "line", method->line);
	}
	return object;
}

static void json_end(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event)
{
	struct json_sink *json = (struct json_sink *)sink;
	json_t *object = call_object(json, fiber, call);

	set_number(object, "duration_ns", call_duration_ns(call, event));
	set(object, "ended", json_string(ending_name(event->ending)));
	if (event->ending == ENDING_RAISED && event->value_count) {
		json_t *exception = json_object();

		set(exception, "class", text_value(json, event_value(event, 0)));
		set(exception, "message", text_value(json, event_value(event, 1)));
		set(object, "exception", exception);
	} else if (event->value_count) {
		set(object, "result", text_value(json, event_value(event, 0)));
	}
	write_line(json, object);
}

static void json_open(struct sink *sink, struct fiber *fiber, struct call *call)
{
	struct json_sink *json = (struct json_sink *)sink;
	json_t *object = call_object(json, fiber, call);

	set(object, "ended", json_string("open"));
	write_line(json, object);
}

static void json_lost(struct sink *sink, struct stream *stream, const struct record_lost *lost)
{
	json_t *object = json_object();

	set(object, "type", json_string("lost"));
	set_number(object, "pid", (uint64_t)stream->pid);
	set_number(object, "calls", lost->calls);
	set_number(object, "from_ns", wall_ns(stream, lost->from_ns));
	set_number(object, "to_ns", wall_ns(stream, lost->to_ns));
	write_line((struct json_sink *)sink, object);
}

static void json_summary(struct sink *sink, const struct sink_summary *summary)
{
	struct json_sink *json = (struct json_sink *)sink;
	json_t *object = json_object();

	set(object, "type", json_string("summary"));
	set_number(object, "pid", (uint64_t)summary->pid);
	set_number(object, "calls", summary->calls);
	set_number(object, "lost", summary->lost);
	set_number(object, "duration_ns", summary->duration_ns);
	set(object, "reason", text_value(json, (struct slice){summary->reason, strlen(summary->reason)}));
	write_line(json, object);
}

static void json_close(struct sink *sink)
{
	buffer_free(&((struct json_sink *)sink)->scratch);
}

const struct sink_ops sink_json = {
	.name = "json",
	.size = sizeof(struct json_sink),
	.start = json_start,
	.end = json_end,
	.open = json_open,
	.lost = json_lost,
	.summary = json_summary,
	.close = json_close,
};
