/*
 * What engine patch relies on, and the trial of it. See patch.h. Context: job, GVL held, under rb_protect; patch_frame_place:
 * event.
 *
 * The facts are in the table at the end, in the order in which they are found out: each stands on those before it.
 * vm_assumptions.c says what they are, and on which Rubies they were seen; what counts is that they are found true in the process
 * at hand. They are tried on methods of an anonymous module, which the GC takes away.
 */

#include "tracee/engine/patch.h"

#include "tracee/base/safe_read.h"
#include "tracee/engine/engine.h"
#include "tracee/engine/patch_stubs.h"
#include "tracee/engine/patch_trial.h"
#include "tracee/frame/frame.h"
#include "tracee/frame/frame_context.h"
#include "tracee/frame/frame_direct.h"
#include "tracee/vm/event_flags.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/foreign_hooks.h"
#include "tracee/vm/layout.h"
#include "tracee/vm/method_definition.h"
#include "tracee/vm/thread_layout.h"

#include <errno.h>
#include <ruby/debug.h>
#include <stdatomic.h>
#include <string.h>

static struct {
	bool tried;
	enum patch_fact failed; /* the first that is not found true */
} facts = {.failed = PATCH_FACTS};

void patch_put(const struct method_target *target, uintptr_t function)
{
	atomic_store_explicit((_Atomic uintptr_t *)target->function_place, function, memory_order_release);
}

static bool has_stubs(struct trial *trial)
{
	(void)trial;
	return patch_stubs_available();
}

static bool layout_holds(struct trial *trial)
{
	struct method_sample samples[TRIAL_SAMPLES_MAX];
	size_t count = trial_samples(trial, samples);

	return method_definition_fits(samples, count);
}

/* The innermost frame of the running fiber. */

/* An event in which the running fiber's frame is known. */
static void frame_event(VALUE tracepoint, void *nothing)
{
	struct trial *trial = scratch_watched(tracepoint);
	rb_trace_arg_t *trace_arg = rb_tracearg_from_tracepoint(tracepoint);
	uintptr_t frame = frame_of_call(trace_arg, RUBY_EVENT_CALL, FRAME_ANCHOR());

	(void)nothing;
	if (trial && frame && !trial->frame_found)
		trial->frame_found = frame_context_find(thread_fiber_context(rb_fiber_current()), frame);
}

static bool finds_frames(struct trial *trial)
{
	if (frame_calibrate(FRAME_TARGETED, NULL) < 0 && !frame_identity_known(FRAME_TARGETED))
		return false;
	if (!thread_fiber_context(rb_fiber_current()))
		return false;
	trial_event(trial, frame_event);
	frame_context_not_found();
	return trial->frame_found && patch_frame_place(rb_fiber_current()) != NULL;
}

const uintptr_t *patch_frame_place(VALUE fiber)
{
	uintptr_t context = thread_fiber_context(fiber);
	struct frame_range range;

	return frame_context_range(context, &range) ? (const uintptr_t *)context + layout_value(LAYOUT_CONTEXT_FRAME) : NULL;
}

/* A frame's method. */

bool patch_names_known;
static bool names_refuted;

static bool frame_names(uintptr_t frame, ID name, VALUE owner)
{
	size_t called_word = layout_value(LAYOUT_ENTRY_CALLED), owner_word = layout_value(LAYOUT_ENTRY_OWNER);
	uintptr_t environment, entry, words[SLOT_WORDS];

	return safe_read_words(frame + layout_value(LAYOUT_FRAME_ENVIRONMENT) * sizeof(environment), &environment, 1) &&
	       safe_read_words(environment - layout_value(LAYOUT_ENVIRONMENT_ENTRY) * sizeof(entry), &entry, 1) &&
	       safe_read_words(entry, words, SLOT_WORDS) && called_word < SLOT_WORDS && owner_word < SLOT_WORDS &&
	       words[called_word] == name && words[owner_word] == owner;
}

void patch_names_try(uintptr_t frame, ID name, VALUE owner)
{
	names_refuted |= !frame_direct_is_known() || !frame_names(frame, name, owner);
}

void patch_names_tried(void)
{
	patch_names_known = !names_refuted;
}

/* Table and trial. */

static bool begins(struct trial *trial)
{
	trial_begin(trial);
	return true;
}

static const struct {
	bool (*is_true)(struct trial *trial);
	const char *failed; /* what is said of methods where it is not */
} table[PATCH_FACTS] = {
	[PATCH_TRIAL] = {begins, "self-test: it could not be made"},
	[PATCH_STUBS] = {has_stubs, "no stubs for this kind of processor"},
	[PATCH_LAYOUT] = {layout_holds, "self-test: how a method leads to its C function was not found"},
	[PATCH_FRAMES] = {finds_frames, "self-test: a fiber's frames were not found"},
	[PATCH_CALLS] = {trial_calls, "self-test: a function in a method's place was not called as it should be"},
	[PATCH_ENDINGS] = {trial_endings, "self-test: how C methods end was not told"},
	[PATCH_RESTORES] = {trial_restores, "self-test: a function put back was not called"},
};

static VALUE try_all(VALUE argument)
{
	struct trial *trial = (struct trial *)argument;

	while (facts.failed < PATCH_FACTS && table[facts.failed].is_true(trial))
		facts.failed++;
	return Qnil;
}

/* What passes does not decide for good; tried as a part of the trial, it would. */
static bool is_bad_moment(void)
{
	return !frame_identity_known(FRAME_TARGETED) && frame_calibrate(FRAME_TARGETED, NULL) == -EAGAIN;
}

const char *patch_unready(void)
{
	if (!facts.tried && foreign_hooks_on(FOREIGN_HOOKS_TRIAL))
		return FOREIGN_HOOKS_WHY " runs";
	if (!facts.tried && is_bad_moment())
		return "just now its thread is in a hook of the application's, or parses a file: try again";
	if (!facts.tried) {
		struct trial trial = {0};
		int failed = 0;

		/* First of all: the trial's own methods may lead here again. */
		facts.tried = true;
		facts.failed = PATCH_TRIAL;
		rb_protect(try_all, (VALUE)&trial, &failed);
		if (failed)
			exception_drop(Qnil);
		trial_end(&trial);
		event_flags_restore_global();
	}
	return facts.failed < PATCH_FACTS ? table[facts.failed].failed : NULL;
}

bool patch_tried(void)
{
	return facts.tried;
}

enum patch_fact patch_fact_failed(void)
{
	return facts.failed;
}
