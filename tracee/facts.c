/*
 * The table of what is taken for true of the VM. See facts.h. Context: job.
 *
 * The checks are the modules' own; here it is only asked for their results, and said what these mean. The versions are those on which the check was seen to
 * come out well; tests/live/selftest_test.rb holds them against the Ruby it runs on.
 */

#include "facts.h"

#include "bell.h"
#include "compat.h"
#include "core.h"
#include "definition.h"
#include "engine.h"
#include "event_flags.h"
#include "frame.h"
#include "frame_direct.h"
#include "patch.h"
#include "proto/error.h"
#include "thread_layout.h"
#include "ticks.h"

#include <errno.h>

#define ALL "2.7 3.1 3.3 3.4 4.0 4.1"

static enum fact_state because(enum fact_state state, struct text *reason, const char *why)
{
	text_append_cstr(reason, why);
	return state;
}

static enum fact_state ok_or_failed(bool is_true, struct text *reason, const char *why_not)
{
	return is_true ? FACT_OK : because(FACT_FAILED, reason, why_not);
}

static enum fact_state stands_on(const char *fact, struct text *reason)
{
	text_printf(reason, "it stands on %s", fact);
	return FACT_NOT_TRIED;
}

/* --- The way in */

static enum fact_state check_signal(struct text *reason)
{
	if (bell_is_ours())
		return FACT_OK;
	return because(FACT_NOT_APPLICABLE, reason, "the application has SIGURG; the VM is woken without it");
}

/* --- Frames */

static enum fact_state calibrated(bool known, int code, const struct error *err, struct text *reason)
{
	if (known)
		return FACT_OK;
	return because(code == -EAGAIN ? FACT_NOT_TRIED : FACT_FAILED, reason, err->text);
}

static enum fact_state check_frame_identity(struct text *reason)
{
	struct error err;
	int code = frame_calibrate(FRAME_TARGETED, &err);

	return calibrated(frame_identity_known(FRAME_TARGETED), code, &err, reason);
}

static enum fact_state check_frame_endings(struct text *reason)
{
	struct error err;
	int code = frame_calibrate(FRAME_TARGETED, &err);

	return calibrated(frame_endings_known(FRAME_TARGETED), code, &err, reason);
}

static enum fact_state check_frame_direct(struct text *reason)
{
	if (!frame_endings_known(FRAME_TARGETED))
		return stands_on("frames.endings", reason);
	return ok_or_failed(frame_direct.known, reason, "where these are was not found");
}

static enum fact_state check_event_flags(struct text *reason)
{
	const char *why = event_flags_unready();

	return ok_or_failed(!why, reason, why);
}

static enum fact_state check_frame_hook(struct text *reason)
{
	struct error err;
	int code;

	if (frame_endings_known(FRAME_GLOBAL))
		return FACT_OK;
	/* Without it the trial would leave the process slower. */
	if (!event_flags_ready())
		return stands_on("hook.flags", reason);
	if (!compat_is_only_ractor())
		return because(FACT_NOT_TRIED, reason, "several Ractors run, and the trial takes a hook that all would meet");
	code = engine_hook_calibrate(&err);
	return calibrated(frame_endings_known(FRAME_GLOBAL), code, &err, reason);
}

/* --- Engine patch */

static enum fact_state check_patch(enum patch_fact fact, struct text *reason)
{
	const char *failed = patch_unready();

	if (!failed || fact < patch_fact_failed())
		return FACT_OK;
	if (fact == patch_fact_failed())
		return because(FACT_FAILED, reason, failed);
	return patch_fact_failed() == PATCH_FACTS ? because(FACT_NOT_TRIED, reason, failed) : stands_on("those before", reason);
}

#define PATCH_CHECK(name, fact)                                                                                                  \
	static enum fact_state name(struct text *reason)                                                                         \
	{                                                                                                                        \
		return check_patch(fact, reason);                                                                                \
	}

PATCH_CHECK(check_patch_trial, PATCH_TRIAL)
PATCH_CHECK(check_patch_stubs, PATCH_STUBS)
PATCH_CHECK(check_patch_layout, PATCH_LAYOUT)
PATCH_CHECK(check_patch_frames, PATCH_FRAMES)
PATCH_CHECK(check_patch_calls, PATCH_CALLS)
PATCH_CHECK(check_patch_endings, PATCH_ENDINGS)
PATCH_CHECK(check_patch_restores, PATCH_RESTORES)

static enum fact_state check_patch_names(struct text *reason)
{
	if (patch_unready())
		return stands_on("those before", reason);
	return ok_or_failed(patch_frame_layout.known, reason, "where it does was not found");
}

static enum fact_state check_patch_compiler(struct text *reason)
{
	const char *why = engine_patch_refused();

	return ok_or_failed(!why, reason, why);
}

/* --- Methods and threads */

static enum fact_state check_shared_methods(struct text *reason)
{
	if (compat_block_method_shares_hooks())
		return because(FACT_NOT_APPLICABLE, reason, "this Ruby takes several TracePoints for such a method");
	return ok_or_failed(definition_of(core_method(CORE_MODULE_TO_S)) != 0, reason, "it was not found");
}

static enum fact_state check_thread_context(struct text *reason)
{
	return ok_or_failed(thread_context(rb_thread_current()) != NULL, reason, "it was not found");
}

static enum fact_state check_thread_mutex(struct text *reason)
{
	return ok_or_failed(thread_mutex_known(), reason, "they were not found");
}

static enum fact_state check_thread_frames(struct text *reason)
{
	VALUE frame = Qnil;
	int line = 0;

	return ok_or_failed(compat_thread_frames(rb_thread_current(), 1, &frame, &line) >= 0, reason,
	                    "the running thread's context is not where it was looked for");
}

static int no_page(void *start, void *end, size_t stride, void *data)
{
	(void)start;
	(void)end;
	(void)stride;
	(void)data;
	return 1;
}

static enum fact_state check_heap_pages(struct text *reason)
{
	return ok_or_failed(compat_each_page(no_page, NULL), reason, "this Ruby does not export the function for it");
}

static enum fact_state check_handler_frames(struct text *reason)
{
	if (compat_may_look_in_handler())
		return FACT_OK;
	return because(FACT_NOT_APPLICABLE, reason, "this Ruby does not tell a handler who has the GVL");
}

static enum fact_state check_ticks(struct text *reason)
{
	if (ticks_are_tsc)
		return FACT_OK;
	return because(FACT_NOT_APPLICABLE, reason, "the kernel does not; each event takes its time from clock_gettime()");
}

const struct fact facts[] = {
	{"signal.handler", "Ruby's own signal handler, behind ours, wakes the VM for requests",
         "a process that sleeps answers late or never", ALL, check_signal},
	{"frames.identity", "An event of a Ruby method holds its frame, and frames have one size",
         "ends of calls are matched by method, and engine patch is refused: hook takes its place", ALL, check_frame_identity},
	{"frames.endings", "The place in the VM that an event comes from, and a variable there, tell how a method ended",
         "how a call ended is told only where it gave a value", ALL, check_frame_endings},
	{"frames.direct", "Which method and fiber an event is about stands where frames and method entries have it",
         "the VM is asked at each event of engine target, which takes half as long again", ALL, check_frame_direct},
	{"hook.flags",
         "A word of libruby has the events that a hook was ever on for, and for those the VM rewrites no instructions",
         "engine hook leaves the process slower until it restarts, and needs --yes", ALL, check_event_flags},
	{"hook.frames", "What holds of frames holds for events of all calls, too, and for methods written in C",
         "with engine hook how a call ended is told only where it gave a value", ALL, check_frame_hook},
	{"patch.trial", "Scratch methods can be defined and called", "engine patch is refused: hook takes its place", ALL,
         check_patch_trial},
	{"patch.stubs", "There are stubs for this kind of processor", "engine patch is refused: hook takes its place",
         ALL " on x86-64", check_patch_stubs},
	{"patch.layout",
         "A method object leads to its C function, which has a place and an arity in the method's definition; the definition "
         "tells a C function from other kinds of method",
         "engine patch is refused: hook takes its place", ALL, check_patch_layout},
	{"patch.frames", "A fiber's innermost frame can be found", "engine patch is refused: hook takes its place", ALL,
         check_patch_frames},
	{"patch.calls",
         "A function that is put in a method's place is called instead, with all arguments, in a frame that names the method",
         "engine patch is refused: hook takes its place", ALL, check_patch_calls},
	{"patch.endings", "A break, a return and a throw that leave a C method are told apart, and what a break gives",
         "engine patch is refused: hook takes its place", ALL, check_patch_endings},
	{"patch.restores", "The function is called as before once it is back", "engine patch is refused: hook takes its place",
         ALL, check_patch_restores},
	{"patch.names", "A C method's frame has its name and owner at fixed places",
         "the VM is asked at each call that engine patch sees, which takes longer", ALL, check_patch_names},
	{"patch.compiler", "No compiler has C functions' addresses in its code, or it can be told of a change",
         "engine patch is refused: hook takes its place", ALL, check_patch_compiler},
	{"methods.shared", "Methods made of one block by define_method lead to one definition",
         "engine target refuses methods made by define_method: hook takes its place", "2.7 3.1", check_shared_methods},
	{"threads.context", "A thread leads to its execution context, and that back to it",
         "backtraces do not tell who holds the Mutex that a thread waits for", ALL, check_thread_context},
	{"threads.mutex", "A thread leads to the Mutex that it waits for, and that to who holds it",
         "backtraces do not tell who holds the Mutex that a thread waits for", ALL, check_thread_mutex},
	{"threads.frames", "The frames of a thread other than the running one can be read",
         "before Ruby 3.4 backtraces show methods without their classes", ALL, check_thread_frames},
	{"threads.handler", "A signal handler can tell whether its thread has the GVL",
         "a process whose VM is stuck shows native frames only", "3.1 3.3 3.4 4.0 4.1", check_handler_frames},
	{"heap.pages", "The heap can be walked over, page by page", "memory does not count objects", ALL, check_heap_pages},
	{"clock.tsc", "The kernel keeps time by the processor's time stamp counter", "events are timed by clock_gettime()", ALL,
         check_ticks},
};

const size_t facts_count = sizeof(facts) / sizeof(facts[0]);

const char *fact_state_name(enum fact_state state)
{
	static const char *const names[FACT_STATES] = {
		[FACT_OK] = "ok",
		[FACT_FAILED] = "failed",
		[FACT_NOT_APPLICABLE] = "not_applicable",
		[FACT_NOT_TRIED] = "not_tried",
	};

	return names[state];
}

struct trying {
	const struct fact *fact;
	struct text *reason;
	enum fact_state state;
};

static VALUE try_protected(VALUE argument)
{
	struct trying *trying = (struct trying *)argument;

	trying->state = trying->fact->check(trying->reason);
	return Qnil;
}

enum fact_state fact_try(const struct fact *fact, struct text *reason)
{
	struct trying trying = {.fact = fact, .reason = reason};
	int failed = 0;

	rb_protect(try_protected, (VALUE)&trying, &failed);
	if (failed) {
		VALUE error = rb_errinfo();

		rb_set_errinfo(Qnil);
		text_printf(reason, "finding it out raised %s", RB_SPECIAL_CONST_P(error) ? "a jump" : rb_obj_classname(error));
		return FACT_FAILED;
	}
	return trying.state;
}
