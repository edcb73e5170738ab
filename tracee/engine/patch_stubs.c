/*
 * The stubs, in the machine's own language: C has no way to give 16,384 functions one body and each a constant. See
 * patch_stubs.h.
 *
 * A stub loads its slot's address into a register that is free at a function's entry, and jumps to one of three entries, by the
 * way its function takes arguments. The entries put the arguments where patch_enter() expects them. They keep a frame pointer,
 * and say how to unwind them, for profilers and debuggers.
 */

#include "tracee/engine/patch_stubs.h"

#include "tracee/engine/patch_assembly.h"

#include <stddef.h>
#include <string.h>

#define STUB_SIZE 16

/* What the assembly knows. */
_Static_assert(PATCH_SLOTS_MAX == 16384 && STUB_SIZE == 16, "of the stubs");
_Static_assert(sizeof(struct patch_slot) == 64 && offsetof(struct patch_slot, entry) == 0 &&
                       offsetof(struct patch_slot, argc) == 24,
               "of a slot");

/* Named by the assembly; nobody else may. */
extern struct patch_slot patch_slots[PATCH_SLOTS_MAX];
__attribute__((used)) struct patch_slot patch_slots[PATCH_SLOTS_MAX];

#if defined(__x86_64__) || defined(__aarch64__)

extern const char patch_stubs[];
void patch_entry_vector(void);
void patch_entry_registers(void);
void patch_entry_stack(void);

#if defined(__x86_64__)

#define STUBS                                                                                                                    \
	".balign 64\n"                                                                                                           \
	".hidden patch_stubs\n"                                                                                                  \
	".globl patch_stubs\n"                                                                                                   \
	"patch_stubs:\n"                                                                                                         \
	".set patch_slot_index, 0\n"                                                                                             \
	".rept 16384\n"                                                                                                          \
	"  .balign 16\n"                                                                                                         \
	"  endbr64\n"                                                                                                            \
	"  lea patch_slots + 64 * patch_slot_index(%rip), %r10\n"                                                                \
	"  jmp *(%r10)\n"                                                                                                        \
	"  .set patch_slot_index, patch_slot_index + 1\n"                                                                        \
	".endr\n"

/* (int argc, const VALUE *argv, VALUE receiver) */
#define ENTRY_VECTOR                                                                                                             \
	ASM_BEGIN(patch_entry_vector)                                                                                            \
	"  mov %rsi, %rcx\n"                                                                                                     \
	"  mov %rdx, %rsi\n"                                                                                                     \
	"  mov %edi, %edx\n"                                                                                                     \
	"  mov %r10, %rdi\n"                                                                                                     \
	"  jmp patch_enter\n" ASM_END(patch_entry_vector)

/* The arguments in registers go to the frame, and argc and the receiver to where patch_enter() expects them. */
#define STORE_REGISTERS                                                                                                          \
	"  mov %rsi, 0(%rsp)\n"                                                                                                  \
	"  mov %rdx, 8(%rsp)\n"                                                                                                  \
	"  mov %rcx, 16(%rsp)\n"                                                                                                 \
	"  mov %r8, 24(%rsp)\n"                                                                                                  \
	"  mov %r9, 32(%rsp)\n"                                                                                                  \
	"  mov %rdi, %rsi\n"                                                                                                     \
	"  mov 24(%r10), %edx\n"

#define CALL_WITH_FRAME                                                                                                          \
	"  mov %rsp, %rcx\n"                                                                                                     \
	"  mov %r10, %rdi\n"                                                                                                     \
	"  call patch_enter\n" ASM_RETURN

/* (VALUE receiver, and up to five arguments in registers) */
#define ENTRY_REGISTERS                                                                                                          \
	ASM_BEGIN(patch_entry_registers) ASM_FRAME(48) STORE_REGISTERS CALL_WITH_FRAME ASM_END(patch_entry_registers)

/* %rdx: how many arguments there are. */
#define COPY_STACK                                                                                                               \
	"  lea -5(%rdx), %ecx\n"                                                                                                 \
	"1:\n"                                                                                                                   \
	"  mov 8(%rbp,%rcx,8), %rax\n"                                                                                           \
	"  mov %rax, 32(%rsp,%rcx,8)\n"                                                                                          \
	"  dec %ecx\n"                                                                                                           \
	"  jnz 1b\n"

/* (VALUE receiver, five arguments in registers, up to ten on the stack) */
#define ENTRY_STACK                                                                                                              \
	ASM_BEGIN(patch_entry_stack) ASM_FRAME(128) STORE_REGISTERS COPY_STACK CALL_WITH_FRAME ASM_END(patch_entry_stack)

#else

/* The slot's address goes into x16: like x17 it is free here, and a branch through either may enter a function (BTI). */
#define STUBS                                                                                                                    \
	".balign 64\n"                                                                                                           \
	".hidden patch_stubs\n"                                                                                                  \
	".globl patch_stubs\n"                                                                                                   \
	"patch_stubs:\n"                                                                                                         \
	".set patch_slot_index, 0\n"                                                                                             \
	".rept 16384\n" ASM_BRANCH_TARGET "  adrp x16, patch_slots + 64 * patch_slot_index\n"                                    \
	"  add x16, x16, :lo12:patch_slots + 64 * patch_slot_index\n"                                                            \
	"  b patch_stub_goes_on\n"                                                                                               \
	"  .set patch_slot_index, patch_slot_index + 1\n"                                                                        \
	".endr\n"                                                                                                                \
	"patch_stub_goes_on:\n"                                                                                                  \
	"  ldr x17, [x16]\n"                                                                                                     \
	"  br x17\n"

/* (int argc, const VALUE *argv, VALUE receiver) */
#define ENTRY_VECTOR                                                                                                             \
	ASM_BEGIN(patch_entry_vector)                                                                                            \
	"  mov x3, x1\n"                                                                                                         \
	"  mov x1, x2\n"                                                                                                         \
	"  mov w2, w0\n"                                                                                                         \
	"  mov x0, x16\n"                                                                                                        \
	"  b patch_enter\n" ASM_END(patch_entry_vector)

/* The arguments in registers go to the frame, after its record, argc and the receiver to where patch_enter() expects them. */
#define STORE_REGISTERS                                                                                                          \
	"  stp x1, x2, [sp, #16]\n"                                                                                              \
	"  stp x3, x4, [sp, #32]\n"                                                                                              \
	"  stp x5, x6, [sp, #48]\n"                                                                                              \
	"  str x7, [sp, #64]\n"                                                                                                  \
	"  mov x1, x0\n"                                                                                                         \
	"  ldr w2, [x16, #24]\n"

#define CALL_WITH_FRAME(size)                                                                                                    \
	"  add x3, sp, #16\n"                                                                                                    \
	"  mov x0, x16\n"                                                                                                        \
	"  bl patch_enter\n" ASM_RETURN(size)

/* (VALUE receiver, and up to seven arguments in registers) */
#define ENTRY_REGISTERS                                                                                                          \
	ASM_BEGIN(patch_entry_registers) ASM_FRAME(80) STORE_REGISTERS CALL_WITH_FRAME(80) ASM_END(patch_entry_registers)

/* w2: how many arguments there are. */
#define COPY_STACK                                                                                                               \
	"  subs w4, w2, #7\n"                                                                                                    \
	"  b.le 2f\n"                                                                                                            \
	"  add x5, sp, #160\n"                                                                                                   \
	"  add x6, sp, #72\n"                                                                                                    \
	"1:\n"                                                                                                                   \
	"  ldr x7, [x5], #8\n"                                                                                                   \
	"  str x7, [x6], #8\n"                                                                                                   \
	"  subs w4, w4, #1\n"                                                                                                    \
	"  b.ne 1b\n"                                                                                                            \
	"2:\n"

/* (VALUE receiver, seven arguments in registers, up to eight on the stack) */
#define ENTRY_STACK                                                                                                              \
	ASM_BEGIN(patch_entry_stack)                                                                                             \
	ASM_FRAME(160) STORE_REGISTERS COPY_STACK CALL_WITH_FRAME(160) ASM_END(patch_entry_stack)

#endif

__asm__(".pushsection .text\n" STUBS ENTRY_VECTOR ENTRY_REGISTERS ENTRY_STACK ".popsection\n");

bool patch_stubs_available(void)
{
	return true;
}

#else

static const char patch_stubs[1];
static void patch_entry_vector(void)
{
}
static void patch_entry_registers(void)
{
}
static void patch_entry_stack(void)
{
}

bool patch_stubs_available(void)
{
	return false;
}

#endif

/* Calling the original, by arity. */

#define V VALUE
#define CALLER(name, types, ...)                                                                                                 \
	static VALUE name(patch_function function, VALUE receiver, int argc, const VALUE *argv)                                  \
	{                                                                                                                        \
		(void)argc;                                                                                                      \
		(void)argv;                                                                                                      \
		return ((VALUE(*) types)function)(__VA_ARGS__);                                                                  \
	}

CALLER(call_vector, (int, const VALUE *, VALUE), argc, argv, receiver)
CALLER(call_0, (V), receiver)
CALLER(call_1, (V, V), receiver, argv[0])
CALLER(call_2, (V, V, V), receiver, argv[0], argv[1])
CALLER(call_3, (V, V, V, V), receiver, argv[0], argv[1], argv[2])
CALLER(call_4, (V, V, V, V, V), receiver, argv[0], argv[1], argv[2], argv[3])
CALLER(call_5, (V, V, V, V, V, V), receiver, argv[0], argv[1], argv[2], argv[3], argv[4])
#define FIVE argv[0], argv[1], argv[2], argv[3], argv[4]
CALLER(call_6, (V, V, V, V, V, V, V), receiver, FIVE, argv[5])
CALLER(call_7, (V, V, V, V, V, V, V, V), receiver, FIVE, argv[5], argv[6])
CALLER(call_8, (V, V, V, V, V, V, V, V, V), receiver, FIVE, argv[5], argv[6], argv[7])
CALLER(call_9, (V, V, V, V, V, V, V, V, V, V), receiver, FIVE, argv[5], argv[6], argv[7], argv[8])
#define TEN FIVE, argv[5], argv[6], argv[7], argv[8], argv[9]
CALLER(call_10, (V, V, V, V, V, V, V, V, V, V, V), receiver, TEN)
CALLER(call_11, (V, V, V, V, V, V, V, V, V, V, V, V), receiver, TEN, argv[10])
CALLER(call_12, (V, V, V, V, V, V, V, V, V, V, V, V, V), receiver, TEN, argv[10], argv[11])
CALLER(call_13, (V, V, V, V, V, V, V, V, V, V, V, V, V, V), receiver, TEN, argv[10], argv[11], argv[12])
CALLER(call_14, (V, V, V, V, V, V, V, V, V, V, V, V, V, V, V), receiver, TEN, argv[10], argv[11], argv[12], argv[13])
CALLER(call_15, (V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V), receiver, TEN, argv[10], argv[11], argv[12], argv[13], argv[14])

#define ARITY_MIN (-2)
#define ARITY_MAX 15

static const struct {
	void (*entry)(void);
	VALUE (*call)(patch_function function, VALUE receiver, int argc, const VALUE *argv);
	int argc;
} ways[ARITY_MAX - ARITY_MIN + 1] = {
	{patch_entry_registers, call_1, 1}, /* -2: the receiver and an Array */
	{patch_entry_vector, call_vector, 0}, {patch_entry_registers, call_0, 0}, {patch_entry_registers, call_1, 1},
	{patch_entry_registers, call_2, 2},   {patch_entry_registers, call_3, 3}, {patch_entry_registers, call_4, 4},
	{patch_entry_registers, call_5, 5},   {patch_entry_stack, call_6, 6},     {patch_entry_stack, call_7, 7},
	{patch_entry_stack, call_8, 8},       {patch_entry_stack, call_9, 9},     {patch_entry_stack, call_10, 10},
	{patch_entry_stack, call_11, 11},     {patch_entry_stack, call_12, 12},   {patch_entry_stack, call_13, 13},
	{patch_entry_stack, call_14, 14},     {patch_entry_stack, call_15, 15},
};

/* By function and arity; an index into patch_slots, counted from 1. Twice as many places as slots: never full. */
#define TABLE_SIZE (2u * PATCH_SLOTS_MAX)

static uint32_t table[TABLE_SIZE];
static uint32_t used;

static uint32_t place_of(uintptr_t function, int arity)
{
	uint64_t hash = ((uint64_t)function + (uint64_t)(arity - ARITY_MIN)) * UINT64_C(0x9e3779b97f4a7c15);
	uint32_t place = (uint32_t)(hash >> 40) % TABLE_SIZE;

	while (table[place]) {
		const struct patch_slot *slot = &patch_slots[table[place] - 1];

		if ((uintptr_t)slot->function == function && slot->arity == arity)
			break;
		place = (place + 1) % TABLE_SIZE;
	}
	return place;
}

struct patch_slot *patch_slot_of_stub(uintptr_t function)
{
	uintptr_t first = (uintptr_t)patch_stubs;

	if (function < first || function >= first + (uintptr_t)STUB_SIZE * PATCH_SLOTS_MAX)
		return NULL;
	return &patch_slots[(function - first) / STUB_SIZE];
}

uintptr_t patch_stub_of(const struct patch_slot *slot)
{
	return (uintptr_t)patch_stubs + (uintptr_t)(slot - patch_slots) * STUB_SIZE;
}

struct patch_slot *patch_slot_of(uintptr_t function, int arity)
{
	struct patch_slot *slot = patch_slot_of_stub(function);
	uint32_t place;

	if (slot)
		return slot->arity == arity ? slot : NULL;
	if (arity < ARITY_MIN || arity > ARITY_MAX)
		return NULL;
	place = place_of(function, arity);
	if (table[place])
		return &patch_slots[table[place] - 1];
	if (used == PATCH_SLOTS_MAX)
		return NULL;
	slot = &patch_slots[used++];
	slot->entry = ways[arity - ARITY_MIN].entry;
	slot->call = ways[arity - ARITY_MIN].call;
	slot->argc = ways[arity - ARITY_MIN].argc;
	slot->arity = arity;
	slot->function = (patch_function)function;
	table[place] = used;
	return slot;
}
