/*
 * A reader of .eh_frame, as far as libc needs one. See unwind.h. What it does not know, it refuses.
 *
 * The header has a table of all functions, sorted by address. A function's entry (FDE) refers to what many have in common (CIE);
 * both are small programs that say, for each instruction, where the caller's frame begins (the CFA) and where its registers were
 * saved.
 */

#define _GNU_SOURCE
#include "tracee/session/unwind.h"

#include <link.h>
#include <string.h>

/* DWARF's numbers of registers. */
#if defined(__x86_64__)
enum { REGISTER_FRAME = 6, REGISTER_STACK = 7 };
#elif defined(__aarch64__)
enum { REGISTER_FRAME = 29, REGISTER_STACK = 31 };
#else
enum { REGISTER_FRAME = -1, REGISTER_STACK = -2 };
#endif

/* How addresses are encoded in what gcc and clang make for Linux. */
#define ENCODED_RELATIVE_32 0x1b /* signed, from where it stands */
#define ENCODED_UNSIGNED_32 0x03
#define ENCODED_TABLE_32 0x3b /* signed, from the header */
#define STATES_MAX 8

/* --- The image */

struct search {
	uintptr_t address;
	struct unwind_image *image;
};

static int look_at(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *search = data;
	uintptr_t start = UINTPTR_MAX, end = 0;
	const uint8_t *table = NULL;

	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_GNU_EH_FRAME)
			table = (const uint8_t *)at;
		if (segment->p_type != PT_LOAD)
			continue;
		start = at < start ? at : start;
		end = at + segment->p_memsz > end ? at + segment->p_memsz : end;
	}
	if (search->address < start || search->address >= end)
		return 0;
	*search->image = (struct unwind_image){start, end, table};
	return 1;
}

bool unwind_image_find(struct unwind_image *image, const void *address)
{
	struct search search = {(uintptr_t)address, image};

	return address && dl_iterate_phdr(look_at, &search) > 0;
}

/* --- Encodings. A reader that has come to its end gives zeros and is not ok. */

struct reader {
	const uint8_t *at, *end;
	bool ok;
};

static void take(struct reader *reader, void *to, size_t size)
{
	memset(to, 0, size);
	if (!reader->ok || (size_t)(reader->end - reader->at) < size) {
		reader->ok = false;
		return;
	}
	memcpy(to, reader->at, size);
	reader->at += size;
}

static uint8_t byte(struct reader *reader)
{
	uint8_t value;

	take(reader, &value, sizeof(value));
	return value;
}

static uint32_t word(struct reader *reader)
{
	uint32_t value;

	take(reader, &value, sizeof(value));
	return value;
}

/* LEB128: seven bits a byte, the lowest first. *bits: how many there were. */
static uint64_t parts(struct reader *reader, unsigned *bits, bool *negative)
{
	uint64_t value = 0;
	uint8_t part;

	*bits = 0;
	do {
		part = byte(reader);
		if (*bits < 64)
			value |= (uint64_t)(part & 0x7f) << *bits;
		*bits += 7;
	} while (part & 0x80);
	*negative = part & 0x40;
	return value;
}

static uint64_t number(struct reader *reader)
{
	unsigned bits;
	bool negative;

	return parts(reader, &bits, &negative);
}

static int64_t signed_number(struct reader *reader)
{
	unsigned bits;
	bool negative;
	uint64_t value = parts(reader, &bits, &negative);

	return (int64_t)(negative && bits < 64 ? value | ~(uint64_t)0 << bits : value);
}

static void skip(struct reader *reader, uint64_t size)
{
	if (size > (uint64_t)(reader->end - reader->at))
		reader->ok = false;
	else
		reader->at += size;
}

/* --- The table of functions */

struct entry {
	int32_t function, description; /* from the header's address */
};

static bool entry_find(const struct unwind_image *image, uintptr_t address, struct entry *entry)
{
	const uint8_t *table = image->table;
	uint32_t low = 0, high;

	if (!table || table[0] != 1 || table[1] != ENCODED_RELATIVE_32 || table[2] != ENCODED_UNSIGNED_32 ||
	    table[3] != ENCODED_TABLE_32)
		return false;
	memcpy(&high, table + 8, sizeof(high));
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		memcpy(entry, table + 12 + middle * sizeof(*entry), sizeof(*entry));
		if ((uintptr_t)table + (uintptr_t)(intptr_t)entry->function <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return false;
	memcpy(entry, table + 12 + (low - 1) * sizeof(*entry), sizeof(*entry));
	return true;
}

uintptr_t unwind_function(const struct unwind_image *image, uintptr_t address)
{
	struct entry entry;

	if (!unwind_image_has(image, address) || !entry_find(image, address, &entry))
		return 0;
	return (uintptr_t)image->table + (uintptr_t)(intptr_t)entry.function;
}

/* --- Descriptions */

struct common {
	uint64_t code_unit;
	int64_t data_unit;
	uint64_t return_register;
	bool augmented;
	struct reader program;
};

static struct reader block(const uint8_t *at)
{
	struct reader reader = {at, at + 4, true};
	uint32_t size = word(&reader);

	reader.end = reader.at + size;
	reader.ok = size > 0 && size < UINT32_MAX; /* the latter: of 64-bit format */
	return reader;
}

static bool common_read(struct common *common, const uint8_t *at)
{
	struct reader reader = block(at);
	uint64_t size;
	char kinds[8];
	uint8_t version, encoding;

	if (word(&reader) != 0)
		return false;
	version = byte(&reader);
	for (size_t i = 0; i < sizeof(kinds); i++)
		if (!(kinds[i] = (char)byte(&reader)))
			break;
	if ((version != 1 && version != 3) || !memchr(kinds, '\0', sizeof(kinds)) || (kinds[0] && kinds[0] != 'z'))
		return false;
	common->augmented = kinds[0] == 'z';
	common->code_unit = number(&reader);
	common->data_unit = signed_number(&reader);
	common->return_register = version == 1 ? byte(&reader) : number(&reader);
	size = common->augmented ? number(&reader) : 0;
	common->program = reader;
	skip(&common->program, size);
	for (const char *kind = kinds + 1; common->augmented && *kind; kind++)
		switch (*kind) {
		case 'R':
			if (byte(&reader) != ENCODED_RELATIVE_32)
				return false;
			break;
		case 'L':
			byte(&reader);
			break;
		case 'P':
			encoding = byte(&reader);
			skip(&reader, (encoding & 7) == 4 || (encoding & 7) == 0 ? 8 : 4);
			break;
		case 'B':
			break;
		default: /* 'S', a signal's frame, among them */
			return false;
		}
	return common->program.ok;
}

/* --- The programs */

enum saved { SAVED_NOT, SAVED_AT, SAVED_ELSEWHERE };

/* Where things are at one instruction. */
struct state {
	int64_t cfa_register, cfa_offset;
	enum saved return_saved, frame_saved;
	int64_t return_offset, frame_offset; /* from the CFA */
};

static void save_in(struct state *state, const struct common *common, uint64_t which, enum saved saved, int64_t offset)
{
	if (which == common->return_register) {
		state->return_saved = saved;
		state->return_offset = offset;
	} else if ((int64_t)which == REGISTER_FRAME) {
		state->frame_saved = saved;
		state->frame_offset = offset;
	}
}

/* As it was at the function's first instruction. */
static void restore(struct state *state, const struct common *common, uint64_t which, const struct state *first)
{
	bool is_return = which == common->return_register;

	save_in(state, common, which, is_return ? first->return_saved : first->frame_saved,
	        is_return ? first->return_offset : first->frame_offset);
}

/* The instructions that are not moves in the code. False: one is not known. */
static bool execute(struct reader *program, const struct common *common, uint8_t instruction, struct state *state,
                    const struct state *first, struct state *states, unsigned *depth)
{
	uint64_t which;

	switch (instruction) {
	case 0x00: /* nop */
	case 0x2d: /* return address signed, or not */
		return true;
	case 0x05: /* offset_extended */
		which = number(program);
		save_in(state, common, which, SAVED_AT, (int64_t)number(program) * common->data_unit);
		return true;
	case 0x06: /* restore_extended */
		restore(state, common, number(program), first);
		return true;
	case 0x08: /* same_value */
		save_in(state, common, number(program), SAVED_NOT, 0);
		return true;
	case 0x07: /* undefined */
		save_in(state, common, number(program), SAVED_ELSEWHERE, 0);
		return true;
	case 0x0a: /* remember_state */
		if (*depth == STATES_MAX)
			return false;
		states[(*depth)++] = *state;
		return true;
	case 0x0b: /* restore_state */
		if (*depth == 0)
			return false;
		*state = states[--*depth];
		return true;
	case 0x0c: /* def_cfa */
		state->cfa_register = (int64_t)number(program);
		state->cfa_offset = (int64_t)number(program);
		return true;
	case 0x0d: /* def_cfa_register */
		state->cfa_register = (int64_t)number(program);
		return true;
	case 0x0e: /* def_cfa_offset */
		state->cfa_offset = (int64_t)number(program);
		return true;
	case 0x10: /* expression */
		save_in(state, common, number(program), SAVED_ELSEWHERE, 0);
		skip(program, number(program));
		return true;
	case 0x2e: /* GNU_args_size */
		number(program);
		return true;
	default:
		return false;
	}
}

/* Up to that offset in the function's code. */
static bool run(struct reader program, const struct common *common, uint64_t until, struct state *state)
{
	const struct state first = *state;
	struct state states[STATES_MAX];
	unsigned depth = 0;
	uint64_t at = 0;
	uint16_t two;

	while (program.ok && program.at < program.end) {
		uint8_t instruction = byte(&program), operand = instruction & 0x3f;
		uint64_t move = 0;

		if (instruction >> 6 == 1)
			move = operand;
		else if (instruction == 0x02)
			move = byte(&program);
		else if (instruction == 0x03) {
			take(&program, &two, sizeof(two));
			move = two;
		} else if (instruction == 0x04)
			move = word(&program);
		else if (instruction >> 6 == 2)
			save_in(state, common, operand, SAVED_AT, (int64_t)number(&program) * common->data_unit);
		else if (instruction >> 6 == 3)
			restore(state, common, operand, &first);
		else if (!execute(&program, common, instruction, state, &first, states, &depth))
			return false;
		at += move * common->code_unit;
		if (at > until)
			break;
	}
	return program.ok;
}

static bool state_at(const struct unwind_image *image, uintptr_t address, struct state *state)
{
	struct common common;
	struct reader reader;
	struct entry entry;
	const uint8_t *common_at;
	uintptr_t function;
	uint32_t back, size;

	if (!entry_find(image, address, &entry))
		return false;
	function = (uintptr_t)image->table + (uintptr_t)(intptr_t)entry.function;
	reader = block(image->table + entry.description);
	common_at = reader.at;
	back = word(&reader);
	common_at -= back;
	word(&reader); /* the function's address, which the table has as well */
	size = word(&reader);
	if (!reader.ok || back == 0 || address - function >= size || !unwind_image_has(image, (uintptr_t)common_at) ||
	    !common_read(&common, common_at))
		return false;
	if (common.augmented)
		skip(&reader, number(&reader));
	*state = (struct state){.cfa_register = -1};
	return run(common.program, &common, UINT64_MAX - 1, state) && run(reader, &common, address - function, state);
}

bool unwind_step(const struct unwind_image *image, struct unwind_place *place,
                 bool (*read)(uintptr_t from, void *to, size_t size))
{
	struct state state;
	uintptr_t cfa;

	if (!state_at(image, place->pc - place->is_return, &state) || state.return_saved != SAVED_AT)
		return false;
	if (state.cfa_register == REGISTER_STACK)
		cfa = place->sp;
	else if (state.cfa_register == REGISTER_FRAME && place->frame_pointer)
		cfa = place->frame_pointer;
	else
		return false;
	cfa += (uintptr_t)state.cfa_offset;
	if (cfa <= place->sp || !read(cfa + (uintptr_t)state.return_offset, &place->pc, sizeof(place->pc)))
		return false;
	if (state.frame_saved == SAVED_ELSEWHERE ||
	    (state.frame_saved == SAVED_AT &&
	     !read(cfa + (uintptr_t)state.frame_offset, &place->frame_pointer, sizeof(place->frame_pointer))))
		place->frame_pointer = 0;
	place->sp = cfa;
	place->is_return = true;
	return true;
}
