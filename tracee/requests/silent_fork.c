/*
 * Forked copies. See silent_fork.h.
 *
 * A copy must come about by libc's fork(), whose handlers leave malloc and others in a usable state, also where other threads
 * hold their locks. But fork()'s child is one that the application sees: SIGCHLD, Process.wait(-1), a zombie until somebody
 * waits; and a master process that counts its workers acts on it. So it is not we who fork but a *keeper*: a task made by clone()
 * with our memory and without an exit signal. The kernel shows such a child only to who waits with __WCLONE, which nobody does.
 * The keeper forks, and stays the copy's parent until the copy ends: if it left, the copy would be given to init or a subreaper,
 * which in a container is often the application itself.
 *
 *     this process ── keeper (our memory, no exit signal) ── copy
 *          └─ collector: a thread that waits for the keeper, __WCLONE
 *
 * The keeper runs on a stack of its own, but with the thread-local memory of the thread that made it. That one waits until the
 * fork is done; from then on the keeper makes raw system calls only, and touches nothing but its struct silent_fork. The copy
 * returns to the frame of that thread, on its stack, where Ruby finds it (its GC looks at the stack between where it began and
 * where it is now).
 */

#define _GNU_SOURCE
#include "tracee/requests/silent_fork.h"

#include "tracee/base/fork_gate.h"
#include "tracee/base/raw_syscall.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEEPER_STACK (128u << 10) /* fork() and what libraries do in their handlers */
#define COLLECTOR_STACK (64u << 10)
#define LOOK_MS 20 /* where the kernel has no pidfds (before 5.3) */
#define DESCRIPTORS_MAX 65536

enum stage {
	STAGE_NEW,
	STAGE_NO_KEEPER, /* the collector may go */
	STAGE_KEEPER,    /* it is there: the collector waits for it */
};

struct silent_fork {
	/* Set by who makes it, before there is another task. */
	enum silent_fork_kind kind;
	void (*ended)(void *made_by, int status);
	void *made_by;
	pid_t owner;
	void *stack;
	void *frame[5]; /* of __builtin_setjmp(): where the copy goes on */

	/* Set by the keeper before it says so in `forked`. */
	pid_t pid; /* of the copy, or -errno */
	_Atomic uint32_t forked;
	/* Set by the keeper before it ends. */
	_Atomic bool dead; /* the copy: its PID means nothing any more */
	int status;

	bool here; /* this is the copy */

	/* Between the job and the collector. */
	_Atomic uint32_t stage;
	pid_t keeper;
	_Atomic bool collected; /* by the collector: the last thing it does, unless `forgotten` came first */
	_Atomic int owners;     /* job and collector: the last one frees */

	struct silent_fork *next; /* GVL */
};

static struct {
	struct silent_fork *first;
	_Atomic bool any_ended;
} copies;

bool silent_forks_ended(void)
{
	return atomic_load_explicit(&copies.any_ended, memory_order_relaxed);
}

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
	while (atomic_load(word) == value)
		raw_syscall(SYS_futex, (long)word, FUTEX_WAIT, (long)value, 0, 0);
}

static void futex_set(_Atomic uint32_t *word, uint32_t value)
{
	atomic_store(word, value);
	raw_syscall(SYS_futex, (long)word, FUTEX_WAKE, 1, 0, 0);
}

/* --- The keeper. Raw system calls only, behind the fork. */

static void keeper_close_descriptors(void)
{
#ifdef SYS_close_range
	if (raw_syscall(SYS_close_range, 0, UINT32_MAX, 0, 0, 0) == 0)
		return;
#endif
	for (long fd = 0; fd < DESCRIPTORS_MAX; fd++)
		raw_syscall(SYS_close, fd, 0, 0, 0, 0);
}

/* Waits until the copy or this process is gone. True: the copy is, and its status is known. */
static bool keeper_wait(struct silent_fork *copy)
{
	struct pollfd gone[2] = {{.events = POLLIN, .fd = -1}, {.events = POLLIN, .fd = -1}};
	struct timespec look = {.tv_nsec = LOOK_MS * 1000000};
	bool poll_gone;

#ifdef SYS_pidfd_open
	gone[0].fd = (int)raw_syscall(SYS_pidfd_open, copy->pid, 0, 0, 0, 0);
	gone[1].fd = (int)raw_syscall(SYS_pidfd_open, copy->owner, 0, 0, 0, 0);
#endif
	poll_gone = gone[0].fd >= 0 && gone[1].fd >= 0;
	for (;;) {
		siginfo_t info = {0};

		/* Without taking it: until `dead` is set the PID is not given to another process. */
		raw_syscall(SYS_waitid, P_PID, copy->pid, (long)&info, WEXITED | WNOHANG | WNOWAIT, 0);
		if (info.si_pid == copy->pid)
			break;
		if (raw_syscall(SYS_getppid, 0, 0, 0, 0, 0) != copy->owner)
			return false;
		raw_syscall(SYS_ppoll, (long)gone, 2, poll_gone ? 0 : (long)&look, 0, 0);
	}
	atomic_store(&copy->dead, true);
	return raw_syscall(SYS_wait4, copy->pid, (long)&copy->status, 0, 0, 0) == copy->pid;
}

/* A sanitizer that looks after leaving frames would take the keeper's stack for a broken one. */
__attribute__((no_sanitize("address"))) static int keeper_main(void *argument)
{
	struct silent_fork *copy = argument;
	pid_t pid;

	/* First of all, for the copy as well: clients that look for workers tell both by it. */
	raw_syscall(SYS_prctl, PR_SET_NAME, (long)"rbprobe-keeper", 0, 0, 0);
	pid = fork();
	if (pid == 0)
		__builtin_longjmp(copy->frame, 1);
	copy->pid = pid < 0 ? -errno : pid;
	futex_set(&copy->forked, 1);
	if (pid < 0)
		return 0;
	keeper_close_descriptors();
	if (!keeper_wait(copy) && copy->kind == SILENT_FORK_SERVANT)
		raw_syscall(SYS_kill, copy->pid, SIGKILL, 0, 0, 0);
	return 0;
}

/* --- The collector: a thread of this process, all signals blocked, no Ruby. */

static void let_go(struct silent_fork *copy)
{
	if (atomic_fetch_sub(&copy->owners, 1) > 1)
		return;
	munmap(copy->stack, KEEPER_STACK);
	fork_gate_free(copy);
}

static void *collector_main(void *argument)
{
	struct silent_fork *copy = argument;

	fork_gate_thread_is_here();
	futex_wait(&copy->stage, STAGE_NEW);
	if (atomic_load(&copy->stage) == STAGE_KEEPER)
		while (waitpid(copy->keeper, NULL, __WCLONE) < 0 && errno == EINTR)
			;
	atomic_store(&copy->collected, true);
	atomic_store(&copies.any_ended, true);
	let_go(copy);
	return NULL;
}

/* All signals are blocked: so they are in the thread. */
static int start_collector(struct silent_fork *copy)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int status;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, COLLECTOR_STACK);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	fork_gate_thread_is_coming();
	status = pthread_create(&thread, &attributes, collector_main, copy);
	if (status != 0)
		fork_gate_thread_is_here();
	pthread_attr_destroy(&attributes);
	return -status;
}

/* --- The job */

static struct silent_fork *copy_new(enum silent_fork_kind kind, void (*ended)(void *, int), void *made_by)
{
	struct silent_fork *copy = calloc(1, sizeof(*copy));

	if (!copy)
		return NULL;
	copy->kind = kind;
	copy->ended = ended;
	copy->made_by = made_by;
	copy->owner = getpid();
	copy->owners = 2;
	copy->stack = mmap(NULL, KEEPER_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (copy->stack == MAP_FAILED) {
		free(copy);
		return NULL;
	}
	return copy;
}

/* Makes the keeper and waits for its fork. True in the copy. No other local variable lives across the jump. */
static __attribute__((noinline)) bool fork_by_keeper(struct silent_fork *copy)
{
	if (__builtin_setjmp(copy->frame))
		return true;
	copy->keeper = clone(keeper_main, (char *)copy->stack + KEEPER_STACK, CLONE_VM, copy);
	if (copy->keeper < 0) {
		copy->pid = -errno;
		return false;
	}
	futex_wait(&copy->forked, 0);
	return false;
}

int silent_fork_start(struct silent_fork **made, enum silent_fork_kind kind, void (*run)(void *order),
                      void (*ended)(void *owner, int status), void *order, void *owner, struct error *err)
{
	struct silent_fork *copy;
	sigset_t all, before;
	int status;

	if (!RAW_SYSCALLS)
		return error_set(err, -ENOSYS, "a process cannot be copied unnoticed on this processor");
	copy = copy_new(kind, ended, owner);
	if (!copy)
		return error_set(err, -ENOMEM, "no memory for forking");
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	status = start_collector(copy);
	if (status < 0) {
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		atomic_store(&copy->owners, 1);
		let_go(copy);
		return error_set(err, status, "no thread for forking: %s", strerror(-status));
	}
	copy->here = fork_by_keeper(copy);
	if (copy->here) {
		run(order);
		_exit(127);
	}
	futex_set(&copy->stage, copy->keeper < 0 ? STAGE_NO_KEEPER : STAGE_KEEPER);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	status = copy->pid < 0 ? copy->pid : 0;
	if (status < 0) {
		let_go(copy);
		return error_set(err, status, "the process cannot be forked: %s", strerror(-status));
	}
	copy->next = copies.first;
	copies.first = copy;
	*made = copy;
	return 0;
}

pid_t silent_fork_pid(const struct silent_fork *copy)
{
	return copy->pid;
}

void silent_fork_kill(struct silent_fork *copy)
{
	if (!atomic_load(&copy->dead))
		kill(copy->pid, SIGKILL);
}

void silent_fork_forget(struct silent_fork *copy)
{
	struct silent_fork **link = &copies.first;

	while (*link != copy)
		link = &(*link)->next;
	*link = copy->next;
	let_go(copy);
}

void silent_forks_finish(void)
{
	struct silent_fork *next;

	if (!atomic_exchange(&copies.any_ended, false))
		return;
	for (struct silent_fork *copy = copies.first; copy; copy = next) {
		next = copy->next;
		if (!atomic_load(&copy->collected))
			continue;
		copy->ended(copy->made_by, copy->status);
		silent_fork_forget(copy);
	}
}

void silent_forks_fork_child(void)
{
	copies.first = NULL;
	atomic_store(&copies.any_ended, false);
}
