/* Marks on the wire. See marks.h. */

#include "proto/marks.h"

#include "proto/limits.h"

#include <string.h>

static const struct mark_form forms[MARK_COUNT] = {
	[MARK_RAISE] = {.name = "raise",
                        .plural = "raised",
                        .labels = {"class", "message", "file", "line", "stack"},
                        .numbers = 1u << 3,
                        .stack = MARK_RAISE_STACK},
	[MARK_GC] = {.name = "gc",
                     .plural = "collections",
                     .labels = {"kind", "reason", "major_by", "sweep", "pause_ns", "pauses", "longest_ns", "objects_before",
                                "objects_after", "mark_ns", "sweep_ns"},
                     .numbers = 1u << 4 | 1u << 5 | 1u << 6 | 1u << 7 | 1u << 8 | 1u << 9 | 1u << 10,
                     .nulls = 1u << 9 | 1u << 10,
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
	[MARK_ALLOCATION] = {.name = "allocation",
                             .plural = "allocations",
                             .labels = {"class", "file", "line", "in", "stack"},
                             .numbers = 1u << 2,
                             .stack = MARK_ALLOCATION_STACK,
                             .totals = {"made", "shown"}},
	[MARK_STATE] = {.name = "state", .plural = "thread_states"},
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
	bool has_rate = marks->state_rate_hz != 0;

	msgpack_pack_array(packer, has_rate ? 4 : marks->allocation_count ? 3 : 2);
	msgpack_pack_uint32(packer, marks->kinds);
	pack_text(packer, marks->raise.bytes, marks->raise.size);
	if (!marks->allocation_count && !has_rate)
		return;
	msgpack_pack_array(packer, marks->allocation_count);
	for (uint32_t i = 0; i < marks->allocation_count; i++) {
		const struct mark_allocation *one = &marks->allocations[i];

		msgpack_pack_array(packer, 3);
		pack_text(packer, one->class.bytes, one->class.size);
		msgpack_pack_uint8(packer, one->below);
		msgpack_pack_uint32(packer, one->every);
	}
	if (has_rate)
		msgpack_pack_uint32(packer, marks->state_rate_hz);
}

static void allocation_decode(struct mark_allocation *allocation, const msgpack_object *object, struct fields *outer)
{
	struct fields fields;

	if (!fields_open(&fields, "class of allocations", object, outer->err)) {
		outer->status = fields_status(&fields);
		return;
	}
	allocation->class = fields_text(&fields, NAME_SIZE_MAX);
	allocation->below = fields_uint(&fields, 1) != 0;
	allocation->every = (uint32_t)fields_uint(&fields, UINT32_MAX);
	if (!allocation->class.size || !allocation->every)
		fields_refuse(&fields, "is empty or 0");
	outer->status = fields_status(&fields);
}

static void allocations_decode(struct mark_options *marks, struct fields *fields)
{
	size_t count;
	const msgpack_object *elements = fields_array(fields, MARK_ALLOCATIONS_MAX, &count);

	for (size_t i = 0; i < count && fields_status(fields) == 0; i++)
		allocation_decode(&marks->allocations[i], &elements[i], fields);
	marks->allocation_count = (uint32_t)count;
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
	if (fields.left > 0)
		allocations_decode(marks, &fields);
	if (fields.left > 0)
		marks->state_rate_hz = (uint32_t)fields_uint(&fields, UINT32_MAX);
	if (!marks->allocation_count)
		marks->kinds &= ~(1u << MARK_ALLOCATION);
	outer->status = fields_status(&fields);
}
