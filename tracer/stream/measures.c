/* What was measured of a call, shown. See measures.h. */

#include "tracer/stream/measures.h"

#include "proto/wire.h"
#include "tracer/base/json.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

static const struct kind {
	uint32_t flag;
	const char *word;
	const char *member;
	bool is_time;
} kinds[MEASURES_MAX] = {
	{.flag = TRACE_CPU, .word = "cpu ", .member = "cpu_ns", .is_time = true},
	{.flag = TRACE_OBJECTS, .word = "alloc ", .member = "objects"},
	{.flag = TRACE_GC, .word = "gc ", .member = "gc_ns", .is_time = true},
	/* Shown as ids. */
	{.flag = TRACE_SPAN},
	{.flag = TRACE_SPAN},
	{.flag = TRACE_SPAN},
	{.flag = TRACE_STACK}, /* callers.h shows it */
};

struct measures measures_take(struct values *values, uint32_t flags)
{
	struct measures measures = {.flags = flags & TRACE_MEASURES};
	uint64_t numbers[MEASURES_MAX];
	uint32_t wanted = 0, count, next = 0;

	if (!measures.flags)
		return measures;
	for (uint32_t i = 0; i < MEASURES_MAX; i++)
		wanted += (flags & kinds[i].flag) != 0;
	count = values_take_numbers(values, numbers, MEASURES_MAX);
	if (count != wanted) {
		measures.flags = 0;
		return measures;
	}
	for (uint32_t i = 0; i < MEASURES_MAX; i++)
		if (flags & kinds[i].flag)
			measures.numbers[i] = numbers[next++];
	return measures;
}

struct measures measures_take_stack(struct values *values, uint32_t flags)
{
	struct measures measures = {.flags = flags & TRACE_STACK};

	for (uint32_t i = 0; i < MEASURES_MAX; i++)
		if (kinds[i].flag == TRACE_STACK && measures.flags && !values_take_last_number(values, &measures.numbers[i]))
			measures.flags = 0;
	return measures;
}

bool measures_span_text(const struct measures *measures, struct span_text *text)
{
	const uint64_t *ids = measures_span(measures);

	*text = (struct span_text){0};
	if (!ids)
		return false;
	snprintf(text->trace, sizeof(text->trace), "%016" PRIx64 "%016" PRIx64, ids[0], ids[1]);
	snprintf(text->id, sizeof(text->id), "%016" PRIx64, ids[2]);
	return true;
}

static void add_blank(struct buffer *to)
{
	if (to->bytes[to->size - 1] != '<')
		buffer_add_char(to, ' ');
}

void measures_add_text(struct buffer *to, const struct measures *measures)
{
	struct span_text span;

	for (uint32_t i = 0; i < MEASURES_MAX; i++) {
		if (!(measures->flags & kinds[i].flag) || !kinds[i].word)
			continue;
		add_blank(to);
		buffer_add_text(to, kinds[i].word);
		if (measures->numbers[i] == EVENT_NOT_KNOWN)
			buffer_add_char(to, '?');
		else if (kinds[i].is_time)
			buffer_add_seconds(to, measures->numbers[i]);
		else
			buffer_add_uint(to, measures->numbers[i]);
	}
	if (!measures_span_text(measures, &span))
		return;
	add_blank(to);
	buffer_add_format(to, "trace %s span %s", span.trace, span.id);
}

static void add_id(struct buffer *to, const char *key, const char *id)
{
	if (*id)
		json_member_string(to, key, id);
	else
		json_add_null(json_key(to, key));
}

void measures_add_json(struct buffer *to, const struct measures *measures)
{
	struct span_text span;

	for (uint32_t i = 0; i < MEASURES_MAX; i++) {
		if (!(measures->flags & kinds[i].flag) || !kinds[i].word)
			continue;
		if (measures->numbers[i] == EVENT_NOT_KNOWN)
			json_add_null(json_key(to, kinds[i].member));
		else
			json_member_uint(to, kinds[i].member, measures->numbers[i]);
	}
	if (!(measures->flags & TRACE_SPAN))
		return;
	measures_span_text(measures, &span);
	add_id(to, "trace_id", span.trace);
	add_id(to, "span_id", span.id);
}
