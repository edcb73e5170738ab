/*
 * Copying a thread's registers and stack. See thread_snapshot.h. One that does not stop stays seized until the calling
 * thread of ours ends.
 *
 * The thread is seized, which does not stop it and sends it no signal, interrupted, copied, and let go. Should rbprobe
 * be killed meanwhile, the kernel lets go of it, and it runs on. A signal that arrives just then is the stop that we
 * see; it is delivered when we let go.
 */

#define _GNU_SOURCE
#include "tracer/backtrace/thread_snapshot.h"

#include "proto/clock.h"
#include "tracer/inject/thread_wait.h"

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

#define PIECE_SIZE 4096u
#define PIECES (SNAPSHOT_STACK_MAX / PIECE_SIZE)
#define LOOK_INTERVAL_NS 10000
#define LOOK_INTERVAL_MAX_NS 200000
#define LOOKS_AT_AN_INTERVAL 50 /* then it is longer */
#define LOOKS_WITHOUT_PAUSE 200
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

/* Page by page: the stack's end is not known, and what is after it cannot be read. */
static void stack_get(struct snapshot *snapshot, pid_t pid, size_t size)
{
	struct iovec local, remote[PIECES];
	uint64_t at = snapshot->sp, end = snapshot->sp + size;
	unsigned count = 0;
	ssize_t got;

	snapshot->stack_cut = !snapshot->stack;
	if (!snapshot->stack)
		return;
	while (count < PIECES && at < end) {
		uint64_t next = (at / PIECE_SIZE + 1) * PIECE_SIZE;

		remote[count++] = (struct iovec){(void *)(uintptr_t)at, next - at}; // NOLINT(performance-no-int-to-ptr)
		at = next;
	}
	local = (struct iovec){snapshot->stack, at - snapshot->sp < size ? at - snapshot->sp : size};
	got = process_vm_readv(pid, &local, 1, remote, count, 0);
	snapshot->stack_size = got > 0 ? (size_t)got : 0;
	snapshot->stack_cut = size < SNAPSHOT_STACK_MAX && snapshot->stack_size == local.iov_len;
}

/* Gives back what the stack did not need; not while the thread is stopped. */
static void stack_fit(struct snapshot *snapshot)
{
	uint8_t *fitting = snapshot->stack_size ? realloc(snapshot->stack, snapshot->stack_size) : NULL;

	if (fitting)
		snapshot->stack = fitting;
	else if (!snapshot->stack_size)
		snapshot_free(snapshot);
}

/* Of the stack, up to what is needed; what is after that belongs to frames that do not change meanwhile. */
static size_t size_needed(const struct snapshot *snapshot, size_t size, const struct snapshot_beside *beside)
{
	uint64_t end = beside ? beside->stack_end : 0;

	return end > snapshot->sp && end - snapshot->sp < size ? end - snapshot->sp : size;
}

/*
 * Waits until the thread has stopped. 0 and *signal that has to be delivered to it; it has not stood still before *ran_ns. One
 * that runs stops within microseconds, and stands still until that is seen: so there are pauses only later. One that waits for a
 * processor must get it: the pauses become longer.
 */
static int stop_wait(pid_t tid, uint64_t deadline_ns, int *signal, uint64_t *ran_ns)
{
	struct timespec pause = {.tv_nsec = LOOK_INTERVAL_NS};
	int status;

	*signal = 0;
	for (unsigned looks = 0;; looks++) {
		uint64_t now_ns = clock_now_ns();
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
		*ran_ns = now_ns;
		if (now_ns > deadline_ns)
			return -ETIMEDOUT;
		if (looks <= LOOKS_WITHOUT_PAUSE)
			continue;
		nanosleep(&pause, NULL);
		if (looks % LOOKS_AT_AN_INTERVAL == 0 && pause.tv_nsec < LOOK_INTERVAL_MAX_NS)
			pause.tv_nsec += LOOK_INTERVAL_NS;
	}
}

static void copy(struct snapshot *snapshot, pid_t pid, size_t size, const struct snapshot_beside *beside)
{
	size_t needed = size_needed(snapshot, size, beside);

	if (beside)
		beside->copy(beside->argument);
	stack_get(snapshot, pid, needed);
	if (needed < size)
		snapshot->stack_cut = false;
}

/*
 * A thread that waits in a call which a stop would cut short is not stopped. The kernel shows the two registers by which
 * its libc's frames are found.
 */
static int copy_waiting(struct snapshot *snapshot, pid_t pid, const struct thread_wait *wait, size_t size,
                        const struct snapshot_beside *beside)
{
	snapshot->pc = wait->pc;
	snapshot->sp = wait->sp;
	snapshot->registers[SNAPSHOT_STACK_POINTER] = wait->sp;
	snapshot->register_count = SNAPSHOT_REGISTERS;
#if defined(__x86_64__)
	snapshot->registers[SNAPSHOT_REGISTERS - 1] = wait->pc;
#endif
	copy(snapshot, pid, size, beside);
	stack_fit(snapshot);
	return 0;
}

static int give_up(struct snapshot *snapshot, int status)
{
	snapshot_free(snapshot);
	return status;
}

int snapshot_take_beside(struct snapshot *snapshot, pid_t pid, pid_t tid, size_t stack_max, uint64_t deadline_ns,
                         const struct snapshot_beside *beside)
{
	size_t size = stack_max < SNAPSHOT_STACK_MAX ? stack_max : SNAPSHOT_STACK_MAX;
	struct thread_wait wait;
	uint64_t ran_ns;
	int status, signal;

	memset(snapshot, 0, sizeof(*snapshot));
	snapshot->tid = tid;
	snapshot->stack = size ? malloc(size) : NULL;
	if (thread_wait_read(&wait, pid, tid) == 1 && !thread_wait_is_lasting(&wait, pid))
		return copy_waiting(snapshot, pid, &wait, size, beside);
	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) != 0)
		return give_up(snapshot, -errno);
	ran_ns = clock_now_ns();
	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) != 0)
		return give_up(snapshot, -errno);
	status = stop_wait(tid, deadline_ns, &signal, &ran_ns);
	if (status < 0)
		return give_up(snapshot, status); /* still seized */
	status = registers_get(snapshot);
	if (status == 0)
		copy(snapshot, pid, size, beside);
	// NOLINTNEXTLINE(performance-no-int-to-ptr): how ptrace takes a number
	ptrace(PTRACE_DETACH, tid, NULL, (void *)(intptr_t)signal);
	snapshot->stopped_ns = clock_now_ns() - ran_ns;
	stack_fit(snapshot);
	return status;
}

int snapshot_take(struct snapshot *snapshot, pid_t pid, pid_t tid, size_t stack_max, uint64_t deadline_ns)
{
	return snapshot_take_beside(snapshot, pid, tid, stack_max, deadline_ns, NULL);
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
	if (snapshot->stack_cut && address + sizeof(*word) > snapshot->sp + snapshot->stack_size &&
	    address < snapshot->sp + SNAPSHOT_STACK_MAX)
		return false;
	return confined_read_memory(confined, address, word, sizeof(*word));
}
