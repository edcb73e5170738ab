/* The stacks of a profile. See profile_stacks.h. */

#include "tracee/requests/profile_stacks.h"

#include "proto/limits.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/string_slice.h"

#include <ruby/debug.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS_MAX (1u << 16)
#define NODES_MAX (1u << 17)
#define ROOM_FIRST 256u
#define TOLD_AT_ONCE 1000u
#define TOLD_BYTES (512u << 10) /* of an answer; a name more has room in what a record may have */

/* What the VM keeps of a method or a block: a method entry, or instructions. */
struct function {
	VALUE frame;
};

struct node {
	uint32_t parent, function;
	int32_t line; /* 0: none, as of what is written in C */
};

/* Things that are numbered from 1 on, and a table of these numbers by a hash of the thing; a power of two, at most half full. */
struct numbers {
	uint32_t *slots;
	uint32_t slot_count, count, room, told;
};

struct profile_stacks {
	struct numbers function_numbers, node_numbers;
	struct function *functions;
	struct node *nodes;
	VALUE frames[PROFILE_FRAMES_MAX]; /* of the stack that is looked at; nothing is allocated until its nodes have them */
	int lines[PROFILE_FRAMES_MAX];
};

struct profile_stacks *profile_stacks_new(void)
{
	return calloc(1, sizeof(struct profile_stacks));
}

void profile_stacks_free(struct profile_stacks *stacks)
{
	if (!stacks)
		return;
	free(stacks->function_numbers.slots);
	free(stacks->node_numbers.slots);
	free(stacks->functions);
	free(stacks->nodes);
	free(stacks);
}

void profile_stacks_mark(const struct profile_stacks *stacks)
{
	for (uint32_t i = 0; i < stacks->function_numbers.count; i++)
		rb_gc_mark(stacks->functions[i].frame);
}

static uint64_t hash_of_function(VALUE frame)
{
	return ((uint64_t)frame >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 20;
}

static uint64_t hash_of_node(const struct node *node)
{
	uint64_t hash = (uint64_t)node->parent * UINT64_C(0x9e3779b97f4a7c15);

	hash = (hash ^ node->function) * UINT64_C(0xbf58476d1ce4e5b9);
	return (hash ^ (uint32_t)node->line) * UINT64_C(0x94d049bb133111eb) >> 20;
}

static bool is_node(const struct node *one, const struct node *other)
{
	return one->parent == other->parent && one->function == other->function && one->line == other->line;
}

static void slot_put(struct numbers *numbers, uint64_t hash, uint32_t number)
{
	uint64_t at = hash & (numbers->slot_count - 1);

	/* room_for_one() has made them. */
	if (!numbers->slots)
		return;
	while (numbers->slots[at])
		at = (at + 1) & (numbers->slot_count - 1);
	numbers->slots[at] = number;
}

/* Room for one more of `size` bytes. *grown: the slots are new, and empty. False: there is none. */
static bool room_for_one(struct numbers *numbers, void **items, size_t size, uint32_t max, bool *grown)
{
	uint32_t room = numbers->room ? 2 * numbers->room : ROOM_FIRST;
	uint32_t *slots;
	void *larger;

	*grown = false;
	if (numbers->count < numbers->room)
		return true;
	if (room > max)
		return false;
	slots = calloc(2 * (size_t)room, sizeof(*slots));
	larger = slots ? realloc(*items, room * size) : NULL;
	if (!larger) {
		free(slots);
		return false;
	}
	free(numbers->slots);
	numbers->slots = slots;
	numbers->slot_count = 2 * room;
	numbers->room = room;
	*items = larger;
	*grown = true;
	return true;
}

/* 0: no room. */
static uint32_t function_of(struct profile_stacks *stacks, VALUE frame)
{
	struct numbers *numbers = &stacks->function_numbers;
	bool grown;

	for (uint64_t at = hash_of_function(frame); numbers->slots; at++) {
		uint32_t number = numbers->slots[at & (numbers->slot_count - 1)];

		if (!number)
			break;
		if (stacks->functions[number - 1].frame == frame)
			return number;
	}
	if (!room_for_one(numbers, (void **)&stacks->functions, sizeof(*stacks->functions), FUNCTIONS_MAX, &grown))
		return 0;
	for (uint32_t i = 0; grown && i < numbers->count; i++)
		slot_put(numbers, hash_of_function(stacks->functions[i].frame), i + 1);
	stacks->functions[numbers->count++].frame = frame;
	slot_put(numbers, hash_of_function(frame), numbers->count);
	return numbers->count;
}

/* 0: no room. */
static uint32_t node_of(struct profile_stacks *stacks, const struct node *node)
{
	struct numbers *numbers = &stacks->node_numbers;
	bool grown;

	for (uint64_t at = hash_of_node(node); numbers->slots; at++) {
		uint32_t number = numbers->slots[at & (numbers->slot_count - 1)];

		if (!number)
			break;
		if (is_node(&stacks->nodes[number - 1], node))
			return number;
	}
	if (!room_for_one(numbers, (void **)&stacks->nodes, sizeof(*stacks->nodes), NODES_MAX, &grown))
		return 0;
	for (uint32_t i = 0; grown && i < numbers->count; i++)
		slot_put(numbers, hash_of_node(&stacks->nodes[i]), i + 1);
	stacks->nodes[numbers->count++] = *node;
	slot_put(numbers, hash_of_node(node), numbers->count);
	return numbers->count;
}

uint32_t profile_stack_of(struct profile_stacks *stacks, VALUE thread, bool *cut)
{
	int count = compat_thread_frames(thread, PROFILE_FRAMES_MAX, stacks->frames, stacks->lines);
	struct node node = {0};

	*cut = count == PROFILE_FRAMES_MAX;
	/* A main thread's outermost frame is a dummy that has no line. */
	if (count > 1 && !*cut && stacks->lines[count - 1] == 0 &&
	    RB_TYPE_P(rb_profile_frame_path(stacks->frames[count - 1]), T_STRING))
		count--;
	for (int i = count - 1; i >= 0; i--) {
		node.function = function_of(stacks, stacks->frames[i]);
		node.line = stacks->lines[i];
		node.parent = node.function ? node_of(stacks, &node) : 0;
		if (!node.parent)
			return PROFILE_STACK_NONE;
	}
	return node.parent;
}

static void tell_function(struct msgpack_builder *answer, VALUE frame)
{
	VALUE path = rb_profile_frame_path(frame), label = rb_profile_frame_full_label(frame);
	VALUE line = rb_profile_frame_first_lineno(frame);
	struct slice name = string_slice_of_name(label), file = string_slice_of_name(path);

	builder_text(answer, NULL, name.bytes, name.size);
	builder_text(answer, NULL, file.bytes, file.size);
	builder_int(answer, NULL, FIXNUM_P(line) ? FIX2LONG(line) : 0);
	RB_GC_GUARD(label);
	RB_GC_GUARD(path);
}

bool profile_stacks_tell(struct profile_stacks *stacks, struct msgpack_builder *answer)
{
	struct numbers *functions = &stacks->function_numbers, *nodes = &stacks->node_numbers;
	uint32_t first_function = functions->told, first_node = nodes->told;

	builder_array(answer, "functions");
	while (functions->told < functions->count && functions->told - first_function < TOLD_AT_ONCE &&
	       answer->buffer.size < TOLD_BYTES)
		tell_function(answer, stacks->functions[functions->told++].frame);
	builder_end(answer);
	builder_array(answer, "stacks");
	/* Not before their functions. */
	while (functions->told == functions->count && nodes->told < nodes->count && nodes->told - first_node < TOLD_AT_ONCE) {
		const struct node *node = &stacks->nodes[nodes->told++];

		builder_uint(answer, NULL, node->parent);
		builder_uint(answer, NULL, node->function);
		builder_int(answer, NULL, node->line);
	}
	builder_end(answer);
	return functions->told == functions->count && nodes->told == nodes->count;
}
