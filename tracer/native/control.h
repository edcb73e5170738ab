#ifndef RBPROBE_NATIVE_CONTROL_H
#define RBPROBE_NATIVE_CONTROL_H

#include "proto/frames.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The control frames of a Ruby thread, read from outside: where the process says that it has them (PROTOCOL.md, "FRAMES"). Copied
 * in the moment in which the thread stands still, and understood after that.
 */

#define CONTROL_FRAMES_MAX 512u

/* What a frame is of: its address, and the word that tells it from another that comes to lie there. 0: nothing. */
struct control_object {
	uint64_t address, body;
};

struct control_frame {
	struct control_object code;  /* instructions; none of what is written in C */
	struct control_object entry; /* the method's; none where it is not known */
	bool is_c;
	bool enters; /* the interpreter was called for it */
};

/* Innermost first. */
struct control_stack {
	struct control_frame *frames;
	uint32_t count;
	bool cut;   /* there are more, further out */
	bool known; /* false: what was found there is none */
};

/* Room for one copy. Not small: there is one for each who copies. */
struct control_copy {
	pid_t pid;
	uint64_t context_at; /* where the thread has the address of its context */
	size_t frame_words;
	uint64_t stack, end;                                   /* found: of its VM stack; 0: it has none (yet, or any more) */
	uint32_t count;                                        /* of frames that were copied */
	bool cut;                                              /* there are more */
	uint64_t words[CONTROL_FRAMES_MAX * FRAMES_WORDS_MAX]; /* of all frames */
	uint64_t environments[CONTROL_FRAMES_MAX][3];
	uint32_t environment_count; /* of the innermost frames: as many as could be read */
};

/* The thread stands still. A few system calls, and no allocation. */
void control_copy(struct control_copy *copy);
/* The thread may run. The caller frees stack->frames. */
void control_understand(const struct control_copy *copy, struct control_stack *stack);

#endif
