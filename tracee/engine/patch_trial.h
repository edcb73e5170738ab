#ifndef RBPROBE_PATCH_TRIAL_H
#define RBPROBE_PATCH_TRIAL_H

/*
 * Scratch methods, C functions of every arity and others, for patch_facts.c to try its facts on. Private to it. Job context; may
 * raise.
 */

#include "tracee/vm/method_layout.h"
#include "tracee/vm/scratch.h"

#include <ruby.h>

#include <stdbool.h>

#define TRIAL_ARITIES 18 /* -2 to 15 */
#define TRIAL_SAMPLES_MAX 32

/* On the machine stack, where the GC sees its VALUEs. */
struct trial {
	struct scratch scratch;
	VALUE methods[TRIAL_ARITIES]; /* UnboundMethods, of arity -2, -1, 0, ... */
	VALUE yielder;                /* the UnboundMethod that yields */
	VALUE calls;                  /* ->(object): calls all of these */
	VALUE others;                 /* Array of UnboundMethods that are no C functions */
	bool frame_found;
};

void trial_begin(struct trial *trial);
void trial_end(struct trial *trial);

/* All methods as samples; returns how many. */
size_t trial_samples(const struct trial *trial, struct method_sample *samples);

/* Calls a scratch method written in Ruby under a TracePoint. The callback's scratch_watched() is the trial. */
void trial_event(struct trial *trial, void (*event)(VALUE tracepoint, void *nothing));

bool trial_calls(struct trial *trial);
bool trial_endings(struct trial *trial);
bool trial_restores(struct trial *trial);

#endif
