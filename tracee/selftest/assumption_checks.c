/* The modules' own checks, asked for their results. See assumption_checks.h. Context: job. */

#include "tracee/selftest/assumption_checks.h"

#include "proto/error.h"
#include "tracee/base/ticks.h"
#include "tracee/engine/engine.h"
#include "tracee/engine/patch.h"
#include "tracee/frame/frame.h"
#include "tracee/frame/frame_direct.h"
#include "tracee/session/bell.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/event_flags.h"
#include "tracee/vm/foreign_hooks.h"
#include "tracee/vm/interrupts_mask.h"
#include "tracee/vm/method_definition.h"
#include "tracee/vm/objspace.h"
#include "tracee/vm/oneshot_lines.h"
#include "tracee/vm/quiet.h"
#include "tracee/vm/thread_layout.h"

#include <errno.h>
#include <limits.h>

static enum assumption_state because(enum assumption_state state, struct text *reason, const char *why)
{
	text_append_cstr(reason, why);
	return state;
}

static enum assumption_state ok_or_failed(bool is_true, struct text *reason, const char *why_not)
{
	return is_true ? FACT_OK : because(FACT_FAILED, reason, why_not);
}

static enum assumption_state stands_on(const char *fact, struct text *reason)
{
	text_printf(reason, "it stands on %s", fact);
	return FACT_NOT_TRIED;
}

/* --- The way in */

enum assumption_state check_signal(struct text *reason)
{
	if (bell_is_ours())
		return FACT_OK;
	return because(FACT_NOT_APPLICABLE, reason, "the application has SIGURG; the VM is woken without it");
}

/* --- Frames */

static enum assumption_state calibrated(bool known, int code, const struct error *err, struct text *reason)
{
	if (known)
		return FACT_OK;
	return because(code == -EAGAIN ? FACT_NOT_TRIED : FACT_FAILED, reason, err->text);
}

enum assumption_state check_frame_identity(struct text *reason)
{
	struct error err;
	int code = frame_calibrate(FRAME_TARGETED, &err);

	return calibrated(frame_identity_known(FRAME_TARGETED), code, &err, reason);
}

enum assumption_state check_frame_endings(struct text *reason)
{
	struct error err;
	int code = frame_calibrate(FRAME_TARGETED, &err);

	return calibrated(frame_endings_known(FRAME_TARGETED), code, &err, reason);
}

enum assumption_state check_frame_direct(struct text *reason)
{
	if (!frame_endings_known(FRAME_TARGETED))
		return stands_on("frames.endings", reason);
	return ok_or_failed(frame_direct_is_known(), reason, "where these are was not found");
}

enum assumption_state check_silence(struct text *reason)
{
	return ok_or_failed(quiet_works(), reason, "where it does was not found");
}

enum assumption_state check_hook_list(struct text *reason)
{
	return ok_or_failed(foreign_hooks_known(), reason, "it was not found");
}

enum assumption_state check_event_flags(struct text *reason)
{
	const char *why = event_flags_unready();

	if (why && !event_flags_tried())
		return because(FACT_NOT_TRIED, reason, why);
	return ok_or_failed(!why, reason, why);
}

enum assumption_state check_frame_hook(struct text *reason)
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

static enum assumption_state check_patch(enum patch_fact fact, struct text *reason)
{
	const char *failed = patch_unready();

	if (!failed || fact < patch_fact_failed())
		return FACT_OK;
	if (fact == patch_fact_failed())
		return because(FACT_FAILED, reason, failed);
	return patch_fact_failed() == PATCH_FACTS ? because(FACT_NOT_TRIED, reason, failed) : stands_on("those before", reason);
}

#define PATCH_CHECK(name, fact)                                                                                                  \
	enum assumption_state name(struct text *reason)                                                                          \
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

enum assumption_state check_patch_names(struct text *reason)
{
	if (patch_unready())
		return stands_on("those before", reason);
	return ok_or_failed(patch_names_known, reason, "where it does was not found");
}

enum assumption_state check_patch_instructions(struct text *reason)
{
	char bytes[128];
	struct text unknown = {.bytes = bytes, .size = sizeof(bytes)};

	patch_unknown_instructions(&unknown);
	if (!unknown.used)
		return FACT_OK;
	text_append_cstr(reason, "it does not know ");
	text_append(reason, unknown.bytes, unknown.used);
	return FACT_FAILED;
}

enum assumption_state check_patch_compiler(struct text *reason)
{
	const char *why = patch_refused_by_compiler();

	return ok_or_failed(!why, reason, why);
}

/* --- Methods and threads */

enum assumption_state check_shared_methods(struct text *reason)
{
	if (compat_block_method_shares_hooks())
		return because(FACT_NOT_APPLICABLE, reason, "this Ruby takes several TracePoints for such a method");
	return ok_or_failed(method_definition_of(builtin_method(BUILTIN_MODULE_TO_S)) != 0, reason, "it was not found");
}

enum assumption_state check_code_events(struct text *reason)
{
	event_flags_look();
	if (!layout_is_known(LAYOUT_HOOK_FLAGS))
		return stands_on("hook.flags", reason);
	return ok_or_failed(oneshot_lines_find(), reason, "no word of lambdas told the events that they were compiled for");
}

enum assumption_state check_thread_context(struct text *reason)
{
	return ok_or_failed(thread_context(rb_thread_current()) != NULL, reason, "it was not found");
}

enum assumption_state check_thread_interrupts(struct text *reason)
{
	if (!interrupts_mask_is_decided())
		return because(FACT_NOT_TRIED, reason, "it could not be found out yet");
	return ok_or_failed(interrupts_mask_is_known(), reason, "no word of a context held back what was sent");
}

enum assumption_state check_thread_mutex(struct text *reason)
{
	return ok_or_failed(thread_mutex_known(), reason, "they were not found");
}

enum assumption_state check_thread_frames(struct text *reason)
{
	VALUE frame = Qnil;
	int line = 0;

	if (compat_labels_have_classes())
		return because(FACT_NOT_APPLICABLE, reason, "this Ruby names classes with its backtraces");
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

enum assumption_state check_heap_pages(struct text *reason)
{
	return ok_or_failed(compat_each_page(no_page, NULL), reason, "this Ruby does not export the function for it");
}

enum assumption_state check_heap_objspace(struct text *reason)
{
	char path[PATH_MAX];
	struct error err;

	return ok_or_failed(objspace_find(path, sizeof(path), &err) == 0, reason, err.text);
}

enum assumption_state check_handler_frames(struct text *reason)
{
	if (compat_may_look_in_handler())
		return FACT_OK;
	return because(FACT_NOT_APPLICABLE, reason, "this Ruby does not tell a handler who has the GVL");
}

enum assumption_state check_ticks(struct text *reason)
{
	if (ticks_are_tsc)
		return FACT_OK;
	return because(FACT_NOT_APPLICABLE, reason, "the kernel does not; each event takes its time from clock_gettime()");
}

bool check_frames_known(void)
{
	return frame_calibration_is_over(FRAME_TARGETED);
}

bool check_hook_frames_known(void)
{
	return frame_calibration_is_over(FRAME_GLOBAL);
}
