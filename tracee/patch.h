#ifndef RBPROBE_PATCH_H
#define RBPROBE_PATCH_H

#include "patch_layout.h"

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether the C functions of methods can be replaced in this process: what engine patch relies on of the VM, found out and tried on methods of
 * our own before the first method of the application is touched. The facts, one by one, are in patch_facts.c.
 */

/* Finds out, the first time. NULL: they can; else why not. Job context, GVL held; may raise. */
const char *patch_unready(void);

/* What a method (an UnboundMethod) leads to. This and what follows only after patch_unready() has said NULL. */
bool patch_follow(VALUE method, struct patch_target *target);
/* Puts a function in a method's place, at once for all threads. */
void patch_put(const struct patch_target *target, uintptr_t function);

/*
 * Where the VM keeps the innermost frame of a fiber: read there, it is the identity of the frame as in frame.h. NULL where this fiber does not look like the
 * one it was found out with. Event context.
 */
const uintptr_t *patch_frame_place(VALUE fiber);

/*
 * Why a C method must not be patched although it could be: the VM, or its compiler, has code of its own for it and does not call its
 * function. NULL: it calls it. compiled: a compiler is at work. Job context.
 */
const char *patch_bypassed(VALUE owner, VALUE name, bool compiled);

#endif
