/* Marks on the wire. See marks.h. */

#include "proto/marks.h"

#include "proto/limits.h"

#include <string.h>

static const struct mark_form forms[MARK_COUNT] = {
	[MARK_RAISE] = {.name = "raise", .plural = "raised", .labels = {"class", "message", "file", "line"}, .numbers = 1u << 3},
	[MARK_GC] = {.name = "gc",
                     .plural = "collections",
                     .labels = {"kind", "reason", "major_by", "sweep", "pause_ns", "pauses", "longest_ns", "objects_before",
                                "objects_after"},
                     .numbers = 1u << 4 | 1u << 5 | 1u << 6 | 1u << 7 | 1u << 8,
                     .totals = {"pause_ns", "longest_ns"}},
	[MARK_GC_PAUSE] = {.name = "gc_pause",
                           .plural = "gc_pauses",
                           .labels = {"kind", "reason", "pause_ns"},
                           .numbers = 1u << 2},
	[MARK_GVL] = {.name = "gvl",
                      .plural = "long_waits",
                      .labels = {"waited_ns"},
                      .numbers = 1u << 0,
                      .totals = {"waiting_ns", "holding_ns", "outside_ns", "waits", "longest_ns"}},
};

const struct mark_form *mark_form(uint64_t kind)
{
	return kind < MARK_COUNT && forms[kind].name ? &forms[kind] : NULL;
}

uint32_t mark_value_count(const struct mark_form *form)
{
	uint32_t count = 0;

	while (count < MARK_VALUES_MAX && form->labels[count])
		count++;
	return count;
}

void marks_encode(msgpack_packer *packer, const struct mark_options *marks)
{
	msgpack_pack_array(packer, 2);
	msgpack_pack_uint32(packer, marks->kinds);
	pack_text(packer, marks->raise.bytes, marks->raise.size);
}

void marks_decode(struct mark_options *marks, struct fields *outer)
{
	const msgpack_object *object = fields_value(outer);
	struct fields fields;

	memset(marks, 0, sizeof(*marks));
	if (!object)
		return;
	if (!fields_open(&fields, "events", object, outer->err)) {
		outer->status = fields_status(&fields);
		return;
	}
	marks->kinds = (uint32_t)fields_uint(&fields, UINT32_MAX);
	marks->raise = fields_text(&fields, NAME_SIZE_MAX);
	outer->status = fields_status(&fields);
}
