/*
 * The JSON format: one object a line; the man page describes the fields. A call is written when it ends, so that
 * everything about it is in one object; its argument values wait in fiber->kept until then. This is done a million times
 * a second: what a line says about its fiber and its method is made once, when it is first needed.
 */

#include "tracer/stream/sink.h"
#include "tracer/stream/sink_json_threads.h"

#include "proto/wire.h"
#include "tracer/base/json.h"
#include "tracer/stream/callers.h"
#include "tracer/stream/measures.h"

struct json_sink {
	struct sink sink;
	struct fiber *held_first, *held_last; /* fibers with calls that are not told yet to be running */
};

/* What comes first in each line of a fiber: {"type":...,"pid":...,"fiber":... */
static void add_fiber(struct buffer *to, const char *type, const struct fiber *fiber)
{
	json_open_object(to);
	json_member_string(to, "type", type);
	json_member_uint(to, "pid", (uint64_t)fiber->stream->pid);
	json_member_uint(to, "thread", fiber->native_id ? fiber->native_id : fiber->thread_id);
	if (fiber->thread_name.size)
		json_member_text(to, "thread_name", fiber->thread_name);
	json_member_uint(to, "fiber", fiber->ref);
	if (fiber->created_at.size)
		json_member_text(to, "fiber_created_at", fiber->created_at);
}

/* The same of a call. */
static const struct buffer *fiber_part(struct fiber *fiber)
{
	struct buffer *to = &fiber->prepared;

	if (!to->size)
		add_fiber(to, "call", fiber);
	return to;
}

/* And then in each of a method: "method":... up to the key of the depth. */
static const struct buffer *method_part(struct stream *stream, struct method *method)
{
	struct buffer *to = &method->prepared;
	struct buffer name = {0};

	if (to->size)
		return to;
	buffer_add_slice(&name, method->class_name);
	if (method->class_name.size)
		buffer_add_char(&name, method->separator);
	buffer_add_slice(&name, method->method_name);
	json_member_text(to, "method", (struct slice){name.bytes, name.size});
	json_member_text(to, "class", method->class_name);
	json_member_text(to, "name", method->method_name);
	json_key(to, "depth");
	stream->memory += to->capacity;
	buffer_free(&name);
	return to;
}

static struct slice label_of(const struct labels *labels, uint32_t index)
{
	return index < labels->count ? labels->names[index] : (struct slice){"", 0};
}

static bool is_label(const struct labels *labels, uint32_t index, struct slice label)
{
	struct slice other = label_of(labels, index);

	return other.size == label.size && memcmp(other.bytes, label.bytes, label.size) == 0;
}

/* A member for each value, and one only where several have the same label: the last one's value in the first one's place. */
static void add_values(struct buffer *to, const char *key, const struct labels *labels, struct values values)
{
	uint32_t count = values.count;
	struct values rest = values;
	struct slice value;

	json_open_object(json_key(to, key));
	for (uint32_t i = 0; values_next(&rest, &value); i++) {
		struct slice label = label_of(labels, i);
		bool again = !value.bytes; /* or left out */

		for (uint32_t k = 0; k < i && !again; k++)
			again = is_label(labels, k, label);
		if (again)
			continue;
		for (uint32_t k = i + 1; k < count; k++)
			if (is_label(labels, k, label))
				value = values_get(values, k);
		json_quote(json_key_text(to, label), value);
	}
	json_close_object(to);
}

static uint64_t wall_ns(const struct stream *stream, uint64_t time_ns)
{
	return (uint64_t)((int64_t)time_ns + stream->wall_offset_ns);
}

/* The method, where it is in the tree, when it was, and what it had. */
static void add_middle(struct buffer *to, struct fiber *fiber, uint32_t depth, struct method *method, const char *time_key,
                       uint64_t time_ns, const struct values *values)
{
	json_add_members(to, method_part(fiber->stream, method));
	json_add_uint(to, depth);
	json_member_uint(to, time_key, wall_ns(fiber->stream, time_ns));
	if (values->count)
		add_values(to, "values", &method->labels, *values);
	if (method->file.bytes) {
		json_member_text(to, "file", method->file);
		json_member_int(to, "line", method->line);
	}
}

/* Everything up to how it ended. */
static void add_begin(struct buffer *to, struct fiber *fiber, struct method *method, uint64_t start_ns,
                      const struct values *values)
{
	json_add_members(to, fiber_part(fiber));
	add_middle(to, fiber, fiber->depth, method, "start_ns", start_ns, values);
}

static void add_end(const struct sink *sink, const struct stream *stream, const struct method *method, enum ending ending,
                    const struct values *outcome, uint64_t duration_ns)
{
	struct buffer *to = &sink->output->buffer;
	struct values texts = *outcome, locals;
	struct measures measures = measures_take(&texts, sink->style.flags);
	bool has_locals = values_take_array(&texts, &locals);

	json_member_uint(to, "duration_ns", duration_ns);
	measures_add_json(to, &measures);
	json_member_string(to, "ended", ending_name(ending));
	if (texts.count && ending == ENDING_RAISED) {
		json_open_object(json_key(to, "exception"));
		json_member_text(to, "class", values_get(texts, 0));
		json_member_text(to, "message", values_get(texts, 1));
		json_close_object(to);
	} else if (texts.count) {
		json_member_text(to, "result", values_get(texts, 0));
	}
	if (has_locals)
		add_values(to, "locals", &method->locals, locals);
	if (measures.flags & TRACE_STACK)
		callers_add_json(to, stream, measures_stack(&measures));
}

static void line_end(struct sink *sink)
{
	json_close_line(&sink->output->buffer);
	output_commit(sink->output);
}

/* A fiber is listed while one of its open calls is held: not told yet that it is running. */
static void hold(struct json_sink *json, struct fiber *fiber, struct call *call)
{
	call->held = true;
	if (fiber->held_before || json->held_first == fiber)
		return;
	fiber->held_before = json->held_last;
	if (json->held_last)
		json->held_last->held_after = fiber;
	else
		json->held_first = fiber;
	json->held_last = fiber;
}

static void unlist(struct json_sink *json, struct fiber *fiber)
{
	if (fiber->held_before)
		fiber->held_before->held_after = fiber->held_after;
	else
		json->held_first = fiber->held_after;
	if (fiber->held_after)
		fiber->held_after->held_before = fiber->held_before;
	else
		json->held_last = fiber->held_before;
	fiber->held_before = fiber->held_after = NULL;
}

/* The innermost call is over. */
static void let_go(struct sink *sink, struct fiber *fiber, struct call *call)
{
	if (!call->held)
		return;
	call->held = false;
	for (uint32_t i = 0; i < fiber->depth; i++)
		if (fiber->calls[i].held)
			return;
	unlist((struct json_sink *)sink, fiber);
}

/*
 * Values are kept as they came: their number, and their bytes. What else the line takes is made now, while it can still
 * be too much.
 */
static void json_start(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event)
{
	if (sink->style.running)
		hold((struct json_sink *)sink, fiber, call);
	method_part(fiber->stream, call->method);
	if (event->values.count == 0)
		return;
	buffer_add(&fiber->kept, (const char *)&event->values.count, sizeof(event->values.count));
	buffer_add(&fiber->kept, (const char *)event->values.bytes, (size_t)(event->values.end - event->values.bytes));
}

/* end: where those of the next call begin. */
static struct values kept_values(const struct fiber *fiber, const struct call *call, size_t end)
{
	const char *from = fiber->kept.bytes + call->kept;
	struct values values = {0};

	if (end == call->kept)
		return values;
	memcpy(&values.count, from, sizeof(values.count));
	values.bytes = (const uint8_t *)from + sizeof(values.count);
	values.end = (const uint8_t *)fiber->kept.bytes + end;
	return values;
}

/* A call that is reported before it ends. */
static void add_running(struct sink *sink, struct fiber *fiber, uint32_t depth)
{
	struct buffer *to = &sink->output->buffer;
	const struct call *call = &fiber->calls[depth];
	size_t end = depth + 1 < fiber->depth ? fiber->calls[depth + 1].kept : fiber->kept.size;
	struct values values = kept_values(fiber, call, end);

	add_fiber(to, "running", fiber);
	add_middle(to, fiber, depth, call->method, "start_ns", call->start_ns, &values);
	line_end(sink);
}

static void json_quiet(struct sink *sink)
{
	struct json_sink *json = (struct json_sink *)sink;

	while (json->held_first) {
		struct fiber *fiber = json->held_first;

		for (uint32_t i = 0; i < fiber->depth; i++)
			if (fiber->calls[i].held) {
				fiber->calls[i].held = false;
				add_running(sink, fiber, i);
			}
		unlist(json, fiber);
	}
}

static bool json_holds(const struct sink *sink)
{
	return ((const struct json_sink *)sink)->held_first != NULL;
}

static void add_kept_begin(struct sink *sink, struct fiber *fiber, const struct call *call)
{
	struct values values = kept_values(fiber, call, fiber->kept.size);

	add_begin(&sink->output->buffer, fiber, call->method, call->start_ns, &values);
	fiber->kept.size = call->kept;
}

static void json_end(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event, uint64_t duration_ns)
{
	let_go(sink, fiber, call);
	add_kept_begin(sink, fiber, call);
	if (call->retries)
		json_member_uint(&sink->output->buffer, "retries", call->retries);
	add_end(sink, fiber->stream, call->method, event->ending, &event->values, duration_ns);
	line_end(sink);
}

static void json_whole(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	struct buffer *to = &sink->output->buffer;

	add_begin(to, fiber, method, event->time_ns, &event->values);
	add_end(sink, fiber->stream, method, event->ending, &event->outcome, event->duration_ns);
	line_end(sink);
}

/* In decimal digits; what is none is 0. */
static uint64_t number_of(struct slice text)
{
	uint64_t number = 0;

	for (size_t i = 0; i < text.size && text.bytes[i] >= '0' && text.bytes[i] <= '9'; i++)
		number = number * 10 + (uint64_t)(text.bytes[i] - '0');
	return number;
}

/* Of a line, perhaps negative. */
static void add_number(struct buffer *to, const char *key, struct slice text)
{
	if (text.size && *text.bytes == '-')
		json_member_int(to, key, -(int64_t)(number_of((struct slice){text.bytes + 1, text.size - 1}) & INT64_MAX));
	else
		json_member_uint(to, key, number_of(text));
}

static void add_mark_value(struct buffer *to, const struct mark_form *form, uint32_t index, struct slice value)
{
	if (value.bytes && form->numbers & 1u << index)
		add_number(to, form->labels[index], value);
	else if (value.bytes)
		json_member_text(to, form->labels[index], value);
	else if (form->nulls & 1u << index)
		json_add_null(json_key(to, form->labels[index]));
}

static void json_mark(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	struct buffer *to = &sink->output->buffer;
	const struct mark_form *form = method->mark;
	struct values values = event->values;

	add_fiber(to, form->name, fiber);
	json_member_uint(to, "depth", fiber->depth);
	json_member_uint(to, "time_ns", wall_ns(fiber->stream, event->time_ns));
	for (uint32_t i = 0; i < MARK_VALUES_MAX && form->labels[i]; i++) {
		struct slice value = {NULL, 0};
		bool sent = values_next(&values, &value);

		if (sent && form->stack && i == form->stack)
			callers_add_json(to, fiber->stream, value.bytes ? number_of(value) : UINT64_MAX);
		else
			add_mark_value(to, form, i, value);
	}
	line_end(sink);
}

static void json_line(struct sink *sink, struct fiber *fiber, struct method *line, const struct event *event)
{
	struct buffer *to = &sink->output->buffer;
	struct values values = event->values;
	struct measures measures = measures_take_stack(&values, sink->style.flags);

	add_fiber(to, "line", fiber);
	add_middle(to, fiber, fiber->depth, line, "time_ns", event->time_ns, &values);
	if (measures.flags)
		callers_add_json(to, fiber->stream, measures_stack(&measures));
	line_end(sink);
}

static void json_open(struct sink *sink, struct fiber *fiber, struct call *call)
{
	let_go(sink, fiber, call);
	if (output_is_flood(sink->output)) {
		fiber->stream->open_left_out++;
		fiber->kept.size = call->kept;
		return;
	}
	add_kept_begin(sink, fiber, call);
	json_member_string(&sink->output->buffer, "ended", "open");
	line_end(sink);
}

/* A line that is not about a call. */
static struct buffer *line_begin(struct sink *sink, const char *type, pid_t pid)
{
	struct buffer *to = &sink->output->buffer;

	json_open_object(to);
	json_member_string(to, "type", type);
	json_member_uint(to, "pid", (uint64_t)pid);
	return to;
}

static void json_lost(struct sink *sink, struct stream *stream, const struct record_lost *lost)
{
	struct buffer *to = line_begin(sink, "lost", stream->pid);

	json_member_uint(to, "calls", lost->calls);
	json_member_uint(to, "from_ns", wall_ns(stream, lost->from_ns));
	json_member_uint(to, "to_ns", wall_ns(stream, lost->to_ns));
	line_end(sink);
}

static void json_unmatched(struct sink *sink, pid_t pid, const char *selector)
{
	json_member_string(line_begin(sink, "unmatched", pid), "selector", selector);
	line_end(sink);
}

static void json_note(struct sink *sink, pid_t pid, struct slice text)
{
	json_member_text(line_begin(sink, "note", pid), "text", text);
	line_end(sink);
}

static void json_totals(struct sink *sink, struct stream *stream, const struct record_totals *totals)
{
	const struct mark_form *form = mark_form(totals->mark);
	struct buffer *to = line_begin(sink, "totals", stream->pid);

	json_member_string(to, "of", form->name);
	if (totals->native_id) {
		json_member_uint(to, "thread", totals->native_id);
		if (totals->thread_name.size)
			json_member_text(to, "thread_name", totals->thread_name);
	}
	if (totals->mark == MARK_ALLOCATION)
		json_member_text(to, "class", totals->thread_name);
	json_member_uint(to, "elapsed_ns", totals->elapsed_ns);
	for (uint32_t i = 0; i < totals->count && form->totals[i]; i++)
		json_member_uint(to, form->totals[i], totals->numbers[i]);
	line_end(sink);
}

static void json_summary(struct sink *sink, const struct sink_summary *summary)
{
	struct buffer *to = line_begin(sink, "summary", summary->pid);

	json_member_uint(to, "calls", summary->calls);
	if (summary->lines)
		json_member_uint(to, "lines", summary->lines);
	json_member_uint(to, "lost", summary->lost);
	if (summary->left_out)
		json_member_uint(to, "left_out", summary->left_out);
	if (summary->counted)
		json_member_uint(to, "counted", summary->counted);
	for (uint32_t kind = 0; kind < MARK_COUNT; kind++)
		if (summary->mark_kinds & 1u << kind)
			json_member_uint(to, mark_form(kind)->plural, summary->marks[kind]);
	if (summary->mark_kinds)
		json_member_uint(to, "events_lost", summary->marks_lost);
	if (summary->marks_left_out)
		json_member_uint(to, "events_left_out", summary->marks_left_out);
	json_member_uint(to, "duration_ns", summary->duration_ns);
	json_member_string(to, "reason", summary->reason);
	line_end(sink);
}

const struct sink_ops sink_json = {
	.name = "json",
	.size = sizeof(struct json_sink),
	.start = json_start,
	.end = json_end,
	.whole = json_whole,
	.mark = json_mark,
	.line = json_line,
	.thread = json_thread,
	.threads_lost = json_threads_lost,
	.open = json_open,
	.lost = json_lost,
	.quiet = json_quiet,
	.holds = json_holds,
	.unmatched = json_unmatched,
	.note = json_note,
	.totals = json_totals,
	.summary = json_summary,
};
