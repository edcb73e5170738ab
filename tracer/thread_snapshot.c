/*
 * Copying a thread's registers and stack. See thread_snapshot.h. One that does not stop stays seized until the calling thread of ours ends.
 *
 * The thread is seized, which does not stop it and sends it no signal, interrupted, copied, and let go. Should rbprobe be killed meanwhile, the kernel lets go
 * of it, and it runs on. A signal that arrives just then is the stop that we see; it is delivered when we let go.
 */

#define _GNU_SOURCE
#include "thread_snapshot.h"

#include "proto/clock.h"
#include "thread_wait.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STACK_SIZE_MAX (512u << 10)
#define PIECE_SIZE 4096u
#define PIECES (STACK_SIZE_MAX / PIECE_SIZE)
#define LOOK_INTERVAL_NS 10000
#if defined(__x86_64__)
#define SNAPSHOT_REGISTERS 17
#else
#define SNAPSHOT_REGISTERS 32
#endif

#if defined(__x86_64__)

static int registers_get(struct snapshot *snapshot)
{
	struct user_regs_struct user;
	struct iovec io = {&user, sizeof(user)};

	if (ptrace(PTRACE_GETREGSET, snapshot->tid, (void *)NT_PRSTATUS, &io) != 0)
		return -errno;
	/* 32-bit programs have fewer. */
	if (io.iov_len != sizeof(user))
		return -ENOSYS;
	const uint64_t order[] = {user.rax, user.rdx, user.rcx, user.rbx, user.rsi, user.rdi, user.rbp, user.rsp, user.r8,
	                          user.r9,  user.r10, user.r11, user.r12, user.r13, user.r14, user.r15, user.rip};
	memcpy(snapshot->registers, order, sizeof(order));
	snapshot->register_count = sizeof(order) / sizeof(*order);
	snapshot->pc = user.rip;
	snapshot->sp = user.rsp;
	return 0;
}

#elif defined(__aarch64__)

static int registers_get(struct snapshot *snapshot)
{
	struct user_regs_struct user;
	struct iovec io = {&user, sizeof(user)};

	if (ptrace(PTRACE_GETREGSET, snapshot->tid, (void *)NT_PRSTATUS, &io) != 0)
		return -errno;
	if (io.iov_len != sizeof(user))
		return -ENOSYS;
	for (unsigned i = 0; i < 31; i++)
		snapshot->registers[i] = user.regs[i];
	snapshot->registers[31] = user.sp;
	snapshot->register_count = 32;
	snapshot->pc = user.pc;
	snapshot->sp = user.sp;
	return 0;
}

#else

static int registers_get(struct snapshot *snapshot)
{
	(void)snapshot;
	return -ENOSYS;
}

#endif

/* Page by page: the stack's end is not known, and what is behind it cannot be read. */
static void stack_get(struct snapshot *snapshot, pid_t pid)
{
	struct iovec local, remote[PIECES];
	uint64_t at = snapshot->sp, end = snapshot->sp + STACK_SIZE_MAX;
	unsigned count = 0;
	ssize_t got;

	snapshot->stack = malloc(STACK_SIZE_MAX);
	if (!snapshot->stack)
		return;
	while (count < PIECES && at < end) {
		uint64_t next = (at / PIECE_SIZE + 1) * PIECE_SIZE;

		remote[count++] = (struct iovec){(void *)(uintptr_t)at, next - at}; // NOLINT(performance-no-int-to-ptr)
		at = next;
	}
	local = (struct iovec){snapshot->stack, at - snapshot->sp < STACK_SIZE_MAX ? at - snapshot->sp : STACK_SIZE_MAX};
	got = process_vm_readv(pid, &local, 1, remote, count, 0);
	snapshot->stack_size = got > 0 ? (size_t)got : 0;
}

/* Waits until the thread has stopped. 0 and *signal that has to be delivered to it. */
static int stop_wait(pid_t tid, uint64_t deadline_ns, int *signal)
{
	struct timespec pause = {.tv_nsec = LOOK_INTERVAL_NS};
	int status;

	*signal = 0;
	for (;;) {
		pid_t got = waitpid(tid, &status, __WALL | WNOHANG);

		if (got < 0 && errno != EINTR)
			return -errno;
		if (got == tid) {
			if (!WIFSTOPPED(status))
				return -ESRCH;
			/* A stop of ours or of job control has an event; any other is a signal on its way. */
			if (status >> 16 == 0)
				*signal = WSTOPSIG(status);
			return 0;
		}
		if (clock_now_ns() > deadline_ns)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
}

/* Of a thread that waits where a stop would cut that short, the kernel tells the two registers that its libc's frames are found by. */
static int copy_waiting(struct snapshot *snapshot, pid_t pid, const struct thread_wait *wait)
{
	snapshot->pc = wait->pc;
	snapshot->sp = wait->sp;
	snapshot->registers[SNAPSHOT_STACK_POINTER] = wait->sp;
	snapshot->register_count = SNAPSHOT_REGISTERS;
#if defined(__x86_64__)
	snapshot->registers[SNAPSHOT_REGISTERS - 1] = wait->pc;
#endif
	stack_get(snapshot, pid);
	return 0;
}

int snapshot_take(struct snapshot *snapshot, pid_t pid, pid_t tid, uint64_t deadline_ns)
{
	struct thread_wait wait;
	uint64_t began_ns;
	int status, signal;

	memset(snapshot, 0, sizeof(*snapshot));
	snapshot->tid = tid;
	if (thread_wait_read(&wait, pid, tid) == 1 && !thread_wait_is_lasting(&wait, pid))
		return copy_waiting(snapshot, pid, &wait);
	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) != 0)
		return -errno;
	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) != 0)
		return -errno;
	status = stop_wait(tid, deadline_ns, &signal);
	if (status < 0)
		return status; /* still seized */
	began_ns = clock_now_ns();
	status = registers_get(snapshot);
	if (status == 0)
		stack_get(snapshot, pid);
	// NOLINTNEXTLINE(performance-no-int-to-ptr): how ptrace takes a number
	ptrace(PTRACE_DETACH, tid, NULL, (void *)(intptr_t)signal);
	snapshot->stopped_ns = clock_now_ns() - began_ns;
	return status;
}

void snapshot_free(struct snapshot *snapshot)
{
	free(snapshot->stack);
	snapshot->stack = NULL;
	snapshot->stack_size = 0;
}

bool snapshot_read(const struct snapshot *snapshot, const struct confined *confined, uint64_t address, uint64_t *word)
{
	if (address >= snapshot->sp && address - snapshot->sp + sizeof(*word) <= snapshot->stack_size) {
		memcpy(word, snapshot->stack + (address - snapshot->sp), sizeof(*word));
		return true;
	}
	return confined_read_memory(confined, address, word, sizeof(*word));
}

#if defined(__x86_64__)

bool snapshot_is_return_address(const struct snapshot *snapshot, const struct confined *confined, uint64_t address)
{
	uint8_t code[8];
	uint64_t word;

	if (address < 4096 || !snapshot_read(snapshot, confined, address - sizeof(code), &word))
		return false;
	memcpy(code, &word, sizeof(code));
	if (code[3] == 0xe8) /* call rel32 */
		return true;
	/* call *register or *memory: ff /2, of two to seven bytes */
	for (int size = 2; size <= 7; size++)
		if (code[8 - size] == 0xff && (code[9 - size] & 0x38) == 0x10)
			return true;
	return false;
}

#else

bool snapshot_is_return_address(const struct snapshot *snapshot, const struct confined *confined, uint64_t address)
{
	(void)snapshot;
	(void)confined;
	(void)address;
	return false;
}

#endif
