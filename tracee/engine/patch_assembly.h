#ifndef RBPROBE_PATCH_ASSEMBLY_H
#define RBPROBE_PATCH_ASSEMBLY_H

/*
 * How a function of x86-64 assembly begins and ends: seen by the linker alone, a target of indirect branches, with a frame
 * pointer and with what tells profilers and debuggers how to unwind it.
 */

/* One that jumps on to another has no frame. */
#define ASM_BEGIN(name)                                                                                                          \
	".hidden " #name "\n"                                                                                                    \
	".globl " #name "\n"                                                                                                     \
	".type " #name ", @function\n" #name ":\n"                                                                               \
	"  .cfi_startproc\n"                                                                                                     \
	"  endbr64\n"
#define ASM_END(name)                                                                                                            \
	"  .cfi_endproc\n"                                                                                                       \
	".size " #name ", . - " #name "\n"

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

#endif
