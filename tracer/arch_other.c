/* Any other processor. See arch.h: it refuses, and the rest is there for the linker only. */

#if !defined(__x86_64__) && !defined(__aarch64__)

#include "arch.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

const char *const arch_refusal = "loading into a running process is not possible on this processor; start the program with the "
				 "extension: ruby -I \"$(rbprobe extension-dir)\" -rrbprobe ...";
const uint16_t arch_elf_machine = EM_NONE;

int arch_save(pid_t thread, struct arch_registers *registers)
{
	(void)thread;
	(void)registers;
	return -ENOSYS;
}

int arch_restore(pid_t thread, const struct arch_registers *registers)
{
	(void)thread;
	(void)registers;
	return -ENOSYS;
}

uint64_t arch_pc(const struct arch_registers *registers)
{
	(void)registers;
	return 0;
}

uint64_t arch_sp(const struct arch_registers *registers)
{
	(void)registers;
	return 0;
}

uint64_t arch_system_call_argument(const struct arch_registers *registers, unsigned number)
{
	(void)registers;
	(void)number;
	return 0;
}

int arch_call(pid_t thread, const struct arch_registers *from, uint64_t function, const uint64_t arguments[ARCH_ARGUMENTS_MAX],
              uint64_t stack, uint64_t trap, uint64_t *return_slot)
{
	(void)thread;
	(void)from;
	(void)function;
	(void)arguments;
	(void)stack;
	(void)trap;
	(void)return_slot;
	return -ENOSYS;
}

bool arch_has_returned(pid_t thread, uint64_t trap, uint64_t *result)
{
	(void)thread;
	(void)trap;
	(void)result;
	return false;
}

ssize_t arch_find_trap(const uint8_t *text, size_t size)
{
	(void)text;
	(void)size;
	return -1;
}

ssize_t arch_find_restorer(const uint8_t *text, size_t size)
{
	(void)text;
	(void)size;
	return -1;
}

void arch_signal_frame_decode(const uint8_t bytes[ARCH_SIGNAL_FRAME_SIZE], struct arch_signal_frame *frame)
{
	(void)bytes;
	memset(frame, 0, sizeof(*frame));
}

void arch_signal_frame_judge(struct arch_signal_frame *frame, const uint8_t code[4])
{
	(void)frame;
	(void)code;
}

#endif
