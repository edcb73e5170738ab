/*
 * Who called. See callers.h. Context: event, GVL held.
 *
 * rb_profile_frames() gives the frames, innermost first, as what the VM itself keeps of each (method entries and instruction
 * sequences), and their lines. It allocates nothing. Up to 3.3 it cannot skip any; on 2.7 it has none of methods in C.
 * Those that are in the table are marked, so that no other object gets their addresses.
 */

#include "tracee/observe/callers.h"

#include "proto/record.h"
#include "tracee/observe/marks.h"
#include "tracee/session/session.h"
#include "tracee/vm/evaluation.h"
#include "tracee/vm/fiber.h"
#include "tracee/vm/string_slice.h"

#include <ruby.h>
#include <ruby/debug.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MAX (1u << 16) /* 4 MiB of slots */
#define SLOTS_FIRST 256u
#define FRAMES_MAX (2 * STACK_FRAMES_MAX + 16)
#define UNTOLD_MAX 256u

struct node {
	VALUE frame; /* 0: an empty slot */
	uint32_t parent;
	int32_t line;
	uint32_t ref; /* its parent's where the frame is none of Ruby code */
};

struct caller_table {
	struct node *slots;
	uint32_t size; /* a power of two; at most half of it is used */
	uint32_t used;
	uint32_t last_ref;
	uint32_t untold_count;
	struct node untold[UNTOLD_MAX]; /* by ref, the last ones */
};

static struct node *slot_of(const struct caller_table *table, uint32_t parent, VALUE frame, int32_t line)
{
	uint64_t hash = ((uint64_t)frame >> 3) * UINT64_C(0x9e3779b97f4a7c15);

	hash = (hash ^ parent) * UINT64_C(0xbf58476d1ce4e5b9);
	hash = (hash ^ (uint32_t)line) * UINT64_C(0x94d049bb133111eb);
	for (uint32_t i = (uint32_t)(hash >> 32);; i++) {
		struct node *node = &table->slots[i & (table->size - 1)];

		if (!node->frame || (node->frame == frame && node->parent == parent && node->line == line))
			return node;
	}
}

static bool grow(struct caller_table *table)
{
	struct caller_table larger = {.size = table->size ? 2 * table->size : SLOTS_FIRST};

	larger.slots = calloc(larger.size, sizeof(*larger.slots));
	if (!larger.slots)
		return false;
	for (uint32_t i = 0; i < table->size; i++) {
		const struct node *node = &table->slots[i];

		if (node->frame)
			*slot_of(&larger, node->parent, node->frame, node->line) = *node;
	}
	free(table->slots);
	table->slots = larger.slots;
	table->size = larger.size;
	return true;
}

/* A node that the client has to know. */
struct telling {
	struct session *session;
	struct node node;
	bool is_ruby;
};

static VALUE tell(VALUE argument)
{
	struct telling *telling = (struct telling *)argument;
	VALUE path = rb_profile_frame_path(telling->node.frame), label;
	struct record record = {.kind = RECORD_CALLER};

	telling->is_ruby = RB_TYPE_P(path, T_STRING);
	if (!telling->is_ruby)
		return Qnil;
	label = rb_profile_frame_full_label(telling->node.frame);
	record.caller = (struct record_caller){.ref = telling->node.ref,
	                                       .parent = telling->node.parent,
	                                       .label = string_slice_of_name(label),
	                                       .file = string_slice_of_name(path),
	                                       .line = telling->node.line};
	session_send(telling->session, &record);
	RB_GC_GUARD(label);
	RB_GC_GUARD(path);
	return Qnil;
}

/* The names that are made for it are no objects of the application's. */
static bool tell_now(struct telling *telling)
{
	struct fiber_state *fiber = fiber_current_state();
	VALUE unused;
	bool done;

	if (fiber)
		fiber->suppress_depth++;
	done = evaluate_quickly(tell, (VALUE)telling, &unused) == EVALUATION_DONE;
	if (fiber)
		fiber->suppress_depth--;
	return done;
}

/* For callers_tell(). */
static bool note_untold(struct telling *telling, struct caller_table *table)
{
	telling->is_ruby = RB_TYPE_P(rb_profile_frame_path(telling->node.frame), T_STRING);
	if (!telling->is_ruby)
		return true;
	if (table->untold_count == UNTOLD_MAX)
		return false;
	table->untold[table->untold_count++] = telling->node;
	return true;
}

/* NULL where it cannot be kept. */
static struct node *node_add(struct session *session, struct caller_table *table, uint32_t parent, VALUE frame, int32_t line,
                             bool silently)
{
	struct telling telling = {.session = session,
	                          .node = {.frame = frame, .parent = parent, .line = line, .ref = table->last_ref + 1}};
	struct node *node;

	if (table->used == NODES_MAX || (2 * (table->used + 1) > table->size && !grow(table)))
		return NULL;
	if (silently ? !note_untold(&telling, table) : !tell_now(&telling))
		return NULL;
	if (telling.is_ruby)
		table->last_ref++;
	else
		telling.node.ref = parent;
	node = slot_of(table, parent, frame, line);
	*node = telling.node;
	table->used++;
	return node;
}

bool callers_are_told(const struct session *session)
{
	return !session->callers || !session->callers->untold_count;
}

void callers_tell(struct session *session)
{
	struct caller_table *table = session->callers;
	uint32_t count = table ? table->untold_count : 0;

	for (uint32_t i = 0; i < count; i++) {
		struct telling telling = {.session = session, .node = table->untold[i]};
		struct record nameless = {.kind = RECORD_CALLER,
		                          .caller = {.ref = telling.node.ref,
		                                     .parent = telling.node.parent,
		                                     .label = {"", 0},
		                                     .file = {"", 0},
		                                     .line = telling.node.line}};

		/* The client counts on each number's coming. */
		if (!tell_now(&telling))
			session_send(session, &nameless);
	}
	if (!count)
		return;
	/* Another thread may have made an object whose stack is new. */
	table->untold_count -= count;
	memmove(table->untold, table->untold + count, table->untold_count * sizeof(table->untold[0]));
}

static struct caller_table *table_of(struct session *session)
{
	if (!session->callers)
		session->callers = calloc(1, sizeof(*session->callers));
	if (!session->callers || (!session->callers->size && !grow(session->callers)))
		return NULL;
	return session->callers;
}

static uint64_t take(struct session *session, unsigned own, bool silently)
{
	struct caller_table *table = table_of(session);
	uint32_t wanted = session->options.stack_frames, parent = 0;
	VALUE frames[FRAMES_MAX];
	int lines[FRAMES_MAX];
	unsigned used[STACK_FRAMES_MAX], kept = 0;
	int count;

	if (!table)
		return CALLERS_NONE;
	count = rb_profile_frames(0, (int)(2 * wanted + own + 8), frames, lines);
	/* What has no line is written in C, or the thread's own beginning. */
	for (int i = (int)own; i < count && kept < wanted; i++)
		if (lines[i])
			used[kept++] = (unsigned)i;
	while (kept-- > 0) {
		VALUE frame = frames[used[kept]];
		int32_t line = lines[used[kept]];
		const struct node *node = slot_of(table, parent, frame, line);

		if (!node->frame)
			node = node_add(session, table, parent, frame, line, silently);
		if (!node)
			return CALLERS_NONE;
		parent = node->ref;
	}
	return parent;
}

uint64_t callers_take(struct session *session, unsigned own)
{
	/* Before the record of this event: what was made inside of a call comes before its end. */
	if (!callers_are_told(session)) {
		callers_tell(session);
		marks_flush_kept();
	}
	return take(session, own, false);
}

uint64_t callers_take_silently(struct session *session)
{
	return take(session, 0, true);
}

void callers_mark(const struct session *session)
{
	const struct caller_table *table = session->callers;

	for (uint32_t i = 0; table && i < table->size; i++)
		if (table->slots[i].frame)
			rb_gc_mark(table->slots[i].frame);
}

static void release(struct session *session)
{
	if (session->callers)
		free(session->callers->slots);
	free(session->callers);
	session->callers = NULL;
}

/* The client of a forked child knows none. */
static bool adopt(struct session *session)
{
	struct caller_table *table = session->callers;

	if (table && table->slots)
		memset(table->slots, 0, table->size * sizeof(*table->slots));
	if (table)
		table->used = table->last_ref = table->untold_count = 0;
	return true;
}

const struct session_part callers_part = {.release = release, .adopt = adopt};
