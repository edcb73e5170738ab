#ifndef RBPROBE_THREAD_SNAPSHOT_H
#define RBPROBE_THREAD_SNAPSHOT_H

#include "tracer/process/confined.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A thread's registers and the used part of its stack, as they were in one moment, from which its native backtrace can
 * be made at leisure: the thread is stopped only while they are copied. A system call that it is in goes on, but for
 * the few that a signal would end as well (epoll_wait, for example, returns EINTR).
 */

#define SNAPSHOT_REGISTERS_MAX 32
#define SNAPSHOT_STACK_MAX (512u << 10) /* bytes of a stack */
#if defined(__aarch64__)
#define SNAPSHOT_STACK_POINTER 31
#else
#define SNAPSHOT_STACK_POINTER 7
#endif

/* Where a function's frame goes on: that of the thread, or of one that it was called from. */
struct snapshot_place {
	uint64_t pc, sp, fp; /* fp: the frame pointer */
};

struct snapshot {
	pid_t tid;
	uint64_t pc, sp;
	uint64_t registers[SNAPSHOT_REGISTERS_MAX]; /* in DWARF's order for this processor */
	unsigned register_count;
	uint8_t *stack; /* what was at sp */
	size_t stack_size;
	bool stack_cut;      /* it goes on, and stack_max kept the rest from being copied */
	uint64_t stopped_ns; /* for how long, at most */
};

/* What else is copied in that moment. */
struct snapshot_beside {
	uint64_t stack_end; /* no more of the stack is needed than up to there; 0: all of it */
	void (*copy)(void *argument);
	void *argument;
};

/*
 * To be called in a thread of ours that ends soon: only then the kernel lets go of a thread that did not stop in time.
 * stack_max: at most so many bytes of its stack, and never more than SNAPSHOT_STACK_MAX. Returns 0; -EPERM (not allowed, or
 * somebody else traces it), -ESRCH (gone), -ETIMEDOUT (it does not stop: an uninterruptible system call), -ENOSYS (not on
 * this processor).
 */
int snapshot_take(struct snapshot *snapshot, pid_t pid, pid_t tid, size_t stack_max, uint64_t deadline_ns);
/* The same with something beside; NULL: nothing. */
int snapshot_take_beside(struct snapshot *snapshot, pid_t pid, pid_t tid, size_t stack_max, uint64_t deadline_ns,
                         const struct snapshot_beside *beside);
void snapshot_free(struct snapshot *snapshot);

/*
 * A word of the process's memory as it was then, where it belongs to the copied stack; else as it is now. False also for
 * the rest of a stack that was cut: the thread runs, and what is there now are other calls' frames.
 */
bool snapshot_read(const struct snapshot *snapshot, const struct confined *confined, uint64_t address, uint64_t *word);

/* The place where the thread is. */
struct snapshot_place snapshot_place(const struct snapshot *snapshot);
/* The thread's registers, with those of that place; as many as register_count. */
void snapshot_registers(const struct snapshot *snapshot, const struct snapshot_place *place, uint64_t *registers);
/*
 * The place of the caller, where the word at that address of the stack is the return address that a function has saved.
 * False: it cannot be one.
 */
bool snapshot_saved_caller(const struct snapshot *snapshot, const struct confined *confined, uint64_t at,
                           struct snapshot_place *caller);
/*
 * The place of the caller, where the innermost function has neither saved its return address nor moved the stack. False: it is
 * not in a register on this processor.
 */
bool snapshot_leaf_caller(const struct snapshot *snapshot, struct snapshot_place *caller);

/* Whether a call instruction stands in front of that address. Always false where that cannot be known. */
bool snapshot_is_return_address(const struct snapshot *snapshot, const struct confined *confined, uint64_t address);

/* What the call instruction in front of that address calls, if need be through a linkage table. 0: not known. */
uint64_t snapshot_call_target(const struct snapshot *snapshot, const struct confined *confined, uint64_t address);

#endif
