/* Calls that wait until it is known whether they are shown. See kept.h. */

#include "tracee/observe/kept.h"

#include "tracee/base/ring.h"
#include "tracee/observe/decide.h"
#include "tracee/observe/observe.h"
#include "tracee/observe/probe.h"
#include "tracee/session/session.h"
#include "tracee/vm/fiber.h"

#include <stdlib.h>
#include <string.h>

#define SIZE_MIN 4096u
#define SIZE_IDLE_MAX (64u << 10) /* of a fiber that keeps nothing */

/* The start of a call, its end, or a mark; a payload follows. */
struct kept_record {
	uint8_t kind;
	uint8_t ending;        /* of an end */
	bool ended, met, told; /* of a start; told: it is in the ring, if there was room; then, and for those inside: */
	bool in_tree;          /* the call is shown, or so deep inside one that is that --depth leaves it out */
	uint16_t payload_size;
	uint32_t method;
	uint32_t count;    /* of an end: retries; of a start: calls inside it that were given up */
	uint64_t time;     /* ticks */
	uint64_t position; /* of a start: in the ring; of an end: of its start, here */
};

#define RECORD_BYTES(payload_size) (sizeof(struct kept_record) + RING_ALIGN(payload_size))
#define END_BYTES RECORD_BYTES(0)

static struct kept_record *record_at(const struct call_stack *stack, size_t at)
{
	return (struct kept_record *)(stack->kept + at);
}

/* --- To the ring */

/* A walk over what a fiber keeps. */
struct walk {
	struct session *session;
	struct fiber_state *fiber;
	struct call_stack *stack;
	size_t write;               /* where what stays is moved to */
	uint32_t level;             /* of calls of a tree around the place */
	uint32_t open;              /* index of the next open call, in the fiber's stack */
	struct kept_record *around; /* the innermost start that stays; NULL: none */
	bool over;                  /* nothing stays */
};

static bool is_too_deep(const struct walk *walk)
{
	uint32_t depth = walk->session->decider->conditions.depth;

	return depth && walk->level > depth;
}

/* What was given up inside a call that is shown after all. */
static void count_given_up(struct session *session, struct kept_record *start)
{
	session->left_out -= start->count;
	ring_count_many_lost(&session->ring, start->time, start->count);
	start->count = 0;
}

static void tell_start(const struct walk *walk, struct kept_record *start)
{
	struct session *session = walk->session;
	const struct ring_record record = {
		.kind = RING_START, .method = start->method, .fiber = walk->fiber->ref, .time = start->time};

	start->in_tree = true;
	count_given_up(session, start);
	if (start->told)
		return;
	start->told = true;
	start->position = RING_NOWHERE;
	if (is_too_deep(walk)) {
		session->left_out++;
		return;
	}
	if (session->options.overflow == OVERFLOW_BLOCK)
		observe_wait_for_room(session, start->payload_size);
	start->position = ring_push_start(&session->ring, &record, start + 1, start->payload_size);
	session->pushed += start->position != RING_NOWHERE;
}

static void tell_end(const struct walk *walk, const struct kept_record *end, const struct kept_record *start)
{
	struct ring *ring = &walk->session->ring;
	const struct ring_record record = {.kind = RING_END,
	                                   .ending = end->ending,
	                                   .method = end->method,
	                                   .fiber = walk->fiber->ref,
	                                   .duration = end->count,
	                                   .time = end->time};

	if (start->position == RING_NOWHERE)
		return;
	/* A record of a whole call has no place for them. */
	if (end->count)
		ring_release(ring);
	ring_push_end(ring, start->position, &record, end + 1, end->payload_size);
}

static void tell_mark(const struct walk *walk, const struct kept_record *mark)
{
	struct session *session = walk->session;
	const struct ring_record record = {
		.kind = RING_MARK, .method = mark->method, .fiber = walk->fiber->ref, .time = mark->time};

	if (session->options.overflow == OVERFLOW_BLOCK)
		observe_wait_for_room(session, mark->payload_size);
	if (!ring_push_mark(&session->ring, &record, mark + 1, mark->payload_size))
		session->marks_lost++;
}

static void leave_out(const struct walk *walk, const struct kept_record *start)
{
	walk->session->left_out++;
	if (walk->around)
		walk->around->count += 1 + start->count;
}

/* An open call stays, and with it nothing but its start. */
static void move_open(struct walk *walk, const struct kept_record *start)
{
	struct open_call *calls = walk->stack->calls;
	size_t size = RECORD_BYTES(start->payload_size);

	while (!(calls[walk->open].roles & CALL_KEPT))
		walk->open++;
	calls[walk->open++].kept = (uint32_t)walk->write;
	walk->around = record_at(walk->stack, walk->write);
	memmove(walk->around, start, size);
	walk->write += size;
}

static void walk_start(struct walk *walk, struct kept_record *start)
{
	bool shown = walk->level || start->met || start->told;

	if (shown) {
		walk->level++;
		tell_start(walk, start);
	}
	if (start->ended || walk->over) {
		if (!shown)
			leave_out(walk, start);
		return;
	}
	move_open(walk, start);
}

/* Gives to the ring what is to be shown, and gives up the rest, but for the starts of open calls. */
static void walk_all(struct walk *walk)
{
	struct call_stack *stack = walk->stack;

	for (size_t at = 0; at < stack->kept_used;) {
		struct kept_record *record = record_at(stack, at);

		at += RECORD_BYTES(record->payload_size);
		if (record->kind == RING_START) {
			walk_start(walk, record);
		} else if (record->kind == RING_MARK) {
			tell_mark(walk, record);
		} else if (record_at(stack, record->position)->in_tree) {
			tell_end(walk, record, record_at(stack, record->position));
			walk->level--;
		}
	}
	stack->kept_used = stack->kept_after_walk = walk->write;
}

static void give_back(struct session *session, struct call_stack *stack)
{
	session->decider->kept_bytes -= stack->kept_size;
	free(stack->kept);
	stack->kept = NULL;
	stack->kept_size = 0;
}

static void flush(struct session *session, struct fiber_state *fiber, bool over)
{
	struct call_stack *stack = &fiber->stacks[session->slot];
	struct walk walk = {.session = session, .fiber = fiber, .stack = stack, .over = over};

	walk_all(&walk);
	if (stack->kept_used == 0 && stack->kept_size > SIZE_IDLE_MAX)
		give_back(session, stack);
}

/* --- Keeping */

/* Room for so many bytes, besides the ends of all open calls. */
static bool make_room(struct session *session, struct call_stack *stack, size_t need)
{
	size_t wanted = stack->kept_used + stack->kept_open * END_BYTES + need;
	size_t size = stack->kept_size ? stack->kept_size : SIZE_MIN;
	char *larger;

	if (wanted <= stack->kept_size)
		return true;
	while (size < wanted)
		size *= 2;
	if (size > KEPT_SIZE_MAX || session->decider->kept_bytes + size - stack->kept_size > KEPT_SESSION_MAX)
		return false;
	larger = realloc(stack->kept, size);
	if (!larger)
		return false;
	session->decider->kept_bytes += size - stack->kept_size;
	stack->kept = larger;
	stack->kept_size = size;
	return true;
}

static struct kept_record *append(struct call_stack *stack, const struct kept_record *record, const void *payload)
{
	struct kept_record *to = record_at(stack, stack->kept_used);

	*to = *record;
	if (record->payload_size)
		memcpy(to + 1, payload, record->payload_size);
	stack->kept_used += RECORD_BYTES(record->payload_size);
	return to;
}

/* The same. Gives up what can be, where there is not. */
static bool make_room_by_walk(struct session *session, struct fiber_state *fiber, size_t need)
{
	struct call_stack *stack = &fiber->stacks[session->slot];

	if (make_room(session, stack, need))
		return true;
	/* A walk is worth its while only where much has come since the last one. */
	if (stack->kept_used - stack->kept_after_walk < KEPT_SIZE_MAX / 8)
		return false;
	flush(session, fiber, false);
	return make_room(session, stack, need);
}

bool kept_start(struct session *session, struct fiber_state *fiber, struct open_call *call, const void *payload,
                size_t payload_size)
{
	struct call_stack *stack = &fiber->stacks[session->slot];
	const struct kept_record record = {
		.kind = RING_START, .payload_size = (uint16_t)payload_size, .method = call->probe->ref, .time = call->began};
	size_t need = RECORD_BYTES(payload_size) + END_BYTES;

	if (payload_size > RING_PAYLOAD_MAX)
		return false;
	if (!make_room_by_walk(session, fiber, need))
		return false;
	call->kept = (uint32_t)stack->kept_used;
	append(stack, &record, payload);
	stack->kept_open++;
	return true;
}

bool kept_mark(struct session *session, struct fiber_state *fiber, uint32_t method, uint64_t time, const void *payload,
               size_t payload_size)
{
	struct call_stack *stack = &fiber->stacks[session->slot];
	const struct kept_record record = {
		.kind = RING_MARK, .payload_size = (uint16_t)payload_size, .method = method, .time = time};

	if (!stack->kept_open || payload_size > RING_PAYLOAD_MAX ||
	    !make_room_by_walk(session, fiber, RECORD_BYTES(payload_size)))
		return false;
	append(stack, &record, payload);
	return true;
}

bool kept_is_told(const struct call_stack *stack, const struct open_call *call)
{
	return record_at(stack, call->kept)->told;
}

static void keep_end(struct session *session, struct fiber_state *fiber, struct kept_record *end, const void *payload)
{
	struct call_stack *stack = &fiber->stacks[session->slot];

	record_at(stack, end->position)->ended = true;
	stack->kept_open--;
	/* In GC nothing has a payload. */
	if (end->payload_size && !make_room(session, stack, RECORD_BYTES(end->payload_size)))
		end->payload_size = 0;
	append(stack, end, payload);
	if (stack->kept_open == 0)
		flush(session, fiber, false);
}

void kept_end(struct session *session, struct fiber_state *fiber, const struct open_call *call, enum ending ending, uint64_t time,
              const void *payload, size_t payload_size)
{
	struct kept_record end = {.kind = RING_END,
	                          .ending = (uint8_t)ending,
	                          .payload_size = (uint16_t)payload_size,
	                          .method = call->probe->ref,
	                          .count = call->retries,
	                          .time = time,
	                          .position = call->kept};

	record_at(&fiber->stacks[session->slot], call->kept)->met = call->met;
	keep_end(session, fiber, &end, payload);
}

void kept_end_unseen(struct session *session, struct fiber_state *fiber, uint64_t time)
{
	struct call_stack *stack = &fiber->stacks[session->slot];
	size_t at = stack->kept_ending - 1;
	struct kept_record end = {
		.kind = RING_END, .ending = ENDING_UNKNOWN, .method = record_at(stack, at)->method, .time = time, .position = at};

	stack->kept_ending = 0;
	keep_end(session, fiber, &end, NULL);
}

void kept_settle(struct session *session, struct fiber_state *fiber)
{
	struct call_stack *stack = &fiber->stacks[session->slot];

	if (stack->kept_used)
		flush(session, fiber, true);
}

void kept_forget(struct session *session, struct fiber_state *fiber)
{
	if (fiber->stacks[session->slot].kept)
		give_back(session, &fiber->stacks[session->slot]);
}

void kept_tell_outermost(struct session *session, struct fiber_state *fiber)
{
	struct call_stack *stack = &fiber->stacks[session->slot];
	struct walk walk = {.session = session, .fiber = fiber, .stack = stack, .level = 1};

	if (stack->kept_open)
		tell_start(&walk, record_at(stack, 0));
}
