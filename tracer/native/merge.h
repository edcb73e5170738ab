#ifndef RBPROBE_NATIVE_MERGE_H
#define RBPROBE_NATIVE_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One stack of two: Ruby's control frames, and the native frames of the same moment. What joins them is what the VM does: for a
 * frame that "enters" it has called its interpreter once, and a method written in C is a native frame whose function begins where
 * the method's does.
 */

struct merge_native {
	uint64_t start, size; /* of the function; 0: not known */
	bool in_vm;           /* of libruby, or of the program where that is in it */
	bool named;           /* more than by its place: it is shown also where a method stands for it */
	bool shown;           /* false: it is the VM's own way of calling, which Ruby's frames stand for */
};

struct merge_control {
	uint64_t function; /* of a method in C; 0: not known, or none */
	bool is_c, enters;
};

/* A frame of the result: the number of a control frame, or of a native one. */
struct merge_frame {
	bool is_native;
	uint32_t number;
};

/* Functions of the VM, and in how many stacks each was there as often as frames entered. The interpreter always is. */
struct merge_interpreter {
	struct merge_candidate {
		uint64_t start, size;
		uint32_t fits;
	} candidates[256];
	uint32_t count, most;
};

/* All of both are outermost first. cut: native frames are missing further out. */
struct merge_stack {
	const struct merge_native *natives;
	uint32_t native_count;
	const struct merge_control *controls;
	uint32_t control_count;
	bool cut;
};

/* Learns from a stack. Where all native frames are there. */
void merge_learn(struct merge_interpreter *interpreter, const struct merge_stack *stack);
/* The functions that may be the interpreter, the likelier one first; 0: none. */
struct merge_choice {
	uint64_t usual, other;
};
struct merge_choice merge_interpreter_find(const struct merge_interpreter *interpreter);

/*
 * Into frames, which has room for all of both. False: how they belong together is not known: then control frames alone are there.
 */
bool merge_frames(const struct merge_stack *stack, uint64_t interpreter, struct merge_frame *frames, uint32_t *count);

#endif
