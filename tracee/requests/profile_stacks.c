/* The stacks of a profile. See profile_stacks.h. */

#include "tracee/requests/profile_stacks.h"

#include "proto/limits.h"
#include "proto/profile_words.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/own_work.h"
#include "tracee/vm/string_slice.h"

#include <ruby/debug.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS_MAX (1u << 16)
#define NODES_MAX (1u << 17)
#define ROOM_FIRST 256u
#define FRAME_GC Qtrue /* in place of a frame */
#define RESERVED_FUNCTIONS 2048u
#define RESERVED_NODES 16384u
#define TOLD_AT_ONCE 1000u
#define TOLD_BYTES (512u << 10) /* of an answer; a name more has room in what a record may have */

/* What the VM keeps of a method or a block: a method entry, or instructions. Or the class of objects that are made. */
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
	uint32_t slot_count, count, room;
	uint32_t told, telling; /* the client knows so many; and with what is under way */
};

struct profile_stacks {
	struct numbers function_numbers, node_numbers;
	struct function *functions;
	struct node *nodes;
	bool fixed;                       /* nothing may be allocated now */
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

/* More room for those of `size` bytes. The slots are new, and empty. False: there is none. */
static bool more_room(struct numbers *numbers, void **items, size_t size, uint32_t max)
{
	uint32_t room = numbers->room ? 2 * numbers->room : ROOM_FIRST;
	uint32_t *slots;
	void *larger;

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
	return true;
}

static bool more_functions(struct profile_stacks *stacks)
{
	struct numbers *numbers = &stacks->function_numbers;

	if (stacks->fixed || !more_room(numbers, (void **)&stacks->functions, sizeof(*stacks->functions), FUNCTIONS_MAX))
		return false;
	for (uint32_t i = 0; i < numbers->count; i++)
		slot_put(numbers, hash_of_function(stacks->functions[i].frame), i + 1);
	return true;
}

static bool more_nodes(struct profile_stacks *stacks)
{
	struct numbers *numbers = &stacks->node_numbers;

	if (stacks->fixed || !more_room(numbers, (void **)&stacks->nodes, sizeof(*stacks->nodes), NODES_MAX))
		return false;
	for (uint32_t i = 0; i < numbers->count; i++)
		slot_put(numbers, hash_of_node(&stacks->nodes[i]), i + 1);
	return true;
}

bool profile_stacks_reserve(struct profile_stacks *stacks)
{
	const struct numbers *functions = &stacks->function_numbers, *nodes = &stacks->node_numbers;

	while (functions->room < RESERVED_FUNCTIONS || functions->count > functions->room / 2)
		if (!more_functions(stacks))
			break;
	while (nodes->room < RESERVED_NODES || nodes->count > nodes->room / 2)
		if (!more_nodes(stacks))
			break;
	return functions->room >= RESERVED_FUNCTIONS && nodes->room >= RESERVED_NODES;
}

/* 0: no room. */
static uint32_t function_of(struct profile_stacks *stacks, VALUE frame)
{
	struct numbers *numbers = &stacks->function_numbers;

	for (uint64_t at = hash_of_function(frame); numbers->slots; at++) {
		uint32_t number = numbers->slots[at & (numbers->slot_count - 1)];

		if (!number)
			break;
		if (stacks->functions[number - 1].frame == frame)
			return number;
	}
	if (numbers->count == numbers->room && !more_functions(stacks))
		return 0;
	stacks->functions[numbers->count++].frame = frame;
	slot_put(numbers, hash_of_function(frame), numbers->count);
	return numbers->count;
}

/* 0: no room. */
static uint32_t node_of(struct profile_stacks *stacks, const struct node *node)
{
	struct numbers *numbers = &stacks->node_numbers;

	for (uint64_t at = hash_of_node(node); numbers->slots; at++) {
		uint32_t number = numbers->slots[at & (numbers->slot_count - 1)];

		if (!number)
			break;
		if (is_node(&stacks->nodes[number - 1], node))
			return number;
	}
	if (numbers->count == numbers->room && !more_nodes(stacks))
		return 0;
	stacks->nodes[numbers->count++] = *node;
	slot_put(numbers, hash_of_node(node), numbers->count);
	return numbers->count;
}

/* Of the frames that were read: the application's. A thread that does rbprobe's work is where that has interrupted it. */
static uint32_t stack_of_frames(struct profile_stacks *stacks, VALUE thread, int count, bool *cut)
{
	int first = own_work_frames(thread, stacks->frames, stacks->lines, count, PROFILE_FRAMES_MAX);
	struct node node = {0};

	*cut = count == PROFILE_FRAMES_MAX;
	if (first < 0)
		return PROFILE_STACK_NONE;
	/* A main thread's outermost frame is a dummy that has no line. */
	if (count > 1 && !*cut && stacks->lines[count - 1] == 0 &&
	    RB_TYPE_P(rb_profile_frame_path(stacks->frames[count - 1]), T_STRING))
		count--;
	for (int i = count - 1; i >= first; i--) {
		node.function = function_of(stacks, stacks->frames[i]);
		node.line = stacks->lines[i];
		node.parent = node.function ? node_of(stacks, &node) : 0;
		if (!node.parent)
			return PROFILE_STACK_NONE;
	}
	return node.parent;
}

uint32_t profile_stack_of(struct profile_stacks *stacks, VALUE thread, bool *cut)
{
	int count = compat_thread_frames(thread, PROFILE_FRAMES_MAX, stacks->frames, stacks->lines);

	return stack_of_frames(stacks, thread, count, cut);
}

bool profile_stack_is_in_ruby(const struct profile_stacks *stacks, uint32_t stack)
{
	const struct node *node;

	if (!compat_thread_frames_with_c() || stack == PROFILE_STACK_NONE || !stack)
		return false;
	node = &stacks->nodes[stack - 1];
	return node->line > 0 && !string_is_internal_path(rb_profile_frame_path(stacks->functions[node->function - 1].frame));
}

uint32_t profile_stack_here(struct profile_stacks *stacks, bool *cut)
{
	int count = rb_profile_frames(0, PROFILE_FRAMES_MAX, stacks->frames, stacks->lines);
	uint32_t stack;

	stacks->fixed = true;
	stack = stack_of_frames(stacks, rb_thread_current(), count, cut);
	stacks->fixed = false;
	return stack;
}

uint32_t profile_stack_made(struct profile_stacks *stacks, uint32_t stack, VALUE class)
{
	struct node node = {.parent = stack, .function = function_of(stacks, class)};
	uint32_t number = node.function ? node_of(stacks, &node) : 0;

	return number ? number : PROFILE_STACK_NONE;
}

uint32_t profile_stack_of_gc(struct profile_stacks *stacks)
{
	return profile_stack_made(stacks, 0, FRAME_GC);
}

static void tell_gc(struct msgpack_builder *answer)
{
	builder_text(answer, NULL, PROFILE_GC, strlen(PROFILE_GC));
	builder_text(answer, NULL, PROFILE_PATH_STATE, strlen(PROFILE_PATH_STATE));
	builder_int(answer, NULL, 0);
}

static void tell_class(struct msgpack_builder *answer, VALUE class)
{
	char bytes[NAME_SIZE_MAX];
	struct text name = {.bytes = bytes, .size = sizeof(bytes)};

	class_name_add(&name, class);
	builder_text(answer, NULL, name.bytes, name.used);
	builder_text(answer, NULL, PROFILE_PATH_OBJECTS, strlen(PROFILE_PATH_OBJECTS));
	builder_int(answer, NULL, 0);
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

	functions->telling = functions->told;
	nodes->telling = nodes->told;

	builder_array(answer, "functions");
	while (functions->telling < functions->count && functions->telling - functions->told < TOLD_AT_ONCE &&
	       answer->buffer.size < TOLD_BYTES) {
		VALUE frame = stacks->functions[functions->telling++].frame;

		if (frame == FRAME_GC)
			tell_gc(answer);
		else if (RB_TYPE_P(frame, T_CLASS))
			tell_class(answer, frame);
		else
			tell_function(answer, frame);
	}
	builder_end(answer);
	builder_array(answer, "stacks");
	/* Not before their functions. */
	while (functions->telling == functions->count && nodes->telling < nodes->count &&
	       nodes->telling - nodes->told < TOLD_AT_ONCE) {
		const struct node *node = &stacks->nodes[nodes->telling++];

		builder_uint(answer, NULL, node->parent);
		builder_uint(answer, NULL, node->function);
		builder_int(answer, NULL, node->line);
	}
	builder_end(answer);
	return functions->telling == functions->count && nodes->telling == nodes->count;
}

void profile_stacks_told(struct profile_stacks *stacks)
{
	stacks->function_numbers.told = stacks->function_numbers.telling;
	stacks->node_numbers.told = stacks->node_numbers.telling;
}
