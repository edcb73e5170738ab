/*
 * Who called. See callers.h. Context: event, GVL held.
 *
 * rb_profile_frames() gives the frames, innermost first, as what the VM itself keeps of each (method entries and instruction
 * sequences), and their lines. It allocates nothing. Up to 3.3 it cannot skip any; on 2.7 it has none of methods in C.
 * Those that are in the table are marked, so that no other object gets their addresses.
 */

#include "tracee/observe/callers.h"

#include "proto/record.h"
#include "tracee/session/session.h"
#include "tracee/vm/evaluation.h"
#include "tracee/vm/string_slice.h"

#include <ruby.h>
#include <ruby/debug.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MAX (1u << 16) /* 4 MiB of slots */
#define SLOTS_FIRST 256u
#define FRAMES_MAX (2 * STACK_FRAMES_MAX + 16)

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

/* 0 where it cannot be kept. */
static struct node *node_add(struct session *session, struct caller_table *table, uint32_t parent, VALUE frame, int32_t line)
{
	struct telling telling = {.session = session,
	                          .node = {.frame = frame, .parent = parent, .line = line, .ref = table->last_ref + 1}};
	struct node *node;
	VALUE unused;

	if (table->used == NODES_MAX || (2 * (table->used + 1) > table->size && !grow(table)))
		return NULL;
	if (evaluate_quickly(tell, (VALUE)&telling, &unused) != EVALUATION_DONE)
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

static struct caller_table *table_of(struct session *session)
{
	if (!session->callers)
		session->callers = calloc(1, sizeof(*session->callers));
	if (!session->callers || (!session->callers->size && !grow(session->callers)))
		return NULL;
	return session->callers;
}

uint64_t callers_take(struct session *session, unsigned own)
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
			node = node_add(session, table, parent, frame, line);
		if (!node)
			return CALLERS_NONE;
		parent = node->ref;
	}
	return parent;
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
		table->used = table->last_ref = 0;
	return true;
}

const struct session_part callers_part = {.release = release, .adopt = adopt};
