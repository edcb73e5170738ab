#ifndef RBPROBE_PATCH_H
#define RBPROBE_PATCH_H

#include "tracee/base/text.h"
#include "tracee/vm/layout.h"
#include "tracee/vm/method_layout.h"

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether the C functions of methods can be replaced in this process: what engine patch relies on of the VM, found out and tried
 * on methods of our own before the first method of the application is touched.
 */

/* Finds out, the first time. NULL: they can; else why not. Job context, GVL held; may raise. */
const char *patch_unready(void);
/* Whether it has. */
bool patch_tried(void);

/* What it finds out, in this order: each stands on those before it. vm_assumptions.c says what they are. */
enum patch_fact {
	PATCH_TRIAL,
	PATCH_STUBS,
	PATCH_LAYOUT,
	PATCH_FRAMES,
	PATCH_CALLS,
	PATCH_ENDINGS,
	PATCH_RESTORES,
	PATCH_FACTS,
};

/* The one that patch_unready() speaks of; those behind it were not tried. PATCH_FACTS: none is known to be false. */
enum patch_fact patch_fact_failed(void);

/* Puts a function in a method's place, at once for all threads. This and what follows: after patch_unready() has said NULL. */
void patch_put(const struct method_target *target, uintptr_t function);

/*
 * Where the VM keeps the innermost frame of a fiber: read there, it is the identity of the frame as in frame.h. NULL where this
 * fiber does not look like the one it was found out with. Event context.
 */
const uintptr_t *patch_frame_place(VALUE fiber);

/*
 * What the frame of a C method says of it, the name it was called by and its owner, as rb_frame_callee() and
 * rb_frame_method_id_and_class() do, but in four loads. They are where frames of Ruby methods have them (frame_direct.h); whether
 * that holds for C methods, too, is tried with the other facts. Unknown, these functions are asked. Event context.
 */
extern bool patch_names_known;

static inline bool patch_frame_method(uintptr_t frame, ID *name, VALUE *owner)
{
	const uintptr_t *environment, *entry;

	if (__builtin_expect(!patch_names_known || !frame, 0)) {
		ID original;

		*name = rb_frame_callee();
		return rb_frame_method_id_and_class(&original, owner);
	}
	environment = ((const uintptr_t *const *)frame)[layout_value(LAYOUT_FRAME_ENVIRONMENT)];
	entry = (const uintptr_t *)*(environment - layout_value(LAYOUT_ENVIRONMENT_ENTRY));
	*name = entry[layout_value(LAYOUT_ENTRY_CALLED)];
	*owner = entry[layout_value(LAYOUT_ENTRY_OWNER)];
	return true;
}

/* For the trial: shows the frame of a method whose name and owner are known, and that all were shown. Job context. */
void patch_names_try(uintptr_t frame, ID name, VALUE owner);
void patch_names_tried(void);

/*
 * Why no method at all can be patched at this moment: a compiler is at work that goes its own ways. NULL: they can. Job context.
 */
const char *patch_refused_by_compiler(void);
extern const char patch_compiler_other[], patch_compiler_ractors[]; /* what it may say */

/* Behind patch_put(): has the compiler, if one is at work, forget what it knows of the method. Job context; raises nothing. */
void patch_tell_compiler(VALUE owner, VALUE name);
/* It could not be, because of other Ractors: it has to start anew when they are gone. */
bool patch_compiler_untold(void);
/* Whether they are; then that is the caller's to do, and all is told. */
bool patch_compiler_starts_anew(void);

/*
 * Why a C method must not be patched although it could be: the VM, or its compiler, has code of its own for it and does not call
 * its function. NULL: it calls it. compiled: a compiler is at work. Job context.
 */
const char *patch_bypassed(VALUE owner, VALUE name, bool compiled);
/*
 * Instructions of this VM that patch_bypassed() knows nothing of, though their names say that they stand for calls. Job context;
 * may raise.
 */
void patch_unknown_instructions(struct text *unknown);

#endif
