#ifndef RBPROBE_FRAME_SAMPLE_H
#define RBPROBE_FRAME_SAMPLE_H

/*
 * What one event of a scratch method looked like: taken by frame_calibrate.c, which knows what was really
 * happening, evaluated by frame_analyse.c. Private to the two.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracee/frame/frame_layout.h"

#define SAMPLES_MAX 384
#define SAMPLE_LEVELS 12
#define SAMPLE_FINDS 16
#define TRACE_ARG_SPAN 8 /* words of a trace argument that may be the cfp; it has more than these everywhere */
#define BEHIND_SPAN 8    /* words of what its words point to */
#define ENTRY_SPAN 5     /* words of a method entry */
#define ENTRY_OFFSETS 3  /* words before where a pointer points in which a method entry is looked for */
#define SAMPLE_ENTRIES 8
#define JUMP_SPAN 5 /* words of a jump's internal object: the smallest slot of Ruby's heap */

enum sample_truth {
	SAMPLE_CALL,     /* the frame begins */
	SAMPLE_RETURNED, /* it ends by leaving the method */
	SAMPLE_OWN_JUMP, /* it ends by a jump that gives the call its value */
	SAMPLE_RAISED,   /* it is unwound by sample->error */
	SAMPLE_THROWN,   /* it is unwound by a jump with sample->state that ends at the frame of sample->home */
};

/* One frame of the machine stack between the callback and the VM's main loop. */
struct sample_level {
	ptrdiff_t distance; /* of its return address from the anchor */
	ptrdiff_t stack;    /* of where this frame begins: all below it belongs to what it calls */
	uintptr_t address;
};

/* A word of the stack that may be what unwinds the frame. */
struct sample_find {
	ptrdiff_t distance;
	uintptr_t jump[JUMP_SPAN]; /* the object's words at that moment, unless the truth is SAMPLE_RAISED */
};

/* An internal object that the frame leads to, and on which way. */
struct sample_entry {
	int frame_word; /* of the trace argument */
	int word;       /* of the frame */
	int offset;
	uintptr_t words[ENTRY_SPAN];
};

struct sample {
	enum sample_truth truth;
	bool c_method;
	bool block_method; /* of a method made by define_method */
	bool indirect;     /* there are other frames between this one and that of sample->parent */
	int parent;        /* the CALL sample of the frame that encloses it; -1: called by the calibration itself */
	int call;          /* the CALL sample of the same frame */
	int state;
	int home; /* CALL sample, or -1: not to a frame (Kernel#throw) */
	VALUE error;
	VALUE value; /* that a jump carries */
	uintptr_t words[TRACE_ARG_SPAN];
	int level_count;
	struct sample_level levels[SAMPLE_LEVELS];
	int find_count;
	struct sample_find finds[SAMPLE_FINDS];

	/* For frame_direct.c; the second half only where has_direct is set. */
	rb_event_flag_t event;
	ptrdiff_t trace_arg_distance; /* of the trace argument from the anchor */
	bool has_direct;
	ID called, original;
	VALUE owner;
	uintptr_t behind[TRACE_ARG_SPAN][BEHIND_SPAN];
	int entry_count;
	struct sample_entry entries[SAMPLE_ENTRIES];

	/* Filled in by the analysis. */
	uintptr_t frame;
	int bias;
};

/* Completes frame_layout from the samples of one scope. Job context. Returns 0, or a negative code. */
int frame_analyse(enum frame_scope scope, struct sample *samples, int count, struct error *err);

#endif
