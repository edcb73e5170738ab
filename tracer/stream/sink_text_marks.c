/* Events beside calls, in the text format. See sink_text.c for how they look. */

#include "tracer/stream/sink_text_parts.h"

static void add_place(struct buffer *to, struct slice file, struct slice line)
{
	if (!file.size)
		return;
	buffer_add_text(to, " at ");
	buffer_add_printable(to, file.bytes, file.size);
	buffer_add_char(to, ':');
	buffer_add_printable(to, line.bytes, line.size);
}

static void add_raise(const struct sink *sink, struct buffer *to, struct values values)
{
	struct slice message = values_get(values, 1);

	sink_text_color(sink, to, COLOR_ERROR);
	buffer_add_text(to, "! raised ");
	buffer_add_printable(to, values_get(values, 0).bytes, values_get(values, 0).size);
	if (message.size) {
		buffer_add(to, ": ", 2);
		buffer_add_printable(to, message.bytes, message.size);
	}
	sink_text_color(sink, to, COLOR_NONE);
	add_place(to, values_get(values, 2), values_get(values, 3));
}

/* "40,210" of "40210". */
static void add_thousands(struct buffer *to, struct slice digits)
{
	for (size_t i = 0; i < digits.size; i++) {
		if (i && (digits.size - i) % 3 == 0)
			buffer_add_char(to, ',');
		buffer_add_printable(to, digits.bytes + i, 1);
	}
}

uint64_t sink_text_number(struct slice digits)
{
	uint64_t number = 0;

	for (size_t i = 0; i < digits.size && digits.bytes[i] >= '0' && digits.bytes[i] <= '9'; i++)
		number = number * 10 + (uint64_t)(digits.bytes[i] - '0');
	return number;
}

/* In decimal digits, ns. */
static void add_ns(struct buffer *to, struct slice digits)
{
	buffer_add_seconds(to, sink_text_number(digits));
	buffer_add_text(to, " s");
}

static void add_collection(struct buffer *to, struct values values)
{
	buffer_add_text(to, "# gc ");
	buffer_add_printable(to, values_get(values, 0).bytes, values_get(values, 0).size);
	buffer_add_text(to, " (");
	buffer_add_printable(to, values_get(values, 1).bytes, values_get(values, 1).size);
}

static void add_gc(const struct sink *sink, struct buffer *to, struct values values)
{
	struct slice major_by = values_get(values, 2), pauses = values_get(values, 5);
	struct slice mark = values_get(values, 9), sweep = values_get(values, 10);

	(void)sink;
	add_collection(to, values);
	if (major_by.size) {
		buffer_add(to, ", ", 2);
		buffer_add_printable(to, major_by.bytes, major_by.size);
	}
	buffer_add_text(to, ") ");
	add_ns(to, values_get(values, 4));
	if (pauses.size != 1 || pauses.bytes[0] != '1') {
		buffer_add_text(to, " in ");
		buffer_add_printable(to, pauses.bytes, pauses.size);
		buffer_add_text(to, " pauses");
	}
	if (mark.size && sweep.size) {
		buffer_add_text(to, " (mark ");
		buffer_add_seconds(to, sink_text_number(mark));
		buffer_add_text(to, ", sweep ");
		buffer_add_seconds(to, sink_text_number(sweep));
		buffer_add_char(to, ')');
	}
	buffer_add(to, ", ", 2);
	add_thousands(to, values_get(values, 7));
	buffer_add_text(to, " -> ");
	add_thousands(to, values_get(values, 8));
	buffer_add_text(to, " objects");
}

static void add_gc_pause(const struct sink *sink, struct buffer *to, struct values values)
{
	(void)sink;
	add_collection(to, values);
	buffer_add_text(to, ") pause ");
	add_ns(to, values_get(values, 2));
}

static void add_gvl(const struct sink *sink, struct buffer *to, struct values values)
{
	(void)sink;
	buffer_add_text(to, "# gvl waited ");
	add_ns(to, values_get(values, 0));
}

static void add_allocation(const struct sink *sink, struct buffer *to, struct values values)
{
	struct slice class = values_get(values, 0), in = values_get(values, 3);

	(void)sink;
	buffer_add_text(to, "+ ");
	if (class.size)
		buffer_add_printable(to, class.bytes, class.size);
	else
		buffer_add_text(to, "(a class without a name)");
	buffer_add_text(to, " made");
	add_place(to, values_get(values, 1), values_get(values, 2));
	if (!in.size)
		return;
	buffer_add_text(to, " in ");
	buffer_add_printable(to, in.bytes, in.size);
}

static void (*const mark_texts[MARK_COUNT])(const struct sink *sink, struct buffer *to, struct values values) = {
	[MARK_RAISE] = add_raise,           [MARK_GC] = add_gc, [MARK_GC_PAUSE] = add_gc_pause, [MARK_GVL] = add_gvl,
	[MARK_ALLOCATION] = add_allocation,
};

void sink_text_add_mark(const struct sink *sink, struct buffer *to, enum mark_kind kind, struct values values)
{
	mark_texts[kind](sink, to, values);
}
