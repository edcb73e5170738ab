#ifndef RBPROBE_FRAME_SCRATCH_H
#define RBPROBE_FRAME_SCRATCH_H

/*
 * Methods that end in every way a method can end, for frame_calibrate.c to watch. Private to it. Job context; the
 * functions here may raise.
 */

#include <stdbool.h>

#include <ruby.h>

#include "tracee/frame/frame_sample.h"
#include "tracee/vm/scratch.h"

enum method {
	LEAVE,
	LEAVE_AGAIN,
	LEAVE_EARLY,
	JUMP,
	RERAISE,
	THROUGH,
	DEEP,
	RETURN_FROM_BLOCK,
	BREAK_OUT,
	BREAK_DEEP,
	THROW_THROUGH,
	CATCHER,
	RELAY,
	BLOCK_METHOD,
	BLOCK_CATCHER,
	C_PLAIN,
	C_SPLAT,
	C_BLOCK,
	C_BLOCK_SPLAT,
	C_RETURN,
	C_BREAK,
	C_THROW_THROUGH,
	C_CATCHER,
	C_PROTECT_CATCHER,
	READ_ATTRIBUTE,
	ATTRIBUTE,
	C_LEAVE,
	C_JUMP,
	C_THROUGH,
	C_THROW,
	C_PROTECT_JUMP,
	C_PROTECT_THROW,
	METHODS,
};

struct frame_scratch_method {
	const char *name;
	bool c_method;
	bool indirect; /* see struct sample */
};

extern const struct frame_scratch_method frame_scratch_methods[METHODS];

struct expectation {
	enum method method;
	enum sample_truth truth;
	int state;      /* with SAMPLE_THROWN */
	bool from_home; /* a jump to the frame of the scenario's entry */
};

#define EXPECTATIONS 4

struct scenario {
	enum method entry;
	int how;                                 /* second argument, or -1 */
	bool raises;                             /* every frame is unwound by the exception */
	bool global;                             /* needs events of C methods */
	struct expectation expect[EXPECTATIONS]; /* frames not named here return */
};

/* Only to be had on the machine stack, where the GC sees its VALUEs and does not move their objects. */
struct frame_scratch {
	struct scratch methods;
	VALUE methods_proc, unwinder, errors;
	ID ids[METHODS];

	const struct scenario *scenario; /* NULL while none runs */
	int scenarios_run;
	VALUE error; /* that the scenario's frames are unwound with */
	VALUE value; /* that is given back or thrown */
};

/* Makes the methods. The names are known afterwards: scratch->ids. */
void frame_scratch_build(struct frame_scratch *scratch);

/* What has to be watched for everything written in Ruby: the first target has all methods but one, the second that one. */
void frame_scratch_targets(const struct frame_scratch *scratch, VALUE targets[SCRATCH_TARGETS]);

/* Runs every scenario in every way of calling it. False when one did not end as it should have. */
bool frame_scratch_run(struct frame_scratch *scratch, bool c_methods);

#endif
