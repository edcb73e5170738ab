/*
 * Unwinding with elfutils' libdw, in a confined child. See native_unwind.h.
 *
 * Files are looked for where the process sees them, be that a container. What was replaced or removed since it was mapped,
 * and the vDSO, are put together from the process's memory.
 */

#ifdef HAVE_LIBDW

#define _GNU_SOURCE
#include "tracer/backtrace/native_unwind.h"

#include "tracer/backtrace/native_stack.h"

#include "tracer/backtrace/native_function.h"
#include "tracer/base/buffer.h"

#include <elf.h>
#include <elfutils/libdwfl.h>
#include <elfutils/version.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GAP_SIZE_MAX 4096 /* bytes of stack */
#define GAP_TRIES_MAX 24
#define SEGMENTS_MAX 64
#define IMAGE_MAX (64u << 20) /* bytes of a file that is put together from memory */
#define PAGE 4096u

struct frame {
	struct native_unwind_frame said;
	const char *function, *module;
	size_t function_size, module_size;
};

/* A thread's frames, innermost first. */
struct stack {
	struct frame *frames;
	size_t count;
	bool cut;
};

struct unwinding {
	const struct confined *confined;
	pid_t pid;
	Dwfl *dwfl;
	const struct snapshot *snapshot; /* the thread that is being unwound, */
	struct snapshot_place from;      /* from here; its own, or that of an outer frame */
	bool lost;                       /* the next frame is not one */
	bool beyond_copy;                /* the next frame is in what was not copied of the stack */
	uint64_t code_sp;                /* the last frame is code of no file, whose stack begins here; 0: it is not */
	struct stack *stack;
};

/* --- What libdw asks for */

static bool memory_header(const struct confined *confined, uint64_t base, Elf64_Ehdr *header, Elf64_Phdr *segments)
{
	return confined_read_memory(confined, base, header, sizeof(*header)) && memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
	       header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_phentsize == sizeof(*segments) && header->e_phnum > 0 &&
	       header->e_phnum <= SEGMENTS_MAX &&
	       confined_read_memory(confined, base + header->e_phoff, segments, header->e_phnum * sizeof(*segments));
}

/* What of a file is mapped, where it was in the file. Sections are there only where all of it is one segment: the vDSO. */
static Elf *elf_from_memory(const struct confined *confined, uint64_t base)
{
	Elf64_Ehdr header;
	Elf64_Phdr segments[SEGMENTS_MAX];
	uint64_t size = 0, bias = 0;
	unsigned loaded = 0;
	char *image;

	if (!memory_header(confined, base, &header, segments))
		return NULL;
	for (unsigned i = 0; i < header.e_phnum; i++) {
		if (segments[i].p_type != PT_LOAD)
			continue;
		if (segments[i].p_offset > IMAGE_MAX || segments[i].p_filesz > IMAGE_MAX - segments[i].p_offset)
			return NULL;
		if (loaded++ == 0)
			bias = base - (segments[i].p_vaddr - segments[i].p_offset % PAGE) / PAGE * PAGE;
		if (segments[i].p_offset + segments[i].p_filesz > size)
			size = segments[i].p_offset + segments[i].p_filesz;
	}
	if (size < sizeof(header))
		return NULL;
	image = memory_zeroed(size);
	for (unsigned i = 0; i < header.e_phnum; i++)
		for (uint64_t at = 0; segments[i].p_type == PT_LOAD && at < segments[i].p_filesz; at += PAGE)
			confined_read_memory(confined, bias + segments[i].p_vaddr + at, image + segments[i].p_offset + at,
			                     segments[i].p_filesz - at < PAGE ? segments[i].p_filesz - at : PAGE);
	memcpy(&header, image, sizeof(header));
	if (loaded > 1 || header.e_shoff > size || header.e_shnum * (uint64_t)header.e_shentsize > size - header.e_shoff) {
		header.e_shoff = 0;
		header.e_shnum = header.e_shstrndx = 0;
		memcpy(image, &header, sizeof(header));
	}
	return elf_memory(image, size);
}

static int find_elf(Dwfl_Module *module, void **user_data, const char *name, Dwarf_Addr base, char **file_name, Elf **elf)
{
	const struct confined *confined = *user_data;
	int fd = confined_open(confined, name);

	(void)module;
	if (fd >= 0) {
		*file_name = strdup(name);
		return fd;
	}
	*elf = elf_from_memory(confined, base);
	return -1;
}

/* Separate files with debug information are not looked for: they may be on a server, and what they add is lines, not frames. */
static int find_debuginfo(Dwfl_Module *module, void **user_data, const char *name, Dwarf_Addr base, const char *file_name,
                          const char *link, GElf_Word crc, char **debuginfo_name)
{
	(void)module;
	(void)user_data;
	(void)name;
	(void)base;
	(void)file_name;
	(void)link;
	(void)crc;
	(void)debuginfo_name;
	return -1;
}

static const Dwfl_Callbacks file_callbacks = {.find_elf = find_elf, .find_debuginfo = find_debuginfo};

static pid_t next_thread(Dwfl *dwfl, void *argument, void **thread_argument)
{
	const struct unwinding *unwinding = argument;

	(void)dwfl;
	if (*thread_argument)
		return 0;
	*thread_argument = argument;
	return unwinding->snapshot->tid;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *argument, void **thread_argument)
{
	const struct unwinding *unwinding = argument;

	(void)dwfl;
	*thread_argument = argument;
	return unwinding->snapshot->tid == tid;
}

static bool memory_read(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *result, void *argument)
{
	struct unwinding *unwinding = argument;
	uint64_t word;

	(void)dwfl;
	if (!snapshot_read(unwinding->snapshot, unwinding->confined, address, &word)) {
		unwinding->beyond_copy = unwinding->snapshot->stack_cut;
		return false;
	}
	*result = word;
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *argument)
{
	const struct unwinding *unwinding = argument;
	uint64_t registers[SNAPSHOT_REGISTERS_MAX];
	Dwarf_Word words[SNAPSHOT_REGISTERS_MAX];

	snapshot_registers(unwinding->snapshot, &unwinding->from, registers);
	for (unsigned i = 0; i < unwinding->snapshot->register_count; i++)
		words[i] = registers[i];
	dwfl_thread_state_register_pc(thread, unwinding->from.pc);
	return dwfl_thread_state_registers(thread, 0, unwinding->snapshot->register_count, words);
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
	.next_thread = next_thread, .get_thread = get_thread, .memory_read = memory_read, .set_initial_registers = set_registers};

static void name_set(const char **name, size_t *size, const char *text)
{
	*name = text;
	*size = text ? strnlen(text, NATIVE_NAME_MAX) : 0;
}

/* --- Frames */

/* 0: not known. */
static uint64_t stack_pointer(Dwfl_Frame *state)
{
#if _ELFUTILS_PREREQ(0, 188)
	Dwarf_Word value;

	return dwfl_frame_reg(state, SNAPSHOT_STACK_POINTER, &value) == 0 ? value : 0;
#else
	(void)state;
	return 0;
#endif
}

/* Whether the file says how functions there have moved the stack. */
static bool has_tables(Dwfl_Module *module, Dwarf_Addr pc)
{
	Dwarf_CFI *(*const kinds[])(Dwfl_Module *, Dwarf_Addr *) = {dwfl_module_eh_cfi, dwfl_module_dwarf_cfi};
	bool found = false;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && !found; i++) {
		Dwarf_Addr bias;
		Dwarf_CFI *tables = kinds[i](module, &bias);
		Dwarf_Frame *frame = NULL;

		found = tables && dwarf_cfi_addrframe(tables, pc - bias, &frame) == 0;
		free(frame);
	}
	return found;
}

static int add_frame(Dwfl_Frame *state, void *argument)
{
	struct unwinding *unwinding = argument;
	struct stack *stack = unwinding->stack;
	struct frame frame = {0};
	const char *name, *slash;
	Dwfl_Module *module;
	Dwarf_Addr pc, start = 0;
	struct snapshot_place caller;
	GElf_Off offset = 0;
	GElf_Sym symbol;
	bool exact;

	if (stack->count == NATIVE_FRAMES_MAX) {
		stack->cut = true;
		return DWARF_CB_ABORT;
	}
	if (!dwfl_frame_pc(state, &pc, &exact))
		return DWARF_CB_ABORT;
	frame.said.pc = pc;
	/* Where a function has no unwind information, libdw takes rbp for a frame pointer, whatever it holds. */
	if (!exact && !snapshot_is_return_address(unwinding->snapshot, unwinding->confined, pc)) {
		unwinding->lost = true;
		return DWARF_CB_ABORT;
	}
	/* A return address may be the first byte of the next function. */
	module = dwfl_addrmodule(unwinding->dwfl, exact ? pc : pc - 1);
	if (module) {
		name = dwfl_module_info(module, NULL, &start, NULL, NULL, NULL, NULL, NULL);
		slash = name ? strrchr(name, '/') : NULL;
		name_set(&frame.module, &frame.module_size, slash ? slash + 1 : name);
		frame.said.offset = pc - start;
		native_function_find(module, exact ? pc : pc - 1, &frame.said);
		name = dwfl_module_addrinfo(module, exact ? pc : pc - 1, &offset, &symbol, NULL, NULL, NULL);
		/* The nearest symbol before is a guess where it does not say how far it reaches. */
		if (name && symbol.st_size > 0) {
			name_set(&frame.function, &frame.function_size, name);
			frame.said.offset = offset + (exact ? 0 : 1);
		}
	}
	stack->frames = memory_resize(stack->frames, (stack->count + 1) * sizeof(frame));
	stack->frames[stack->count++] = frame;
	/* libdw would take the frame pointer for all there is, and leave out a caller, or show one twice. */
	if (module && snapshot_leaf_caller(unwinding->snapshot, &caller) && !has_tables(module, exact ? pc : pc - 1)) {
		unwinding->lost = true;
		return DWARF_CB_ABORT;
	}
	if (module)
		return DWARF_CB_OK;
	/* What a JIT has made has no unwind information, and uses the frame pointer as it likes. */
	unwinding->code_sp = stack_pointer(state);
	return DWARF_CB_ABORT;
}

static bool ends_in_musl(const struct stack *stack)
{
	const struct frame *last = &stack->frames[stack->count - 1];

	return stack->count > 1 && native_module_is_musl(last->module, last->module_size);
}

/*
 * Whether all frames up to the thread's beginning are known. To libdw a return address that it cannot read is one that does
 * not exist, as at a thread's beginning. Where musl ends what can be unwound, that may be the beginning or a call back from it:
 * it will do, and there may be more.
 */
static bool unwind_from(struct unwinding *unwinding, struct snapshot_place place)
{
	unwinding->from = place;
	unwinding->lost = unwinding->beyond_copy = false;
	unwinding->code_sp = 0;
	unwinding->stack->cut = dwfl_getthread_frames(unwinding->dwfl, unwinding->snapshot->tid, add_frame, unwinding) != 0;
	return !unwinding->beyond_copy && (!unwinding->stack->cut || ends_in_musl(unwinding->stack));
}

/* Whether the function of an inner frame can be what its outer one called. */
static bool may_have_called(const struct unwinding *unwinding, const struct frame *outer, const struct frame *inner)
{
	uint64_t target = snapshot_call_target(unwinding->snapshot, unwinding->confined, outer->said.pc), at = inner->said.pc - 1;
	Dwfl_Module *module = dwfl_addrmodule(unwinding->dwfl, at);
	GElf_Off offset;
	GElf_Sym symbol;

	if (target == 0)
		return true;
	if (target > at || dwfl_addrmodule(unwinding->dwfl, target) != module)
		return false;
	return !module || !dwfl_module_addrinfo(module, at, &offset, &symbol, NULL, NULL, NULL) || symbol.st_size == 0 ||
	       target == at - offset;
}

/* Puts the frames that were found after these. */
static void join(struct stack *inner, struct stack *outer)
{
	inner->frames = memory_resize(inner->frames, (inner->count + outer->count) * sizeof(*inner->frames));
	memcpy(inner->frames + inner->count, outer->frames, outer->count * sizeof(*inner->frames));
	inner->count += outer->count;
	inner->cut = outer->cut;
	free(outer->frames);
}

/*
 * Goes on from a place of which it is not known that it is a caller's. False: it is not, and all is as it was.
 * of_jit: see bridge(). gap: there may be frames in between.
 */
static bool goes_on_at(struct unwinding *unwinding, struct snapshot_place place, bool of_jit, bool gap)
{
	struct stack *stack = unwinding->stack, inner = *stack;

	*stack = (struct stack){0};
	if ((unwind_from(unwinding, place) || unwinding->code_sp) && stack->count > 1 &&
	    (of_jit || may_have_called(unwinding, &stack->frames[1], &stack->frames[0]))) {
		stack->frames[0].said.after_gap = gap;
		join(&inner, stack);
		*stack = inner;
		return true;
	}
	free(stack->frames);
	*stack = inner;
	return false;
}

static bool may_be_caller(const struct unwinding *unwinding, const struct snapshot_place *place)
{
	return dwfl_addrmodule(unwinding->dwfl, place->pc) &&
	       snapshot_is_return_address(unwinding->snapshot, unwinding->confined, place->pc);
}

/*
 * Beyond a function without unwind information, such as GMP's in assembler, the nearest word on the stack is looked for that
 * can be a return address, and from which everything unwinds up to the thread's beginning, or to code of a JIT. It may be a
 * leftover of an earlier call: so the frame after it must have called its function. Code of a JIT has no leftovers: it keeps
 * values in the VM's stack. What lies in between is a gap.
 * False: there is none.
 */
static bool bridge(struct unwinding *unwinding, uint64_t from, bool of_jit)
{
	struct snapshot_place place;
	unsigned tried = 0;

	for (uint64_t at = from; at < from + GAP_SIZE_MAX && tried < GAP_TRIES_MAX; at += sizeof(uint64_t)) {
		if (!snapshot_saved_caller(unwinding->snapshot, unwinding->confined, at, &place) ||
		    !may_be_caller(unwinding, &place))
			continue;
		tried++;
		if (goes_on_at(unwinding, place, of_jit, true))
			return true;
	}
	return false;
}

/* The innermost function has called none, and its caller is in registers. */
static bool step_out(struct unwinding *unwinding)
{
	struct snapshot_place place;

	return snapshot_leaf_caller(unwinding->snapshot, &place) && may_be_caller(unwinding, &place) &&
	       goes_on_at(unwinding, place, false, false);
}

static void unwind(struct unwinding *unwinding)
{
	struct stack *stack = unwinding->stack;
	bool whole = unwind_from(unwinding, snapshot_place(unwinding->snapshot));

	if (!whole && !unwinding->code_sp && stack->count <= 1)
		whole = (step_out(unwinding) || bridge(unwinding, unwinding->snapshot->sp, false)) && !unwinding->code_sp;
	while (!whole && unwinding->code_sp && stack->count < NATIVE_FRAMES_MAX && bridge(unwinding, unwinding->code_sp, true))
		whole = !unwinding->code_sp;
	if (!whole)
		stack->cut = true;
}

/* --- The child */

static void say(const struct unwinding *unwinding, size_t index)
{
	const struct stack *stack = unwinding->stack;
	struct native_unwind_thread thread = {.index = (uint32_t)index, .count = (uint32_t)stack->count, .cut = stack->cut};
	struct buffer answer = {0};

	buffer_add(&answer, (const char *)&thread, sizeof(thread));
	for (size_t i = 0; i < stack->count; i++) {
		struct frame *frame = &stack->frames[i];

		frame->said.function_size = (uint16_t)frame->function_size;
		frame->said.module_size = (uint16_t)frame->module_size;
		buffer_add(&answer, (const char *)&frame->said, sizeof(frame->said));
		buffer_add(&answer, frame->function, frame->function_size);
		buffer_add_char(&answer, '\0');
		buffer_add(&answer, frame->module, frame->module_size);
		buffer_add_char(&answer, '\0');
	}
	confined_answer(unwinding->confined, answer.bytes, answer.size);
	buffer_free(&answer);
}

/* A map has one line for it, without a file. */
static void report_vdso(Dwfl *dwfl, FILE *maps)
{
	unsigned long start, end;
	char line[512];

	rewind(maps);
	while (fgets(line, sizeof(line), maps))
		if (strstr(line, " [vdso]\n") && sscanf(line, "%lx-%lx", &start, &end) == 2)
			dwfl_report_module(dwfl, "[vdso]", start, end);
}

static int give_confined(Dwfl_Module *module, void **user_data, const char *name, Dwarf_Addr start, void *argument)
{
	(void)module;
	(void)name;
	(void)start;
	*user_data = argument;
	return DWARF_CB_OK;
}

static bool report_modules(const struct unwinding *unwinding)
{
	FILE *maps = unwinding->confined->maps < 0 ? NULL : fdopen(unwinding->confined->maps, "r");
	int status;

	if (!maps)
		return false;
	dwfl_report_begin(unwinding->dwfl);
	status = dwfl_linux_proc_maps_report(unwinding->dwfl, maps);
	report_vdso(unwinding->dwfl, maps);
	dwfl_report_end(unwinding->dwfl, NULL, NULL);
	dwfl_getmodules(unwinding->dwfl, give_confined, (void *)unwinding->confined, 0);
	return status == 0;
}

void native_unwind(const struct confined *confined, const void *argument)
{
	const struct native_unwind_order *order = argument;
	struct unwinding unwinding = {.confined = confined, .pid = order->pid, .dwfl = dwfl_begin(&file_callbacks)};
	bool attached = false;

	if (!unwinding.dwfl || !report_modules(&unwinding))
		return;
	for (size_t i = 0; i < order->count; i++) {
		struct stack stack = {0};

		if (!order->snapshots[i].register_count)
			continue;
		unwinding.snapshot = &order->snapshots[i];
		unwinding.stack = &stack;
		attached = attached || dwfl_attach_state(unwinding.dwfl, NULL, order->pid, &thread_callbacks, &unwinding);
		if (attached)
			unwind(&unwinding);
		say(&unwinding, i);
		free(stack.frames);
	}
}

#endif
