/* Local variables in a backtrace. See backtrace_locals.h. Context: job, GVL held, under rb_protect. */

#include "tracee/requests/backtrace_locals.h"

#include "proto/clock.h"
#include "proto/limits.h"
#include "tracee/vm/capture.h"

#include <string.h>

#define VALUE_SIZE 128u
#define ALL_MS 50u /* after that the frames and threads that are left have none: nobody runs meanwhile */

#define INNER_FRAMES 100 /* of the last thread that was begun in time: they have theirs */

static const struct trace_options options = {
	.value_size = VALUE_SIZE, .value_depth = VALUE_DEPTH_DEFAULT, .value_length = VALUE_LENGTH_DEFAULT};

void backtrace_locals_begin(struct backtrace_locals *locals)
{
	memset(locals, 0, sizeof(*locals));
	locals->wanted = true;
	switch (frame_snapshot_ready()) {
	case FRAME_SNAPSHOT_READY:
		break;
	case FRAME_SNAPSHOT_LATER:
		locals->missing = "hooks";
		break;
	case FRAME_SNAPSHOT_UNKNOWN:
		locals->missing = "unknown";
	}
	locals->began_ns = clock_now_ns();
}

static bool is_late(const struct backtrace_locals *locals)
{
	return clock_now_ns() - locals->began_ns > ALL_MS * NS_PER_MS;
}

VALUE backtrace_locals_take(struct backtrace_locals *locals, enum builtin_method how, VALUE receiver, uintptr_t context,
                            bool is_running, long (*first)(VALUE locations))
{
	VALUE locations;

	if (locals->wanted && !locals->missing && is_late(locals))
		locals->missing = "time";
	if (!locals->wanted || locals->missing)
		return builtin_call0(how, receiver);
	locations = frame_snapshot_take(&locals->snapshot, how, receiver, context, is_running, first);
	if (!locals->snapshot.known && !NIL_P(locations))
		locals->missing = "moved";
	return locations;
}

void backtrace_locals_end(struct backtrace_locals *locals)
{
	frame_snapshot_free(&locals->snapshot);
	if (locals->missing && strcmp(locals->missing, "moved") == 0)
		locals->missing = NULL;
}

/* The VM has variables of its own, whose names are none: `$!`, numbers. NULL: it is one of these. */
static const char *name_of(ID id)
{
	const char *name = id ? rb_id2name(id) : NULL;
	unsigned char first = name ? (unsigned char)name[0] : 0;

	return (first >= 'a' && first <= 'z') || first == '_' || first >= 0x80 ? name : NULL;
}

void backtrace_locals_add(const struct backtrace_locals *locals, struct msgpack_builder *answer, long location)
{
	unsigned more, count;
	bool open = false;

	if (!locals->wanted || locals->missing || !locals->snapshot.known)
		return;
	count = frame_snapshot_variables(&locals->snapshot, location, &more);
	/* A single thread may have thousands of frames, and finding out which is which takes longest. */
	if (count && location >= INNER_FRAMES && is_late(locals)) {
		more += count;
		count = 0;
	}
	for (unsigned i = 0; i < count; i++) {
		struct frame_variable variable = frame_snapshot_variable(&locals->snapshot, location, i);
		const char *name = name_of(variable.name);
		char bytes[VALUE_SIZE + 64];
		struct text text = {.bytes = bytes, .size = sizeof(bytes)};

		/* An argument whose default is still being evaluated has no value. */
		if (variable.value == Qundef || !name)
			continue;
		if (!open)
			builder_map(answer, "locals");
		open = true;
		if (variable.is_block)
			text_append_cstr(&text, "(a block)");
		else
			capture_value(&text, variable.value, &options);
		builder_text(answer, name, text.bytes, text.used);
	}
	if (open)
		builder_end(answer);
	if (more)
		builder_uint(answer, "locals_more", more);
}
