#ifndef RBPROBE_PATCH_TRIAL_H
#define RBPROBE_PATCH_TRIAL_H

/* Scratch methods, C functions of every arity and others, for patch_facts.c to try its facts on. Private to it. Job context; may raise. */

#include "patch_layout.h"

#include <ruby.h>

#include <stdbool.h>

#define TRIAL_ARITIES 18 /* -2 to 15 */
#define TRIAL_SAMPLES_MAX 32

/* On the machine stack, where the GC sees its VALUEs. */
struct trial {
	VALUE object, module;
	VALUE methods[TRIAL_ARITIES]; /* UnboundMethods, of arity -2, -1, 0, ... */
	VALUE yielder;                /* the UnboundMethod that yields */
	VALUE calls;                  /* ->(object): calls all of these */
	VALUE others;                 /* Array of UnboundMethods that are no C functions */
	bool frame_found;
};

void trial_begin(struct trial *trial);
void trial_end(struct trial *trial);

/* All methods as samples; returns how many. */
size_t trial_samples(const struct trial *trial, struct patch_sample *samples);

/* Calls a scratch method written in Ruby under a TracePoint. */
void trial_event(struct trial *trial, void (*event)(VALUE tracepoint, void *nothing));

bool trial_calls(struct trial *trial);
bool trial_endings(struct trial *trial);
bool trial_restores(struct trial *trial);

#endif
