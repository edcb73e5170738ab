/*
 * x86-64. See arch.h.
 *
 * The kernel recognises a thread in a system call by orig_rax >= 0, and when the thread goes on with one of its private
 * "restart" codes in rax it steps rip back on the syscall instruction. So a call is made with orig_rax = -1, lest our
 * rip be stepped back, and the original pair is put back at the end: then the kernel restarts the interrupted system
 * call by itself, with the time that is left.
 */

#ifdef __x86_64__

#define _GNU_SOURCE
#include "tracer/process/arch.h"

#include <elf.h>
#include <errno.h>
#include <linux/audit.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#define RAX_OF_NO_SYSTEM_CALL ((unsigned long long)-1)
#define PLAIN_FLAGS 0x202 /* interrupts on, direction up, no single step: as a function expects them */

static const struct user_regs_struct *general(const struct arch_registers *registers)
{
	return (const struct user_regs_struct *)registers->general;
}

_Static_assert(sizeof(struct user_regs_struct) <= ARCH_GENERAL_MAX * sizeof(uint64_t), "the general registers fit");

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

static int save(pid_t thread, struct arch_registers *registers)
{
	int status = regset_get(thread, NT_PRSTATUS, registers->general, sizeof(registers->general), &registers->general_size);

	if (status == 0)
		status = regset_get(thread, NT_X86_XSTATE, registers->extended, sizeof(registers->extended),
		                    &registers->extended_size);
	if (status < 0)
		return status;
	registers->system_call = (long)general(registers)->orig_rax;
	return 0;
}

static int restore(pid_t thread, const struct arch_registers *registers)
{
	int extended = regset_put(thread, NT_X86_XSTATE, registers->extended, registers->extended_size);
	int status = regset_put(thread, NT_PRSTATUS, registers->general, registers->general_size);

	return status < 0 ? status : extended;
}

#define SYSTEM_CALL_SIZE 2 /* bytes of the instruction */

static bool begin_again(struct arch_registers *registers)
{
	struct user_regs_struct *of = (struct user_regs_struct *)registers->general;

	if (registers->system_call < 0 || (long long)of->rax != -EINTR)
		return false;
	of->rip -= SYSTEM_CALL_SIZE;
	of->rax = of->orig_rax;
	of->orig_rax = RAX_OF_NO_SYSTEM_CALL;
	registers->system_call = -1;
	return true;
}

static uint64_t pc(const struct arch_registers *registers)
{
	return general(registers)->rip;
}

static uint64_t sp(const struct arch_registers *registers)
{
	return general(registers)->rsp;
}

static uint64_t thread_pointer(const struct arch_registers *registers)
{
	return general(registers)->fs_base;
}

static uint64_t system_call_argument(const struct arch_registers *registers, unsigned number)
{
	const struct user_regs_struct *of = general(registers);
	const uint64_t arguments[] = {of->rdi, of->rsi, of->rdx, of->r10, of->r8, of->r9};

	return arguments[number];
}

static int call_set_up(pid_t thread, const struct arch_registers *from, uint64_t function,
                       const uint64_t arguments[ARCH_ARGUMENTS_MAX], uint64_t stack, uint64_t trap, uint64_t *return_slot)
{
	struct user_regs_struct to = *general(from);

	(void)trap; /* stands in the return slot */
	to.rdi = arguments[0];
	to.rsi = arguments[1];
	to.rdx = arguments[2];
	to.rcx = arguments[3];
	to.r8 = arguments[4];
	to.r9 = arguments[5];
	to.rax = 0; /* no vector arguments, for functions with `...` */
	to.orig_rax = RAX_OF_NO_SYSTEM_CALL;
	to.rip = function;
	to.rsp = stack - sizeof(uint64_t);
	to.eflags = PLAIN_FLAGS;
	*return_slot = to.rsp;
	return regset_put(thread, NT_PRSTATUS, &to, sizeof(to));
}

static bool has_returned(pid_t thread, uint64_t trap, uint64_t *result)
{
	struct user_regs_struct now;
	struct iovec part = {.iov_base = &now, .iov_len = sizeof(now)};

	if (ptrace(PTRACE_GETREGSET, thread, (unsigned long)NT_PRSTATUS, &part) != 0 || now.rip != trap + 1)
		return false;
	*result = now.rax;
	return true;
}

/* Any byte 0xcc will do: the processor begins to decode there. Most are the middle of some other instruction. */
static ssize_t find_trap(const uint8_t *text, size_t size)
{
	const uint8_t *trap = memchr(text, 0xcc, size);

	return trap ? trap - text : -1;
}

/* Perhaps endbr64; then mov OFFSET(%rip), %rax; add %fs:0, %rax; ret. */
static uint64_t errno_word(const uint8_t code[ARCH_ERRNO_CODE_SIZE], uint64_t at)
{
	static const uint8_t branch_target[] = {0xf3, 0x0f, 0x1e, 0xfa}, load[] = {0x48, 0x8b, 0x05},
			     rest[] = {0x64, 0x48, 0x03, 0x04, 0x25, 0x00, 0x00, 0x00, 0x00, 0xc3};
	size_t next = memcmp(code, branch_target, sizeof(branch_target)) == 0 ? sizeof(branch_target) : 0;
	int32_t offset;

	_Static_assert(sizeof(branch_target) + sizeof(load) + sizeof(offset) + sizeof(rest) <= ARCH_ERRNO_CODE_SIZE,
	               "it is looked at");
	if (memcmp(code + next, load, sizeof(load)) != 0)
		return 0;
	next += sizeof(load);
	memcpy(&offset, code + next, sizeof(offset));
	next += sizeof(offset);
	return memcmp(code + next, rest, sizeof(rest)) == 0 ? at + next + (uint64_t)(int64_t)offset : 0;
}

/* mov $15 (rt_sigreturn), %rax; syscall: debuggers know these bytes, so no libc may change them. */
static ssize_t find_restorer(const uint8_t *text, size_t size)
{
	static const uint8_t code[] = {0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05};
	const uint8_t *restorer = memmem(text, size, code, sizeof(code));

	return restorer ? restorer - text : -1;
}

/* struct rt_sigframe: the restorer's address, a ucontext (the registers from byte 48 on), a siginfo. */
#define FRAME_RAX 152
#define FRAME_RIP 176
#define FRAME_MASK 304
#define FRAME_SIGNAL 312

static void signal_frame_decode(const uint8_t bytes[ARCH_SIGNAL_FRAME_SIZE], struct arch_signal_frame *frame)
{
	memset(frame, 0, sizeof(*frame));
	memcpy(&frame->pc, bytes + FRAME_RIP, sizeof(frame->pc));
	memcpy(&frame->result, bytes + FRAME_RAX, sizeof(frame->result));
	frame->number = frame->result;
	memcpy(&frame->mask, bytes + FRAME_MASK, sizeof(frame->mask));
	memcpy(&frame->signal, bytes + FRAME_SIGNAL, sizeof(frame->signal));
}

static void signal_frame_judge(struct arch_signal_frame *frame, const uint8_t code[2 * ARCH_CODE_AROUND])
{
	static const uint8_t system_call[SYSTEM_CALL_SIZE] = {0x0f, 0x05};
	const uint8_t *at = code + ARCH_CODE_AROUND;

	frame->restarts = memcmp(at, system_call, SYSTEM_CALL_SIZE) == 0;
	frame->at_system_call = frame->restarts || memcmp(at - SYSTEM_CALL_SIZE, system_call, SYSTEM_CALL_SIZE) == 0;
}

const struct arch arch = {
	.audit_machine = AUDIT_ARCH_X86_64,
	.save = save,
	.restore = restore,
	.begin_again = begin_again,
	.pc = pc,
	.sp = sp,
	.thread_pointer = thread_pointer,
	.system_call_argument = system_call_argument,
	.call = call_set_up,
	.has_returned = has_returned,
	.find_trap = find_trap,
	.errno_word = errno_word,
	.find_restorer = find_restorer,
	.signal_frame_decode = signal_frame_decode,
	.signal_frame_judge = signal_frame_judge,
};

#endif
