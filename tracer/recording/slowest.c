/* The slowest calls. See slowest.h. */

#include "tracer/recording/slowest.h"

#include "tracer/base/json.h"
#include "tracer/recording/texts.h"
#include "tracer/stream/sink_text_parts.h"

#include <stdlib.h>

struct kept_line {
	uint64_t duration_ns, start_ns;
	struct waits_place place;
	struct buffer line;
};

/* A heap, whose first is the fastest of them. */
struct slowest {
	uint32_t room, count;
	slowest_writer *write;
	struct waits *waits;
	struct second_text second;
	struct kept_line lines[];
};

struct slowest *slowest_new(uint32_t count, slowest_writer *write, struct waits *waits)
{
	struct slowest *slowest = memory_zeroed(sizeof(*slowest) + count * sizeof(*slowest->lines));

	slowest->room = count;
	slowest->write = write;
	slowest->waits = waits;
	slowest->second.second = INT64_MIN;
	return slowest;
}

void slowest_free(struct slowest *slowest)
{
	if (!slowest)
		return;
	for (uint32_t i = 0; i < slowest->count; i++)
		buffer_free(&slowest->lines[i].line);
	free(slowest);
}

bool slowest_wants(const struct slowest *slowest, uint64_t duration_ns)
{
	return slowest->count < slowest->room || duration_ns > slowest->lines[0].duration_ns;
}

static void swap(struct kept_line *one, struct kept_line *other)
{
	struct kept_line line = *one;

	*one = *other;
	*other = line;
}

static void rise(struct slowest *slowest, uint32_t at)
{
	for (; at && slowest->lines[at].duration_ns < slowest->lines[(at - 1) / 2].duration_ns; at = (at - 1) / 2)
		swap(&slowest->lines[at], &slowest->lines[(at - 1) / 2]);
}

static void sink_down(struct slowest *slowest)
{
	for (uint32_t at = 0, least;; at = least) {
		least = at;
		for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < slowest->count; child++)
			if (slowest->lines[child].duration_ns < slowest->lines[least].duration_ns)
				least = child;
		if (least == at)
			return;
		swap(&slowest->lines[at], &slowest->lines[least]);
	}
}

void slowest_json(struct buffer *to, const struct sink *sink, const struct fiber *fiber, const struct slow_call *call)
{
	struct values values = call->values;
	const struct labels *labels = &call->method->labels;
	struct slice text;

	(void)sink;
	json_open_object(to);
	json_member_string(to, "type", "slow_call");
	json_member_uint(to, "pid", (uint64_t)fiber->stream->pid);
	json_member_uint(to, "thread", fiber->native_id);
	if (fiber->thread_name.size)
		json_member_text(to, "thread_name", fiber->thread_name);
	json_member_text(to, "method", call->method->shown);
	json_member_uint(to, "start_ns", call->start_ns + (uint64_t)fiber->stream->wall_offset_ns);
	json_member_uint(to, "duration_ns", call->duration_ns);
	json_member_bool(to, "raised", call->ending == ENDING_RAISED);
	json_open_object(json_key(to, "values"));
	for (uint32_t i = 0; i < labels->count && values_next(&values, &text); i++)
		if (text.bytes)
			json_quote(json_key_text(to, labels->names[i]), text);
	json_close_object(to);
	json_close_line(to);
}

static void add_text(struct slowest *slowest, struct buffer *to, const struct sink *sink, const struct fiber *fiber,
                     const struct slow_call *call)
{
	sink_text_add_start_time(&slowest->second, to, fiber->stream, call->start_ns);
	sink_text_add_pid(sink, to, fiber->stream);
	buffer_add_char(to, '[');
	texts_add_thread(to, fiber);
	buffer_add_text(to, "] ");
	buffer_add_slice(to, call->method->shown);
	if (call->values.count) {
		buffer_add_char(to, '(');
		sink_text_add_values(sink, to, &call->method->labels, call->values, (struct slice){", ", 2});
		buffer_add_char(to, ')');
	}
	sink_text_add_end(sink, to, fiber, call->method, false, call->ending, &call->outcome, call->retries, call->duration_ns);
	if (to->bytes[to->size - 1] != '\n')
		buffer_add_char(to, '\n');
}

void slowest_add(struct slowest *slowest, const struct sink *sink, const struct fiber *fiber, const struct slow_call *call)
{
	bool full = slowest->count == slowest->room;
	struct kept_line *line = &slowest->lines[full ? 0 : slowest->count++];

	line->duration_ns = call->duration_ns;
	line->start_ns = call->start_ns;
	if (slowest->waits)
		line->place = waits_place(slowest->waits, fiber, call->start_ns, call->duration_ns);
	line->line.size = 0;
	if (slowest->write)
		slowest->write(&line->line, sink, fiber, call);
	else
		add_text(slowest, &line->line, sink, fiber, call);
	if (full)
		sink_down(slowest);
	else
		rise(slowest, slowest->count - 1);
}

static int compare(const void *one, const void *other)
{
	const struct kept_line *a = one, *b = other;

	if (a->duration_ns != b->duration_ns)
		return a->duration_ns > b->duration_ns ? -1 : 1;
	return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

void slowest_show(struct slowest *slowest, struct buffer *to)
{
	qsort(slowest->lines, slowest->count, sizeof(*slowest->lines), compare);
	for (uint32_t i = 0; i < slowest->count; i++) {
		const struct kept_line *line = &slowest->lines[i];
		bool explained = slowest->waits && waits_any(slowest->waits);

		/* A line of JSON goes on before its last bracket. */
		buffer_add(to, line->line.bytes, line->line.size - (explained && slowest->write ? 2 : 0));
		if (!explained)
			continue;
		if (slowest->write) {
			waits_explain_json(slowest->waits, &line->place, to);
			json_close_line(to);
		} else {
			buffer_add_spaces(to, 3);
			waits_explain(slowest->waits, &line->place, to);
			buffer_add_char(to, '\n');
		}
	}
}
