/*
 * The innermost frame's method. See frame_innermost.h. A call of C code has its method's entry where a Ruby method's frame has it
 * (vm_push_frame() of vm_insnhelper.c); that is tried here, on a method of our own. Context: job to find it; any thread to read.
 */

#include "tracee/frame/frame_innermost.h"

#include "tracee/base/safe_read.h"
#include "tracee/frame/frame.h"
#include "tracee/frame/frame_context.h"
#include "tracee/frame/frame_direct.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/layout.h"
#include "tracee/vm/scratch.h"
#include "tracee/vm/thread_layout.h"

#define CONTEXT_WORDS 8
#define METHOD "rbprobe_innermost"

/* What is looked for, while the scratch method runs. Under the GVL. */
static struct {
	VALUE owner;
	bool holds;
} trial;

static bool method_of(uintptr_t frame, VALUE *owner, ID *called)
{
	size_t called_word = layout_value(LAYOUT_ENTRY_CALLED), owner_word = layout_value(LAYOUT_ENTRY_OWNER);
	uintptr_t environment, entry, words[SLOT_WORDS];

	if (called_word >= SLOT_WORDS || owner_word >= SLOT_WORDS ||
	    !safe_read_words(frame + layout_value(LAYOUT_FRAME_ENVIRONMENT) * sizeof(environment), &environment, 1) ||
	    !safe_read_words(environment - layout_value(LAYOUT_ENVIRONMENT_ENTRY) * sizeof(entry), &entry, 1) ||
	    !safe_read_words(entry, words, SLOT_WORDS) || (words[0] & FRAME_ENTRY_MASK) != layout_value(LAYOUT_ENTRY_FLAGS))
		return false;
	*owner = words[owner_word];
	*called = words[called_word];
	return true;
}

bool frame_innermost_method(uintptr_t context, VALUE *owner, ID *called)
{
	struct frame_range range;

	return frame_context_range(context, &range) && method_of(range.innermost, owner, called);
}

/* The scratch method. */
static VALUE look(VALUE self)
{
	uintptr_t context = (uintptr_t)thread_context(rb_thread_current()), words[CONTEXT_WORDS];
	VALUE owner;
	ID called;

	if (!context || !safe_read_words(context, words, CONTEXT_WORDS))
		return self;
	for (size_t i = 0; i < CONTEXT_WORDS && !trial.holds; i++)
		trial.holds = method_of(words[i], &owner, &called) && owner == trial.owner && called == rb_intern(METHOD) &&
		              frame_context_find(context, words[i]) && frame_innermost_method(context, &owner, &called) &&
		              owner == trial.owner;
	return self;
}

static VALUE try_once(VALUE unused)
{
	struct scratch scratch;

	scratch_make(&scratch);
	scratch_define_c(&scratch, METHOD, look, 0);
	trial.owner = scratch.module;
	scratch_call(&scratch, METHOD, 0, NULL);
	RB_GC_GUARD(scratch.object);
	RB_GC_GUARD(scratch.module);
	return unused;
}

bool frame_innermost_find(void)
{
	int failed = 0;

	if (trial.holds)
		return true;
	frame_calibrate(FRAME_TARGETED, NULL);
	if (!frame_direct_is_known())
		return false;
	rb_protect(try_once, Qnil, &failed);
	if (failed)
		exception_drop(Qnil);
	frame_context_not_found();
	return trial.holds;
}
