/*
 * What native stacks need to know of the processor: where return addresses are, and what calls look like. See thread_snapshot.h.
 */

#include "tracer/backtrace/thread_snapshot.h"

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

static bool read_code(const struct snapshot *snapshot, const struct confined *confined, uint64_t address, uint8_t code[8])
{
	uint64_t word;

	if (!snapshot_read(snapshot, confined, address, &word))
		return false;
	memcpy(code, &word, sizeof(word));
	return true;
}

bool snapshot_is_return_address(const struct snapshot *snapshot, const struct confined *confined, uint64_t address)
{
	uint8_t code[8];

	if (address < 4096 || !read_code(snapshot, confined, address - sizeof(code), code))
		return false;
	if (code[3] == 0xe8) /* call rel32 */
		return true;
	/* call *register or *memory: ff /2, of two to seven bytes */
	for (int size = 2; size <= 7; size++)
		if (code[8 - size] == 0xff && (code[9 - size] & 0x38) == 0x10)
			return true;
	return false;
}

uint64_t snapshot_call_target(const struct snapshot *snapshot, const struct confined *confined, uint64_t address)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	uint64_t target, slot;
	uint8_t code[8];
	int32_t distance;

	if (!read_code(snapshot, confined, address - sizeof(code), code) || code[3] != 0xe8)
		return 0;
	memcpy(&distance, code + 4, sizeof(distance));
	target = slot = address + (uint64_t)(int64_t)distance;
	/* An entry of the procedure linkage table: jmp *distance(%rip), maybe with a mark and a prefix in front. */
	if (read_code(snapshot, confined, slot, code) && memcmp(code, endbr64, sizeof(endbr64)) == 0)
		read_code(snapshot, confined, slot += sizeof(endbr64), code);
	if (code[0] == 0xf2)
		read_code(snapshot, confined, ++slot, code);
	if (code[0] != 0xff || code[1] != 0x25)
		return target;
	memcpy(&distance, code + 2, sizeof(distance));
	return snapshot_read(snapshot, confined, slot + 6 + (uint64_t)(int64_t)distance, &target) ? target : 0;
}

#elif defined(__aarch64__)

#define INSTRUCTION_SIZE 4u
#define BTI_C 0xd503245fu
/* Of an entry of the procedure linkage table: adrp x16, PAGE; ldr x17, [x16, #OFFSET]. */
#define ADRP_X16 0x90000010u
#define ADRP_X16_MASK 0x9f00001fu
#define LDR_X17_X16 0xf9400211u
#define LDR_X17_X16_MASK 0xffc003ffu

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

static bool read_instruction(const struct snapshot *snapshot, const struct confined *confined, uint64_t address,
                             uint32_t *instruction)
{
	uint64_t word;

	if (address % INSTRUCTION_SIZE || !snapshot_read(snapshot, confined, address, &word))
		return false;
	*instruction = (uint32_t)word;
	return true;
}

static bool is_direct_call(uint32_t instruction)
{
	return instruction >> 26 == 0x25; /* bl */
}

bool snapshot_is_return_address(const struct snapshot *snapshot, const struct confined *confined, uint64_t address)
{
	uint32_t code;

	if (address < 4096 || !read_instruction(snapshot, confined, address - INSTRUCTION_SIZE, &code))
		return false;
	/* blr, and its forms with an authenticated address */
	return is_direct_call(code) || (code & 0xfefff000) == 0xd63f0000;
}

/* What a signed field of an instruction says, which begins at its lowest bit. */
static int64_t signed_field(uint32_t field, unsigned bits)
{
	return (int64_t)((uint64_t)field << (64 - bits)) >> (64 - bits);
}

uint64_t snapshot_call_target(const struct snapshot *snapshot, const struct confined *confined, uint64_t address)
{
	uint32_t code, load;
	uint64_t target, slot, page;

	if (!read_instruction(snapshot, confined, address - INSTRUCTION_SIZE, &code) || !is_direct_call(code))
		return 0;
	target = slot = address - INSTRUCTION_SIZE + (uint64_t)(signed_field(code & 0x3ffffff, 26) * INSTRUCTION_SIZE);
	if (read_instruction(snapshot, confined, slot, &code) && code == BTI_C)
		read_instruction(snapshot, confined, slot += INSTRUCTION_SIZE, &code);
	if ((code & ADRP_X16_MASK) != ADRP_X16 || !read_instruction(snapshot, confined, slot + INSTRUCTION_SIZE, &load) ||
	    (load & LDR_X17_X16_MASK) != LDR_X17_X16)
		return target;
	page = (slot & ~UINT64_C(0xfff)) + (uint64_t)(signed_field((code >> 5 & 0x7ffff) << 2 | (code >> 29 & 3), 21) * 4096);
	return snapshot_read(snapshot, confined, page + (load >> 10 & 0xfff) * 8, &target) ? target : 0;
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

uint64_t snapshot_call_target(const struct snapshot *snapshot, const struct confined *confined, uint64_t address)
{
	(void)snapshot;
	(void)confined;
	(void)address;
	return 0;
}

bool snapshot_is_return_address(const struct snapshot *snapshot, const struct confined *confined, uint64_t address)
{
	(void)snapshot;
	(void)confined;
	(void)address;
	return false;
}

#endif
