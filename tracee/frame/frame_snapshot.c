/* Takes frames and variables of a thread. See frame_snapshot.h. Context: job, GVL held, under rb_protect. */

#include "tracee/frame/frame_snapshot.h"

#include "tracee/frame/frame.h"
#include "tracee/frame/frame_block_parameter.h"
#include "tracee/frame/frame_context.h"
#include "tracee/frame/frame_locals.h"
#include "tracee/vm/foreign_hooks.h"
#include "tracee/vm/string_slice.h"
#include "tracee/vm/tmp_words.h"

#include <ruby/debug.h>
#include <string.h>

#define ATTEMPTS 3
#define VARIABLES_MAX 64u      /* of a frame */
#define FROZEN_MAX (64u << 10) /* of all frames */

/* Of an environment, in vm_core.h of 2.7 to 4.1. Its first word has flags, the word before is the block of a method's call. */
#define ENVIRONMENT_ENTRY_WORD 2u
#define FLAG_LOCAL 0x0002u                    /* a method's, not a block's */
#define FLAG_MODIFIED_BLOCK_PARAMETER 0x0200u /* the variable has a Proc, or what was assigned to it */

struct frozen_frame {
	bool is_c;
	bool has_block;  /* the block parameter is a block that is no object */
	int block;       /* the number of that variable; -1: there is none */
	uint32_t values; /* where those of the frame begin */
	uint32_t variables, more;
};

bool frame_snapshot_is_known(void)
{
	return frame_locals_are_known() && layout_is_known(LAYOUT_BODY_BLOCK) && layout_is_known(LAYOUT_CONTEXT_STACK) &&
	       layout_value(LAYOUT_ENVIRONMENT_ENTRY) == ENVIRONMENT_ENTRY_WORD;
}

enum frame_snapshot_state frame_snapshot_ready(void)
{
	if (frame_snapshot_is_known())
		return FRAME_SNAPSHOT_READY;
	if (!foreign_hooks_known() || foreign_hooks_on(FOREIGN_HOOKS_TRIAL))
		return FRAME_SNAPSHOT_LATER;
	frame_calibrate_on_demand(FRAME_TARGETED);
	frame_locals_find();
	frame_block_parameter_find();
	return frame_snapshot_is_known() ? FRAME_SNAPSHOT_READY : FRAME_SNAPSHOT_UNKNOWN;
}

/* --- The control frames, from where they are in the VM */

struct area {
	struct frame_range range;
	char *bytes; /* as they were */
};

static long frames_in(const struct frame_range *range)
{
	size_t size = layout_value(LAYOUT_FRAME_SIZE);
	/* The outermost one is the VM's own. */
	return range->end - range->innermost >= 2 * size ? (long)((range->end - range->innermost) / size) - 1 : 0;
}

FRAME_READS_STACK static void copy(char *to, uintptr_t from, size_t size)
{
	for (size_t i = 0; i < size; i += sizeof(uintptr_t))
		*(uintptr_t *)(void *)(to + i) = *(const uintptr_t *)(from + i);
}

static bool area_take(struct area *area, uintptr_t context, VALUE *memory)
{
	if (!frame_context_range(context, &area->range))
		return false;
	area->bytes = tmp_words_new(memory, area->range.end - area->range.innermost + 1);
	/* That may have let the GC run, and no Ruby code. */
	copy(area->bytes, area->range.innermost, area->range.end - area->range.innermost);
	return true;
}

FRAME_READS_STACK static bool is_unchanged(const struct area *area, uintptr_t context)
{
	size_t size = area->range.end - area->range.innermost;
	struct frame_range now;

	if (!frame_context_range(context, &now) || now.innermost != area->range.innermost || now.end != area->range.end)
		return false;
	for (size_t i = 0; i < size; i += sizeof(uintptr_t))
		if (*(const uintptr_t *)(void *)(area->bytes + i) != *(const uintptr_t *)(now.innermost + i))
			return false;
	return true;
}

/* --- Freezing */

FRAME_READS_STACK static bool is_code(uintptr_t code)
{
	return code && !RB_SPECIAL_CONST_P(code) && (*(const VALUE *)code & FRAME_ENTRY_MASK) == layout_value(LAYOUT_CODE_FLAGS);
}

FRAME_READS_STACK static bool is_c_call(uintptr_t frame)
{
	const VALUE *entry = frame_direct_entry(frame);

	return !frame_locals_code(frame) && entry && !RB_SPECIAL_CONST_P((VALUE)entry) &&
	       (entry[0] & FRAME_ENTRY_MASK) == layout_value(LAYOUT_ENTRY_FLAGS);
}

static const uintptr_t *body_of(uintptr_t code)
{
	return (const uintptr_t *)((const uintptr_t *)code)[layout_value(LAYOUT_CODE_BODY)];
}

static uint32_t variables_of(uintptr_t code)
{
	return *(const uint32_t *)((const char *)body_of(code) + layout_value(LAYOUT_BODY_LOCAL_COUNT));
}

/* Until a method uses its block parameter, the variable's place holds nothing: nil, or what the caller's arguments left there. */
FRAME_READS_STACK static void freeze_block(uintptr_t code, const uintptr_t *environment, struct frozen_frame *frozen,
                                           VALUE *values)
{
	frozen->block = frame_block_parameter(code);
	if (frozen->block < 0 || (uint32_t)frozen->block >= frozen->variables || !(environment[0] & FLAG_LOCAL) ||
	    environment[0] & FLAG_MODIFIED_BLOCK_PARAMETER)
		return;
	values[frozen->block] = Qnil;
	frozen->has_block = environment[-1] != 0;
}

/* Notes the frame; with values, takes its variables as well. Returns how many words that needs. */
FRAME_READS_STACK static uint32_t freeze(uintptr_t frame, struct frozen_frame *frozen, VALUE *values, uint32_t used)
{
	uintptr_t code = frame_locals_code(frame);
	const uintptr_t *environment = (const uintptr_t *)((const uintptr_t *)frame)[layout_value(LAYOUT_FRAME_ENVIRONMENT)];
	uint32_t count = variables_of(code);

	frozen->variables = count < VARIABLES_MAX ? count : VARIABLES_MAX;
	if (used + 1 + frozen->variables > FROZEN_MAX)
		frozen->variables = 0;
	frozen->more = count - frozen->variables;
	frozen->values = used;
	if (!values)
		return 1 + frozen->variables;
	values[used] = code;
	for (uint32_t i = 0; i < frozen->variables; i++)
		values[used + 1 + i] = *(environment - (count - i - 1 + layout_value(LAYOUT_ENVIRONMENT_LOCALS)));
	freeze_block(code, environment, frozen, &values[used + 1]);
	return 1 + frozen->variables;
}

/* Twice: the first time it says how many there are. */
static uint32_t freeze_all(struct frame_snapshot *snapshot, const struct frame_range *range)
{
	size_t size = layout_value(LAYOUT_FRAME_SIZE);
	long all = frames_in(range);
	uint32_t used = 0;

	snapshot->count = 0;
	for (long i = 0; i < all; i++) {
		uintptr_t frame = range->innermost + (size_t)i * size;
		struct frozen_frame frozen = {.is_c = is_c_call(frame)};

		/* Neither is a block of C code, such as that of `&method(:run)`: nothing lists it. */
		if (!frozen.is_c && !is_code(frame_locals_code(frame)))
			continue;
		if (!frozen.is_c)
			used += freeze(frame, &frozen, snapshot->values, used);
		if (snapshot->frames)
			snapshot->frames[snapshot->count] = frozen;
		snapshot->count++;
	}
	return used;
}

static void snapshot_freeze(struct frame_snapshot *snapshot, uintptr_t context)
{
	struct frame_range range;
	uint32_t values;

	snapshot->frames = NULL;
	snapshot->values = NULL;
	if (!frame_context_range(context, &range))
		return;
	values = freeze_all(snapshot, &range);
	/* Values first: the GC looks at whole words. */
	snapshot->values = tmp_words_new(&snapshot->memory,
	                                 (values + 1) * sizeof(VALUE) + (size_t)snapshot->count * sizeof(struct frozen_frame));
	memset(snapshot->values, 0, (values + 1) * sizeof(VALUE));
	snapshot->frames = (struct frozen_frame *)(void *)(snapshot->values + values + 1);
	freeze_all(snapshot, &range);
	snapshot->known = true;
}

/* --- Which location is which frame */

static bool begins_with(VALUE string, const char *text)
{
	return RB_TYPE_P(string, T_STRING) && (size_t)RSTRING_LEN(string) >= strlen(text) &&
	       memcmp(RSTRING_PTR(string), text, strlen(text)) == 0;
}

/* Code of a rescue or ensure clause has a frame of its own, which newer Rubies do not list. */
static bool is_clause(VALUE label)
{
	return begins_with(label, "rescue in ") || begins_with(label, "ensure in ");
}

static bool is_of(VALUE location, VALUE code)
{
	return string_same(builtin_call0(BUILTIN_LOCATION_BASE_LABEL, location), rb_profile_frame_base_label(code)) &&
	       string_same(builtin_call0(BUILTIN_LOCATION_PATH, location), rb_profile_frame_path(code)) &&
	       (!is_clause(rb_profile_frame_label(code)) || is_clause(builtin_call0(BUILTIN_LOCATION_LABEL, location)));
}

/*
 * From the outermost on. Every frame written in Ruby has to be found, behind as many locations as there are methods written in C
 * between it and the one before.
 */
static bool snapshot_align(struct frame_snapshot *snapshot, VALUE locations, long first)
{
	long at = RARRAY_LEN(locations) - 1, gap = 0;

	for (long i = snapshot->count - 1; i >= 0 && at >= first; i--) {
		const struct frozen_frame *frame = &snapshot->frames[i];
		VALUE code = frame->is_c ? Qnil : snapshot->values[frame->values];
		long skipped = gap;

		if (frame->is_c) {
			gap++;
			continue;
		}
		while (skipped >= 0 && !(at - skipped >= first && is_of(RARRAY_AREF(locations, at - skipped), code)))
			skipped--;
		if (skipped >= 0) {
			snapshot->frame_of[at - skipped] = (int32_t)i;
			at -= skipped + 1;
			gap = 0;
		} else if (string_is_internal_path(rb_profile_frame_path(code))) {
			gap++; /* listed as if it were written in C */
		} else if (!is_clause(rb_profile_frame_label(code)) && at - gap >= first) {
			return false;
		}
	}
	return true;
}

VALUE frame_snapshot_take(struct frame_snapshot *snapshot, enum builtin_method how, VALUE receiver, uintptr_t context,
                          bool is_running, long (*first)(VALUE locations))
{
	VALUE locations = Qnil, memory = 0;
	struct area area;
	long count;

	memset(snapshot, 0, sizeof(*snapshot));
	for (int attempt = 0; attempt < ATTEMPTS && !snapshot->known; attempt++) {
		bool taken = is_running || area_take(&area, context, &memory);

		locations = builtin_call0(how, receiver);
		if (taken && RB_TYPE_P(locations, T_ARRAY) && (is_running || is_unchanged(&area, context)))
			snapshot_freeze(snapshot, context);
		if (memory)
			rb_free_tmp_buffer(&memory);
	}
	if (!snapshot->known)
		return locations;
	count = RARRAY_LEN(locations);
	snapshot->frame_of = tmp_words_new(&snapshot->numbers, (size_t)count * sizeof(*snapshot->frame_of) + 1);
	memset(snapshot->frame_of, 0xff, (size_t)count * sizeof(*snapshot->frame_of));
	snapshot->known = snapshot_align(snapshot, locations, first ? first(locations) : 0);
	return locations;
}

/* --- Variables */

static const struct frozen_frame *frame_at(const struct frame_snapshot *snapshot, long location)
{
	return snapshot->known && snapshot->frame_of[location] >= 0 ? &snapshot->frames[snapshot->frame_of[location]] : NULL;
}

unsigned frame_snapshot_variables(const struct frame_snapshot *snapshot, long location, unsigned *more)
{
	const struct frozen_frame *frame = frame_at(snapshot, location);

	*more = frame ? frame->more : 0;
	return frame ? frame->variables : 0;
}

struct frame_variable frame_snapshot_variable(const struct frame_snapshot *snapshot, long location, unsigned number)
{
	const struct frozen_frame *frame = frame_at(snapshot, location);
	const VALUE *values = &snapshot->values[frame->values];
	const ID *names = (const ID *)body_of(values[0])[layout_value(LAYOUT_BODY_LOCALS)];
	VALUE value = values[1 + number];

	return (struct frame_variable){
		.name = names[number], .value = value, .is_block = frame->has_block && frame->block == (int)number};
}

void frame_snapshot_free(struct frame_snapshot *snapshot)
{
	if (snapshot->numbers)
		rb_free_tmp_buffer(&snapshot->numbers);
	if (snapshot->memory)
		rb_free_tmp_buffer(&snapshot->memory);
	snapshot->known = false;
}
