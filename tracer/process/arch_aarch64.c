/*
 * aarch64. See arch.h.
 *
 * Before a stop is reported the kernel has stepped pc back on the system call instruction, if the call is to begin again,
 * has put its first argument back into x0, and has forgotten that there was a call (NT_ARM_SYSTEM_CALL is -1). So a
 * thread in a call looks like one that is about to make it, and is put back as that: which is the same, but for two
 * things that the kernel would have done later, had the registers stayed as they were. Calls that wait for a time from
 * their beginning go on as restart_syscall; /proc shows beforehand which call it is (was_waiting()). Some end with EINTR
 * where a signal's handler is called (end_for_signal()).
 *
 * A call that the stop has ended with EINTR cannot begin again: its first argument is lost.
 */

#ifdef __aarch64__

#define _GNU_SOURCE
#include "tracer/process/arch.h"

#include <asm/ptrace.h>
#include <elf.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#ifndef NT_ARM_TLS
#define NT_ARM_TLS 0x401
#endif
#ifndef NT_ARM_SVE
#define NT_ARM_SVE 0x405
#endif
#ifndef NT_ARM_SSVE
#define NT_ARM_SSVE 0x40b /* of streaming mode */
#endif

#define SYSTEM_CALL 0xd4000001u /* svc #0 */
#define BREAKPOINT 0xd4200000u  /* brk #0; the immediate is in bits 5 to 20 */
#define BREAKPOINT_MASK 0xffe0001fu
#define INSTRUCTION_SIZE 4

#define NUMBER_REGISTER 8 /* of a system call */
#define FRAME_REGISTER 29
#define RETURN_REGISTER 30
#define PSTATE_BRANCH_TYPE 0xc00u /* how this instruction was reached: a function may refuse some ways (BTI) */
#define PSTATE_SINGLE_STEP 0x200000u

static const struct user_pt_regs *general(const struct arch_registers *registers)
{
	return (const struct user_pt_regs *)registers->general;
}

static struct user_pt_regs *to_change(struct arch_registers *registers)
{
	return (struct user_pt_regs *)registers->general;
}

_Static_assert(sizeof(struct user_pt_regs) <= ARCH_GENERAL_MAX * sizeof(uint64_t), "the general registers fit");

static int regset_get(pid_t thread, unsigned long set, void *bytes, size_t room, size_t *size)
{
	struct iovec part = {.iov_base = bytes, .iov_len = room};

	if (ptrace(PTRACE_GETREGSET, thread, set, &part) != 0)
		return -errno;
	*size = part.iov_len;
	/* Filled to the brim, something may be missing. */
	return part.iov_len < room ? 0 : -E2BIG;
}

static int regset_put(pid_t thread, unsigned long set, const void *bytes, size_t size)
{
	struct iovec part = {.iov_base = (void *)bytes, .iov_len = size};

	return ptrace(PTRACE_SETREGSET, thread, set, &part) == 0 ? 0 : -errno;
}

/* No function may be called in streaming mode (SME), of which the thread's code alone knows how to leave it. */
static bool is_streaming(pid_t thread, struct arch_registers *scratch)
{
	struct user_sve_header header;
	size_t size = 0;

	if (regset_get(thread, NT_ARM_SSVE, scratch->extended, sizeof(scratch->extended), &size) != 0 || size < sizeof(header))
		return false;
	memcpy(&header, scratch->extended, sizeof(header));
	return (header.flags & SVE_PT_REGS_MASK) == SVE_PT_REGS_SVE;
}

/* Floating point and vectors: with SVE the longer ones of that, of which the others are parts. */
static int extended_save(pid_t thread, struct arch_registers *registers)
{
	if (is_streaming(thread, registers))
		return -EOPNOTSUPP;
	registers->extended_set = NT_ARM_SVE;
	if (regset_get(thread, NT_ARM_SVE, registers->extended, sizeof(registers->extended), &registers->extended_size) == 0)
		return 0;
	registers->extended_set = NT_PRFPREG;
	return regset_get(thread, NT_PRFPREG, registers->extended, sizeof(registers->extended), &registers->extended_size);
}

static int thread_pointer_save(pid_t thread, struct arch_registers *registers)
{
	uint64_t pointers[4] = {0}; /* newer kernels have a second one */
	size_t size;
	int status = regset_get(thread, NT_ARM_TLS, pointers, sizeof(pointers), &size);

	registers->thread_pointer = pointers[0];
	return status;
}

static int save(pid_t thread, struct arch_registers *registers)
{
	int status = regset_get(thread, NT_PRSTATUS, registers->general, sizeof(registers->general), &registers->general_size);
	long code;

	/* 32-bit programs have fewer. */
	if (status == 0 && registers->general_size != sizeof(struct user_pt_regs))
		status = -ENOEXEC;
	if (status == 0)
		status = extended_save(thread, registers);
	if (status == 0)
		status = thread_pointer_save(thread, registers);
	if (status < 0)
		return status;
	errno = 0;
	// NOLINTNEXTLINE(performance-no-int-to-ptr): how ptrace takes an address
	code = ptrace(PTRACE_PEEKTEXT, thread, (void *)(uintptr_t)general(registers)->pc, NULL);
	registers->system_call =
		errno == 0 && (uint32_t)code == SYSTEM_CALL ? (long)general(registers)->regs[NUMBER_REGISTER] : -1;
	return 0;
}

/* The time is left that the kernel has noted, and not the one in the call's arguments. */
static bool goes_on_by_block(long number, const uint64_t arguments[ARCH_ARGUMENTS_MAX])
{
	return number == SYS_nanosleep || (number == SYS_clock_nanosleep && !(arguments[1] & TIMER_ABSTIME)) ||
	       (number == SYS_futex && ((int)arguments[1] & FUTEX_CMD_MASK) == FUTEX_WAIT && arguments[3]);
}

static void was_waiting(struct arch_registers *registers, long number, const uint64_t arguments[ARCH_ARGUMENTS_MAX], uint64_t sp,
                        uint64_t pc)
{
	struct user_pt_regs *now = to_change(registers);

	if (registers->system_call == number && now->sp == sp && now->pc + INSTRUCTION_SIZE == pc &&
	    memcmp(now->regs, arguments, ARCH_ARGUMENTS_MAX * sizeof(*arguments)) == 0 && goes_on_by_block(number, arguments))
		now->regs[NUMBER_REGISTER] = SYS_restart_syscall;
}

/* Those that a handler ends although it says SA_RESTART. */
static bool ends_for_handlers(long number)
{
	switch (number) {
	case SYS_ppoll:
	case SYS_pselect6:
	case SYS_rt_sigsuspend:
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
	case SYS_restart_syscall:
	case SYS_msgrcv:
	case SYS_msgsnd:
		return true;
	default:
		return false;
	}
}

static void end_for_signal(struct arch_registers *registers)
{
	struct user_pt_regs *now = to_change(registers);

	if (!ends_for_handlers((long)now->regs[NUMBER_REGISTER]) || registers->system_call < 0)
		return;
	now->regs[0] = (uint64_t)-EINTR;
	now->pc += INSTRUCTION_SIZE;
	registers->system_call = -1;
}

static int restore(pid_t thread, const struct arch_registers *registers)
{
	int extended = regset_put(thread, registers->extended_set, registers->extended, registers->extended_size);
	int status = regset_put(thread, NT_PRSTATUS, registers->general, registers->general_size);

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

static uint64_t thread_pointer(const struct arch_registers *registers)
{
	return registers->thread_pointer;
}

static uint64_t system_call_argument(const struct arch_registers *registers, unsigned number)
{
	return general(registers)->regs[number];
}

static int call_set_up(pid_t thread, const struct arch_registers *from, uint64_t function,
                       const uint64_t arguments[ARCH_ARGUMENTS_MAX], uint64_t stack, uint64_t trap, uint64_t *return_slot)
{
	struct user_pt_regs to = *general(from);

	for (unsigned i = 0; i < ARCH_ARGUMENTS_MAX; i++)
		to.regs[i] = arguments[i];
	to.regs[FRAME_REGISTER] = 0;
	to.regs[RETURN_REGISTER] = trap;
	to.pc = function;
	to.sp = stack;
	to.pstate &= ~(uint64_t)(PSTATE_BRANCH_TYPE | PSTATE_SINGLE_STEP);
	*return_slot = 0;
	return regset_put(thread, NT_PRSTATUS, &to, sizeof(to));
}

static bool has_returned(pid_t thread, uint64_t trap, uint64_t *result)
{
	struct user_pt_regs now;
	struct iovec part = {.iov_base = &now, .iov_len = sizeof(now)};

	if (ptrace(PTRACE_GETREGSET, thread, (unsigned long)NT_PRSTATUS, &part) != 0 || now.pc != trap)
		return false;
	*result = now.regs[0];
	return true;
}

static uint32_t instruction_at(const uint8_t *code)
{
	uint32_t instruction;

	memcpy(&instruction, code, sizeof(instruction));
	return instruction;
}

static ssize_t find_trap(const uint8_t *text, size_t size)
{
	for (size_t at = 0; at + INSTRUCTION_SIZE <= size; at += INSTRUCTION_SIZE)
		if ((instruction_at(text + at) & BREAKPOINT_MASK) == BREAKPOINT)
			return (ssize_t)at;
	return -1;
}

/*
 * struct rt_sigframe: a siginfo; a ucontext, with the mask at 168 and the registers from 312 on; and, always at that place,
 * the head of the vector registers' part, FPSIMD_MAGIC and a size, by which such frames are known. The address that
 * handlers return to is elsewhere, and need not lie on the stack as it is.
 */
#define FRAME_SIGNAL 0
#define FRAME_MASK 168
#define FRAME_X0 312
#define FRAME_NUMBER (FRAME_X0 + NUMBER_REGISTER * 8)
#define FRAME_PC 568
#define FRAME_VECTORS 592
#define VECTORS_HEAD UINT64_C(0x0000021046508001)

_Static_assert(FRAME_PC + 8 <= ARCH_SIGNAL_FRAME_SIZE, "it is read");

static void signal_frame_decode(const uint8_t bytes[ARCH_SIGNAL_FRAME_SIZE], struct arch_signal_frame *frame)
{
	memset(frame, 0, sizeof(*frame));
	memcpy(&frame->pc, bytes + FRAME_PC, sizeof(frame->pc));
	memcpy(&frame->number, bytes + FRAME_NUMBER, sizeof(frame->number));
	memcpy(&frame->result, bytes + FRAME_X0, sizeof(frame->result));
	memcpy(&frame->mask, bytes + FRAME_MASK, sizeof(frame->mask));
	memcpy(&frame->signal, bytes + FRAME_SIGNAL, sizeof(frame->signal));
}

static void signal_frame_judge(struct arch_signal_frame *frame, const uint8_t code[2 * ARCH_CODE_AROUND])
{
	frame->restarts = instruction_at(code + ARCH_CODE_AROUND) == SYSTEM_CALL;
	frame->at_system_call = frame->restarts || instruction_at(code) == SYSTEM_CALL;
}

const struct arch arch = {
	.audit_machine = AUDIT_ARCH_AARCH64,
	.save = save,
	.restore = restore,
	.was_waiting = was_waiting,
	.end_for_signal = end_for_signal,
	.pc = pc,
	.sp = sp,
	.thread_pointer = thread_pointer,
	.system_call_argument = system_call_argument,
	.call = call_set_up,
	.has_returned = has_returned,
	.find_trap = find_trap,
	.signal_frame_word = VECTORS_HEAD,
	.signal_frame_word_at = FRAME_VECTORS,
	.signal_frame_decode = signal_frame_decode,
	.signal_frame_judge = signal_frame_judge,
};

#endif
