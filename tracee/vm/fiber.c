/*
 * The state of each fiber. See fiber.h. Context: event and job, GVL held.
 *
 * The fibers that were met last are noted in a table: by their execution contexts where these are known (from an event; from the
 * VM's own variable, which 3.0 to 3.2 let others see), else by the objects, for which rb_fiber_current() is called. A noted fiber
 * may die and another take its address, or compaction may move it; so at each such occasion all notes are forgotten. Nothing dies
 * without being found unmarked by the garbage collector first, so the occasion is that it marks: an object of ours without write
 * barriers, which is never old, is marked each time, at the end of an incremental marking once more.
 */

#define _GNU_SOURCE
#include "tracee/vm/fiber.h"

#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/own.h"
#include "tracee/vm/thread_layout.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STATES_LOOKED_AT 4096 /* at most, in GC */

static struct {
	struct fiber_state *states; /* all of them; under the GVL */
	uint32_t next_ref;
	ID id_state;
	bool (*on_death)(struct fiber_state *state);
	uint32_t free_refs[1024]; /* of fibers that are gone; beyond these, numbers are not used again */
	uint32_t free_ref_count;
	VALUE anchor; /* marking it or updating its references tells that objects die or move */
} fibers;

struct fiber_note fiber_notes[FIBER_NOTES], fiber_notes_of_objects[FIBER_NOTES];

static void forget_notes(void)
{
	for (unsigned i = 0; i < FIBER_NOTES; i++) {
		atomic_store_explicit(&fiber_notes[i].key, 0, memory_order_relaxed);
		atomic_store_explicit(&fiber_notes_of_objects[i].key, 0, memory_order_relaxed);
	}
}

static void call_stack_free(struct call_stack *stack)
{
	free(stack->calls);
	free(stack->arena);
	free(stack->kept);
}

static void state_free(void *data)
{
	struct fiber_state *state = data;

	forget_notes();
	if (fibers.on_death(state) && fibers.free_ref_count < sizeof(fibers.free_refs) / sizeof(fibers.free_refs[0]))
		fibers.free_refs[fibers.free_ref_count++] = state->ref;
	evaluation_drop(&state->evaluation);
	*state->previous_next = state->next;
	if (state->next)
		state->next->previous_next = state->previous_next;
	for (unsigned slot = 0; slot < SESSIONS_MAX; slot++)
		call_stack_free(&state->stacks[slot]);
	free(state);
}

static void state_mark(void *data)
{
	const struct fiber_state *state = data;

	for (unsigned slot = 0; slot < SESSIONS_MAX; slot++) {
		const struct call_stack *stack = &state->stacks[slot];

		for (uint32_t i = 0; stack->bindings && i < stack->depth; i++)
			if (stack->calls[i].roles & CALL_HAS_BINDING)
				rb_gc_mark(stack->calls[i].binding);
	}
}

static size_t state_size(const void *data)
{
	const struct fiber_state *state = data;
	size_t size = sizeof(*state);

	for (unsigned slot = 0; slot < SESSIONS_MAX; slot++)
		size += state->stacks[slot].size * sizeof(struct open_call) + state->stacks[slot].arena_size +
		        state->stacks[slot].kept_size;
	return size;
}

static const rb_data_type_t state_type = {
	.wrap_struct_name = "rbprobe fiber state",
	.function = {.dmark = state_mark, .dfree = state_free, .dsize = state_size},
	.flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

/* What this is about to free or to move may be given to others from now on. */
static void anchor_mark(void *data)
{
	(void)data;
	forget_notes();
}

static const rb_data_type_t anchor_type = {
	.wrap_struct_name = "rbprobe fiber anchor",
	.function = {.dmark = anchor_mark, .dcompact = anchor_mark},
	.flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

void fiber_init(bool (*on_death)(struct fiber_state *state))
{
	fibers.on_death = on_death;
	/* No '@' in front: instance_variables and Marshal do not see it. */
	fibers.id_state = rb_intern("__rbprobe_fiber_state");
	own_register(&fibers.anchor); /* first: it allocates, and may collect */
	fibers.anchor = TypedData_Wrap_Struct(rb_cObject, &anchor_type, &fibers);
}

static VALUE state_attach(VALUE fiber)
{
	struct fiber_state *state = aligned_alloc(_Alignof(struct fiber_state), sizeof(*state));
	VALUE holder;

	if (!state)
		return Qnil;
	memset(state, 0, sizeof(*state));
	state->native_thread = pthread_self();
	state->context = (uintptr_t)thread_running_context(rb_thread_current());
	state->ref = fibers.free_ref_count ? fibers.free_refs[--fibers.free_ref_count] : fibers.next_ref++;
	state->next = fibers.states;
	state->previous_next = &fibers.states;
	if (state->next)
		state->next->previous_next = &state->next;
	fibers.states = state;
	holder = TypedData_Wrap_Struct(0, &state_type, state);
	rb_ivar_set(fiber, fibers.id_state, holder);
	return holder;
}

static struct fiber_state *state_find(VALUE fiber)
{
	VALUE holder;
	int failed = 0;

	if (!compat_in_main_ractor())
		return NULL;
	holder = rb_attr_get(fiber, fibers.id_state);
	if (NIL_P(holder)) {
		if (RB_OBJ_FROZEN(fiber))
			return NULL;
		holder = rb_protect(state_attach, fiber, &failed);
		if (failed) {
			exception_drop(Qnil);
			return NULL;
		}
		if (NIL_P(holder))
			return NULL;
	}
	return RTYPEDDATA_DATA(holder);
}

static struct fiber_state *noted(struct fiber_note *notes, uintptr_t key, struct fiber_state *state)
{
	struct fiber_note *note = fiber_note_of(notes, key);

	if (!state)
		return NULL;
	atomic_store_explicit(&note->key, 0, memory_order_relaxed);
	note->state = state;
	atomic_store_explicit(&note->key, key, memory_order_release);
	return state;
}

struct fiber_state *fiber_note_object(VALUE fiber)
{
	return noted(fiber_notes_of_objects, fiber, state_find(fiber));
}

/* As long as a fiber runs, nothing else has its context; a dead one's may be another's, whose state is younger, and first. */
struct fiber_state *fiber_met_state_or_not(bool *told)
{
	struct fiber_state *state;
	uintptr_t context;
	unsigned looked_at = 0;

	*told = false;
	if (!compat_in_main_ractor())
		return NULL;
	context = (uintptr_t)thread_running_context(rb_thread_current());
	if (!context)
		return NULL;
	for (state = fibers.states; state && looked_at < STATES_LOOKED_AT; state = state->next) {
		if (state->context == context)
			break;
		looked_at++;
	}
	*told = looked_at < STATES_LOOKED_AT;
	return state && *told && pthread_equal(state->native_thread, pthread_self()) ? state : NULL;
}

struct fiber_state *fiber_met_state(void)
{
	bool told;

	return fiber_met_state_or_not(&told);
}

struct fiber_state *fiber_suppress_begin(void)
{
	struct fiber_state *state = fiber_current_state();

	if (state)
		state->suppress_depth++;
	return state;
}

void fiber_suppress_end(struct fiber_state *state)
{
	if (state)
		state->suppress_depth--;
}

struct fiber_state *fiber_note_context(uintptr_t context)
{
	VALUE fiber = rb_fiber_current();
	struct fiber_state *state = fiber_noted(fiber_notes_of_objects, fiber);

	return noted(fiber_notes, context, state ? state : fiber_note_object(fiber));
}

bool call_stack_push(struct call_stack *stack, const struct open_call *call)
{
	if (stack->depth == stack->size) {
		uint32_t size = stack->size ? 2 * stack->size : 16;
		struct open_call *calls = realloc(stack->calls, size * sizeof(*calls));

		if (!calls)
			return false;
		stack->calls = calls;
		stack->size = size;
	}
	stack->calls[stack->depth++] = *call;
	stack->shown += call->roles & 1;
	stack->within += call->roles >> 1 & 1;
	stack->outside += call->roles >> 2 & 1;
	stack->bindings = stack->bindings || call->roles & CALL_HAS_BINDING;
	stack->arena_used += call->values_size;
	return true;
}

bool call_stack_keep(struct call_stack *stack, struct open_call *call, const void *values, size_t size)
{
	size_t need = stack->arena_used + size;

	if (need > stack->arena_size) {
		size_t larger = 2 * need + 4096;
		char *arena = realloc(stack->arena, larger);

		if (!arena)
			return false;
		stack->arena = arena;
		stack->arena_size = larger;
	}
	if (size)
		memcpy(stack->arena + stack->arena_used, values, size);
	call->values_size = (uint32_t)size;
	return true;
}

unsigned fiber_holds(unsigned slot)
{
	unsigned holds = 0;

	for (const struct fiber_state *state = fibers.states; state; state = state->next)
		if (pthread_equal(state->native_thread, pthread_self()))
			holds += state->stacks[slot].held;
	return holds;
}

struct fiber_state *fiber_first(void)
{
	return fibers.states;
}

uint64_t fiber_calls_open(const struct fiber_state *state, unsigned slot, uint64_t start)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < state->stacks[slot].depth; i++)
		count += state->stacks[slot].calls[i].start == start;
	return count;
}

uint64_t fiber_calls_left(unsigned slot, uint64_t start)
{
	uint64_t count = 0;

	for (const struct fiber_state *state = fibers.states; state; state = state->next)
		count += fiber_calls_open(state, slot, start);
	return count;
}

void fiber_forget_session(unsigned slot)
{
	for (struct fiber_state *state = fibers.states; state; state = state->next) {
		call_stack_free(&state->stacks[slot]);
		memset(&state->stacks[slot], 0, sizeof(state->stacks[slot]));
	}
}

/*
 * A fiber that is not its thread's own says where its block is: "#<Fiber:0x000... file:line (resumed)>". One whose block is
 * written in C, as that of an Enumerator, has the block's address there, or the block's name; a thread's own has its own address
 * and no more.
 */
static void describe_creation(VALUE fiber, struct fiber_description *description)
{
	VALUE text = builtin_call0(BUILTIN_FIBER_TO_S, fiber);
	const char *bytes = RSTRING_PTR(text);
	const char *end = bytes + RSTRING_LEN(text);
	char own[40];
	int own_size = snprintf(own, sizeof(own), ":0x%016llx (", (unsigned long long)fiber);
	const char *from = memchr(bytes, ' ', (size_t)(end - bytes));
	const char *to = from ? memrchr(from + 1, '(', (size_t)(end - from - 1)) : NULL;

	description->root = memmem(bytes, (size_t)(end - bytes), own, (size_t)own_size) != NULL;
	if (from && to && to > from + 2)
		description->created_at = rb_str_new(from + 1, to - from - 2);
	RB_GC_GUARD(text);
}

void fiber_describe(struct fiber_description *description)
{
	VALUE fiber = rb_fiber_current();

	description->native_id = (uint32_t)syscall(SYS_gettid);
	description->thread_id = description->native_id;
	description->thread_name =
		builtin_missing(BUILTIN_THREAD_NAME) ? Qnil : builtin_call0(BUILTIN_THREAD_NAME, rb_thread_current());
	description->created_at = Qnil;
	description->root = true;
	if (!builtin_missing(BUILTIN_FIBER_TO_S))
		describe_creation(fiber, description);
}
