#ifndef RBPROBE_PATCH_ASSEMBLY_H
#define RBPROBE_PATCH_ASSEMBLY_H

/*
 * How a function of assembly begins and ends: seen by the linker alone, a target of indirect branches, with a frame pointer and
 * with what tells profilers and debuggers how to unwind it.
 */

#if defined(__x86_64__)
#define ASM_BRANCH_TARGET "  endbr64\n"
#elif defined(__aarch64__)
#define ASM_BRANCH_TARGET "  hint #34\n" /* bti c, which older assemblers do not know */
#endif

/* One that jumps on to another has no frame. */
#define ASM_BEGIN(name)                                                                                                          \
	".hidden " #name "\n"                                                                                                    \
	".globl " #name "\n"                                                                                                     \
	".type " #name ", %function\n" #name ":\n"                                                                               \
	"  .cfi_startproc\n" ASM_BRANCH_TARGET
#define ASM_END(name)                                                                                                            \
	"  .cfi_endproc\n"                                                                                                       \
	".size " #name ", . - " #name "\n"

#if defined(__x86_64__)

/* size: bytes, a multiple of 16. */
#define ASM_FRAME(size)                                                                                                          \
	"  push %rbp\n"                                                                                                          \
	"  .cfi_def_cfa_offset 16\n"                                                                                             \
	"  .cfi_offset %rbp, -16\n"                                                                                              \
	"  mov %rsp, %rbp\n"                                                                                                     \
	"  .cfi_def_cfa_register %rbp\n"                                                                                         \
	"  sub $" #size ", %rsp\n"
#define ASM_RETURN                                                                                                               \
	"  leave\n"                                                                                                              \
	"  .cfi_def_cfa %rsp, 8\n"                                                                                               \
	"  ret\n"

#elif defined(__aarch64__)

/* size: bytes, a multiple of 16; the first 16 are the frame's record. */
#define ASM_FRAME(size)                                                                                                          \
	"  stp x29, x30, [sp, #-" #size "]!\n"                                                                                   \
	"  .cfi_def_cfa_offset " #size "\n"                                                                                      \
	"  .cfi_offset 29, -" #size "\n"                                                                                         \
	"  .cfi_offset 30, -" #size " + 8\n"                                                                                     \
	"  mov x29, sp\n"
#define ASM_RETURN(size)                                                                                                         \
	"  ldp x29, x30, [sp], #" #size "\n"                                                                                     \
	"  .cfi_restore 29\n"                                                                                                    \
	"  .cfi_restore 30\n"                                                                                                    \
	"  .cfi_def_cfa_offset 0\n"                                                                                              \
	"  ret\n"

#endif

#endif
