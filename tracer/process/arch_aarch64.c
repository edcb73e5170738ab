/*
 * aarch64. See arch.h.
 *
 * Written from the kernel's interface and not measured on a machine, and so refused at run time. What is missing is the
 * look for signal frames (stop_check.c): handlers return to the vDSO here, and the return address is not a part of the
 * frame. A call needs NT_ARM_SYSTEM_CALL = -1, as the kernel would otherwise take it for a system call to restart; and,
 * as the kernel steps pc back before the stop, system calls that go on by a restart block (nanosleep) need x8 = 128
 * (restart_syscall) when the registers are put back.
 */

#ifdef __aarch64__

#define _GNU_SOURCE
#include "tracer/process/arch.h"

#include <asm/ptrace.h>
#include <elf.h>
#include <errno.h>
#include <linux/audit.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#define RESTART_SYSCALL_NUMBER 128
#define KERNEL_ERESTART_RESTARTBLOCK 516
#define BREAKPOINT 0xd4200000u /* brk #0; the immediate is in bits 5 to 20 */
#define BREAKPOINT_MASK 0xffe0001fu

static const struct user_pt_regs *general(const struct arch_registers *registers)
{
	return (const struct user_pt_regs *)registers->general;
}

static int regset(enum __ptrace_request request, pid_t thread, unsigned long set, void *bytes, size_t *size)
{
	struct iovec part = {.iov_base = bytes, .iov_len = *size};

	if (ptrace(request, thread, set, &part) != 0)
		return -errno;
	*size = part.iov_len;
	return 0;
}

static int save(pid_t thread, struct arch_registers *registers)
{
	size_t size = sizeof(int);
	int number = -1, status;

	registers->general_size = sizeof(registers->general);
	registers->extended_size = sizeof(registers->extended);
	status = regset(PTRACE_GETREGSET, thread, NT_PRSTATUS, registers->general, &registers->general_size);
	if (status == 0)
		status = regset(PTRACE_GETREGSET, thread, NT_PRFPREG, registers->extended, &registers->extended_size);
	if (status == 0)
		status = regset(PTRACE_GETREGSET, thread, NT_ARM_SYSTEM_CALL, &number, &size);
	registers->system_call = number;
	return status;
}

static int restore(pid_t thread, const struct arch_registers *registers)
{
	struct user_pt_regs to = *general(registers);
	size_t size = registers->extended_size;
	int number = (int)registers->system_call, status, extended;

	extended = regset(PTRACE_SETREGSET, thread, NT_PRFPREG, (void *)registers->extended, &size);
	if (number >= 0 && (int64_t)to.regs[0] == -KERNEL_ERESTART_RESTARTBLOCK)
		to.regs[8] = RESTART_SYSCALL_NUMBER;
	size = sizeof(to);
	status = regset(PTRACE_SETREGSET, thread, NT_PRSTATUS, &to, &size);
	size = sizeof(number);
	if (status == 0)
		status = regset(PTRACE_SETREGSET, thread, NT_ARM_SYSTEM_CALL, &number, &size);
	return status < 0 ? status : extended;
}

static uint64_t pc(const struct arch_registers *registers)
{
	return general(registers)->pc;
}

static uint64_t sp(const struct arch_registers *registers)
{
	return general(registers)->sp;
}

static uint64_t system_call_argument(const struct arch_registers *registers, unsigned number)
{
	return general(registers)->regs[number];
}

static int call_set_up(pid_t thread, const struct arch_registers *from, uint64_t function,
                       const uint64_t arguments[ARCH_ARGUMENTS_MAX], uint64_t stack, uint64_t trap, uint64_t *return_slot)
{
	struct user_pt_regs to = *general(from);
	size_t size = sizeof(int);
	int none = -1, status;

	for (unsigned i = 0; i < ARCH_ARGUMENTS_MAX; i++)
		to.regs[i] = arguments[i];
	to.regs[29] = 0;
	to.regs[30] = trap;
	to.pc = function;
	to.sp = stack;
	*return_slot = 0;
	status = regset(PTRACE_SETREGSET, thread, NT_ARM_SYSTEM_CALL, &none, &size);
	size = sizeof(to);
	return status < 0 ? status : regset(PTRACE_SETREGSET, thread, NT_PRSTATUS, &to, &size);
}

static bool has_returned(pid_t thread, uint64_t trap, uint64_t *result)
{
	struct user_pt_regs now;
	size_t size = sizeof(now);

	if (regset(PTRACE_GETREGSET, thread, NT_PRSTATUS, &now, &size) < 0 || now.pc != trap)
		return false;
	*result = now.regs[0];
	return true;
}

static ssize_t find_trap(const uint8_t *text, size_t size)
{
	for (size_t at = 0; at + 4 <= size; at += 4) {
		uint32_t instruction;

		memcpy(&instruction, text + at, sizeof(instruction));
		if ((instruction & BREAKPOINT_MASK) == BREAKPOINT)
			return (ssize_t)at;
	}
	return -1;
}

const struct arch arch = {
	.refusal = "loading into a running process has not been tried on this processor (aarch64); start the program with the "
		   "extension: ruby -I \"$(rbprobe extension-dir)\" -rrbprobe ...",
	.audit_machine = AUDIT_ARCH_AARCH64,
	.save = save,
	.restore = restore,
	.pc = pc,
	.sp = sp,
	.system_call_argument = system_call_argument,
	.call = call_set_up,
	.has_returned = has_returned,
	.find_trap = find_trap,
};

#endif
