#ifndef RBPROBE_ARCH_H
#define RBPROBE_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * What calling a function in another process's thread needs to know of the processor: a file arch_NAME.c each, with a
 * table of functions, of which only the one for this machine has a body. Where nothing else is said, a function works
 * on a thread that the caller has stopped by ptrace, and returns 0 or -errno.
 */

#define ARCH_GENERAL_MAX 64     /* words */
#define ARCH_EXTENDED_MAX 16384 /* bytes: floating point and vectors, AMX tiles included */

struct arch_registers {
	unsigned long long general[ARCH_GENERAL_MAX]; /* the type that the kernel's structs have */
	size_t general_size;
	/* Aligned because the kernel and we both may look at it by words. */
	uint8_t extended[ARCH_EXTENDED_MAX] __attribute__((aligned(64)));
	size_t extended_size;
	unsigned long extended_set; /* the kernel's name for these, where it has several */
	uint64_t thread_pointer;    /* where it is not one of the general ones */
	long system_call;           /* the number of the system call that the thread is in, or has just come out of; -1: none */
};

/* What the kernel left on the stack when a handler was called. */
struct arch_signal_frame {
	uint64_t pc;     /* where the handler interrupted the thread */
	uint64_t number; /* the register with the number of a system call that begins again */
	uint64_t result; /* the register with the result of a system call */
	uint64_t mask;   /* the blocked signals before */
	int signal;
	bool at_system_call; /* pc is at a system call instruction (which will begin again), or right after it */
	bool restarts;       /* at it */
};

#define ARCH_ARGUMENTS_MAX 6
#define ARCH_SIGNAL_FRAME_SIZE 640 /* bytes; what is decoded is in these */
#define ARCH_CODE_AROUND 4         /* bytes before and after a place in the code */
#define ARCH_ERRNO_CODE_SIZE 24    /* bytes that the code of __errno_location is recognised by */
#define ARCH_STACK_UNTOUCHABLE 128 /* bytes below the stack pointer that belong to the interrupted function */

struct arch {
	/* NULL, or why rbprobe calls no functions on this processor; then there are no functions here either. */
	const char *refusal;
	uint32_t audit_machine; /* what seccomp filters know it by */

	int (*save)(pid_t thread, struct arch_registers *registers);
	/* Puts everything back; a system call that the stop interrupted goes on when the thread does. */
	int (*restore)(pid_t thread, const struct arch_registers *registers);

	/*
	 * Where the thread is just after a system call that has failed with EINTR: has it begin again, with the same
	 * arguments, when these registers are put back. False: it is not. May be NULL.
	 */
	bool (*begin_again)(struct arch_registers *registers);
	/*
	 * For kernels that do not show how a system call which the stop interrupted would go on: it was seen before the stop
	 * that the thread waited in this one, with these arguments. After save(). May be NULL.
	 */
	void (*was_waiting)(struct arch_registers *registers, long number, const uint64_t arguments[ARCH_ARGUMENTS_MAX],
	                    uint64_t sp, uint64_t pc);
	/*
	 * A handler of a signal will be called when these registers are put back: where a handler ends the system call that
	 * the stop interrupted, has it end. NULL: the kernel still knows.
	 */
	void (*end_for_signal)(struct arch_registers *registers);

	uint64_t (*pc)(const struct arch_registers *registers);
	uint64_t (*sp)(const struct arch_registers *registers);
	/* What thread-local variables are found by. */
	uint64_t (*thread_pointer)(const struct arch_registers *registers);
	/* An argument of the system call, from 0. */
	uint64_t (*system_call_argument)(const struct arch_registers *registers, unsigned number);

	/*
	 * Sets the thread up to call a function that returns to `trap`, with everything else as in `from`. `stack` is
	 * free memory below it, aligned to 16. Where the return address has its place on the stack, that word is given
	 * back for the caller to write there; else
	 * *return_slot is 0.
	 */
	int (*call)(pid_t thread, const struct arch_registers *from, uint64_t function,
	            const uint64_t arguments[ARCH_ARGUMENTS_MAX], uint64_t stack, uint64_t trap, uint64_t *return_slot);
	/* Whether the thread stands at the trap; and what the function returned. */
	bool (*has_returned)(pid_t thread, uint64_t trap, uint64_t *result);

	/*
	 * A breakpoint instruction in `size` bytes of program text; its offset, or -1. No thread is needed for this and
	 * what follows.
	 */
	ssize_t (*find_trap)(const uint8_t *text, size_t size);
	/* Likewise the code to which signal handlers return; its address is the first word of their frames. May be NULL: */
	ssize_t (*find_restorer)(const uint8_t *text, size_t size);
	/* then this word is in each frame, so many bytes from its beginning. */
	uint64_t signal_frame_word;
	size_t signal_frame_word_at;
	/*
	 * From the code of libc's __errno_location, which lies at `at`: the address of the word that is errno's offset
	 * from the thread pointer. 0: it is not the code that is known. May be NULL.
	 */
	uint64_t (*errno_word)(const uint8_t code[ARCH_ERRNO_CODE_SIZE], uint64_t at);
	/* Decodes a frame; the instructions around its pc are read by the caller: */
	void (*signal_frame_decode)(const uint8_t bytes[ARCH_SIGNAL_FRAME_SIZE], struct arch_signal_frame *frame);
	/* code: the bytes that surround frame->pc. Fills at_system_call and restarts. */
	void (*signal_frame_judge)(struct arch_signal_frame *frame, const uint8_t code[2 * ARCH_CODE_AROUND]);
};

/* That of the machine this rbprobe was built for. */
extern const struct arch arch;

#endif
