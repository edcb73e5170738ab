/* Calls in machine code. See call_code.h. */

#include "proto/call_code.h"

#include <string.h>

#define PAGE_LEAST 4096u /* nothing lies below */

#if defined(__x86_64__)

struct code {
	uint8_t bytes[sizeof(uint64_t)];
};

static bool read_code(const struct code_reader *reader, uint64_t address, struct code *code)
{
	uint64_t word;

	if (!reader->word(reader->owner, address, &word))
		return false;
	memcpy(code->bytes, &word, sizeof(word));
	return true;
}

bool call_code_is_return(const struct code_reader *reader, uint64_t address)
{
	struct code code;

	if (address < PAGE_LEAST || !read_code(reader, address - sizeof(code), &code))
		return false;
	if (code.bytes[3] == 0xe8) /* call rel32 */
		return true;
	/* call *register or *memory: ff /2, of two to seven bytes */
	for (int size = 2; size <= 7; size++)
		if (code.bytes[8 - size] == 0xff && (code.bytes[9 - size] & 0x38) == 0x10)
			return true;
	return false;
}

/* What the distance in an instruction points to, which is its last part; `next`: the instruction behind it. */
static uint64_t distant(const uint8_t *distance, uint64_t next)
{
	int32_t value;

	memcpy(&value, distance, sizeof(value));
	return next + (uint64_t)(int64_t)value;
}

static uint64_t read_slot(const struct code_reader *reader, uint64_t slot)
{
	uint64_t target;

	return reader->word(reader->owner, slot, &target) ? target : 0;
}

uint64_t call_code_target(const struct code_reader *reader, uint64_t address)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	struct code code;
	uint64_t entry, at;

	if (address < PAGE_LEAST || !read_code(reader, address - sizeof(code), &code))
		return 0;
	/* Without an entry (-fno-plt): call *distance(%rip) */
	if (code.bytes[2] == 0xff && code.bytes[3] == 0x15)
		return read_slot(reader, distant(code.bytes + 4, address));
	if (code.bytes[3] != 0xe8)
		return 0;
	entry = distant(code.bytes + 4, address);
	/* An entry of the procedure linkage table: jmp *distance(%rip), maybe with a mark and a prefix in front. */
	at = entry;
	if (read_code(reader, at, &code) && memcmp(code.bytes, endbr64, sizeof(endbr64)) == 0)
		read_code(reader, at += sizeof(endbr64), &code);
	if (code.bytes[0] == 0xf2)
		read_code(reader, ++at, &code);
	return code.bytes[0] == 0xff && code.bytes[1] == 0x25 ? read_slot(reader, distant(code.bytes + 2, at + 6)) : entry;
}

#elif defined(__aarch64__)

#define INSTRUCTION_SIZE 4u
#define BTI_C 0xd503245fu
/* Of an entry of the procedure linkage table: adrp x16, PAGE; ldr x17, [x16, #OFFSET]. */
#define ADRP_X16 0x90000010u
#define ADRP_X16_MASK 0x9f00001fu
#define LDR_X17_X16 0xf9400211u
#define LDR_X17_X16_MASK 0xffc003ffu

static bool read_instruction(const struct code_reader *reader, uint64_t address, uint32_t *instruction)
{
	uint64_t word;

	if (address % INSTRUCTION_SIZE || !reader->word(reader->owner, address, &word))
		return false;
	*instruction = (uint32_t)word;
	return true;
}

static bool is_direct_call(uint32_t instruction)
{
	return instruction >> 26 == 0x25; /* bl */
}

bool call_code_is_return(const struct code_reader *reader, uint64_t address)
{
	uint32_t code;

	if (address < PAGE_LEAST || !read_instruction(reader, address - INSTRUCTION_SIZE, &code))
		return false;
	/* blr, and its forms with an authenticated address */
	return is_direct_call(code) || (code & 0xfefff000) == 0xd63f0000;
}

/* What a signed field of an instruction says, which begins at its lowest bit. */
static int64_t signed_field(uint32_t field, unsigned bits)
{
	return (int64_t)((uint64_t)field << (64 - bits)) >> (64 - bits);
}

uint64_t call_code_target(const struct code_reader *reader, uint64_t address)
{
	uint32_t code, load;
	uint64_t target, slot, page;

	if (address < PAGE_LEAST || !read_instruction(reader, address - INSTRUCTION_SIZE, &code) || !is_direct_call(code))
		return 0;
	target = slot = address - INSTRUCTION_SIZE + (uint64_t)(signed_field(code & 0x3ffffff, 26) * INSTRUCTION_SIZE);
	if (read_instruction(reader, slot, &code) && code == BTI_C)
		read_instruction(reader, slot += INSTRUCTION_SIZE, &code);
	if ((code & ADRP_X16_MASK) != ADRP_X16 || !read_instruction(reader, slot + INSTRUCTION_SIZE, &load) ||
	    (load & LDR_X17_X16_MASK) != LDR_X17_X16)
		return target;
	page = (slot & ~UINT64_C(0xfff)) + (uint64_t)(signed_field((code >> 5 & 0x7ffff) << 2 | (code >> 29 & 3), 21) * 4096);
	return reader->word(reader->owner, page + (load >> 10 & 0xfff) * 8, &target) ? target : 0;
}

#else

bool call_code_is_return(const struct code_reader *reader, uint64_t address)
{
	(void)reader;
	(void)address;
	return false;
}

uint64_t call_code_target(const struct code_reader *reader, uint64_t address)
{
	(void)reader;
	(void)address;
	return 0;
}

#endif
