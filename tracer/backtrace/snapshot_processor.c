/* What native stacks need to know of the processor: where return addresses are. See thread_snapshot.h. */

#include "tracer/backtrace/thread_snapshot.h"

#include "proto/call_code.h"

#include <string.h>

/* Which of the registers, as DWARF numbers them. */
#if defined(__x86_64__)
#define FRAME_POINTER 6
#define PROGRAM_COUNTER 16
#elif defined(__aarch64__)
#define FRAME_POINTER 29
#define LINK_REGISTER 30
#endif

struct snapshot_place snapshot_place(const struct snapshot *snapshot)
{
	struct snapshot_place place = {.pc = snapshot->pc, .sp = snapshot->sp};

#ifdef FRAME_POINTER
	place.fp = snapshot->registers[FRAME_POINTER];
#endif
	return place;
}

void snapshot_registers(const struct snapshot *snapshot, const struct snapshot_place *place, uint64_t *registers)
{
	memcpy(registers, snapshot->registers, snapshot->register_count * sizeof(*registers));
#ifdef FRAME_POINTER
	registers[SNAPSHOT_STACK_POINTER] = place->sp;
	registers[FRAME_POINTER] = place->fp;
#else
	(void)place;
#endif
#ifdef PROGRAM_COUNTER
	registers[PROGRAM_COUNTER] = place->pc;
#endif
}

bool snapshot_leaf_caller(const struct snapshot *snapshot, struct snapshot_place *caller)
{
#ifdef LINK_REGISTER
	*caller = snapshot_place(snapshot);
	caller->pc = snapshot->registers[LINK_REGISTER];
	return true;
#else
	(void)snapshot;
	(void)caller;
	return false;
#endif
}

#if defined(__x86_64__)

/* What the caller's frame pointer was is not known. */
bool snapshot_saved_caller(const struct snapshot *snapshot, const struct confined *confined, uint64_t at,
                           struct snapshot_place *caller)
{
	*caller = (struct snapshot_place){.sp = at + sizeof(uint64_t), .fp = snapshot->registers[FRAME_POINTER]};
	return snapshot_read(snapshot, confined, at, &caller->pc);
}

#elif defined(__aarch64__)

/*
 * Saved in front of it is the caller's frame pointer: the address of the caller's own pair of both, which compilers put at the
 * lower end of a frame.
 */
bool snapshot_saved_caller(const struct snapshot *snapshot, const struct confined *confined, uint64_t at,
                           struct snapshot_place *caller)
{
	if (!snapshot_read(snapshot, confined, at, &caller->pc) ||
	    !snapshot_read(snapshot, confined, at - sizeof(uint64_t), &caller->fp))
		return false;
	caller->sp = caller->fp;
	return caller->sp > at && caller->sp < snapshot->sp + SNAPSHOT_STACK_MAX && caller->sp % sizeof(uint64_t) == 0;
}

#else

bool snapshot_saved_caller(const struct snapshot *snapshot, const struct confined *confined, uint64_t at,
                           struct snapshot_place *caller)
{
	(void)snapshot;
	(void)confined;
	(void)at;
	(void)caller;
	return false;
}

#endif

struct within {
	const struct snapshot *snapshot;
	const struct confined *confined;
};

static bool word_within(const void *owner, uint64_t address, uint64_t *word)
{
	const struct within *within = (const struct within *)owner;

	return snapshot_read(within->snapshot, within->confined, address, word);
}

bool snapshot_is_return_address(const struct snapshot *snapshot, const struct confined *confined, uint64_t address)
{
	const struct within within = {snapshot, confined};

	return call_code_is_return(&(struct code_reader){word_within, &within}, address);
}

uint64_t snapshot_call_target(const struct snapshot *snapshot, const struct confined *confined, uint64_t address)
{
	const struct within within = {snapshot, confined};

	return call_code_target(&(struct code_reader){word_within, &within}, address);
}
