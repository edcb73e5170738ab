/*
 * The table of what is taken for true of the VM. See vm_assumptions.h. Context: job.
 *
 * The versions are those on which the check was seen to come out well; tests/live/selftest_test.rb holds them against the Ruby it
 * runs on.
 */

#include "tracee/selftest/vm_assumptions.h"

#include "tracee/engine/patch.h"
#include "tracee/selftest/assumption_checks.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/event_flags.h"
#include "tracee/vm/exception_drop.h"

#include <ruby.h>

#define ALL "2.7 3.1 3.2 3.3 3.4 4.0 4.1"
#define WITHOUT_PATCH "engine patch is refused: hook takes its place"

const struct assumption facts[] = {
	{
		.name = "signal.handler",
		.what = "Ruby's own signal handler, behind ours, wakes the VM for requests",
		.without = "a process that sleeps answers late or never",
		.seen = ALL,
		.check = check_signal,
	},
	{
		.name = "frames.identity",
		.what = "An event of a Ruby method holds its frame, and frames have one size",
		.without = "ends of calls are matched by method, and engine patch is refused: hook takes its place",
		.seen = ALL,
		.check = check_frame_identity,
		.is_known = check_frames_known,
	},
	{
		.name = "frames.endings",
		.what = "The place in the VM that an event comes from, and a variable there, tell how a method ended",
		.without = "how a call ended is told only where it gave a value",
		.seen = ALL,
		.check = check_frame_endings,
		.is_known = check_frames_known,
	},
	{
		.name = "frames.direct",
		.what = "Which method and fiber an event is about stands where frames and method entries have it",
		.without = "the VM is asked at each event of engine target, which takes half as long again",
		.seen = ALL,
		.check = check_frame_direct,
		.is_known = check_frames_known,
	},
	{
		.name = "hook.silence",
		.what = "While a hook runs the VM notes it in the fiber's context, and fires no other event there",
		.without = "TracePoints of the application's own see what rbprobe calls",
		.seen = ALL,
		.check = check_silence,
	},
	{
		.name = "hook.list",
		.what = "Global hooks are in one list, a new one in front",
		.without = "TracePoints of the application's own that are on hear of rbprobe's trial runs of methods",
		.seen = ALL,
		.check = check_hook_list,
	},
	{
		.name = "hook.flags",
		.what = "A word of libruby has the events that a hook was ever on for, and for those the VM rewrites no "
			"instructions",
		.without = "engine hook leaves the process slower until it restarts, and needs --yes",
		.seen = ALL,
		.check = check_event_flags,
		.is_known = event_flags_tried,
	},
	{
		.name = "hook.frames",
		.what = "What holds of frames holds for events of all calls, too, and for methods written in C",
		.without = "with engine hook how a call ended is told only where it gave a value",
		.seen = ALL,
		.check = check_frame_hook,
		.is_known = check_hook_frames_known,
	},
	{
		.name = "patch.trial",
		.what = "Scratch methods can be defined and called",
		.without = WITHOUT_PATCH,
		.seen = ALL,
		.check = check_patch_trial,
		.is_known = patch_tried,
	},
	{
		.name = "patch.stubs",
		.what = "There are stubs for this kind of processor",
		.without = WITHOUT_PATCH,
		.seen = ALL " on x86-64, 3.1 on aarch64",
		.check = check_patch_stubs,
		.is_known = patch_tried,
	},
	{
		.name = "patch.layout",
		.what = "A method object leads to its C function, which has a place and an arity in the method's definition; the "
			"definition tells a C function from other kinds of method",
		.without = WITHOUT_PATCH,
		.seen = ALL,
		.check = check_patch_layout,
		.is_known = patch_tried,
	},
	{
		.name = "patch.frames",
		.what = "A fiber's innermost frame can be found",
		.without = WITHOUT_PATCH,
		.seen = ALL,
		.check = check_patch_frames,
		.is_known = patch_tried,
	},
	{
		.name = "patch.calls",
		.what = "A function that is put in a method's place is called instead, with all arguments, in a frame that names "
			"the method",
		.without = WITHOUT_PATCH,
		.seen = ALL,
		.check = check_patch_calls,
		.is_known = patch_tried,
	},
	{
		.name = "patch.endings",
		.what = "A break, a return and a throw that leave a C method are told apart, and what a break gives",
		.without = WITHOUT_PATCH,
		.seen = ALL,
		.check = check_patch_endings,
		.is_known = patch_tried,
	},
	{
		.name = "patch.restores",
		.what = "The function is called as before once it is back",
		.without = WITHOUT_PATCH,
		.seen = ALL,
		.check = check_patch_restores,
		.is_known = patch_tried,
	},
	{
		.name = "patch.names",
		.what = "A C method's frame has its name and owner at fixed places",
		.without = "the VM is asked at each call that engine patch sees, which takes longer",
		.seen = ALL,
		.check = check_patch_names,
		.is_known = patch_tried,
	},
	{
		.name = "patch.instructions",
		.what = "The VM's instructions that stand for calls are those that rbprobe knows",
		.without = "engine patch may arm a method that the VM does not call, and not see it",
		.seen = ALL,
		.check = check_patch_instructions,
	},
	{
		.name = "patch.compiler",
		.what = "No compiler is at work but YJIT, which is told when a function is replaced",
		.without = WITHOUT_PATCH,
		.seen = ALL,
		.check = check_patch_compiler,
	},
	{
		.name = "methods.shared",
		.what = "Methods made of one block by define_method lead to one definition",
		.without = "engine target refuses methods made by define_method: hook takes its place",
		.seen = "2.7 3.1",
		.check = check_shared_methods,
	},
	{
		.name = "events.attributes",
		.what = "Calls of attr_* methods give events, or on 2.7 do not",
		.without = "attr_* methods are refused, or armed and never seen",
		.seen = ALL,
		.check = check_attribute_events,
	},
	{
		.name = "events.operators",
		.what = "Instructions that stand for calls, such as Integer#+, give events, or on 2.7 and 3.0 do not",
		.without = "such methods are refused, or armed and never seen",
		.seen = ALL,
		.check = check_instruction_events,
	},
	{
		.name = "events.defaults",
		.what = "When a method made by define_method begins, its default arguments are there, or on 2.7 are not",
		.without = "default arguments of such methods are shown wrong, or not shown",
		.seen = ALL,
		.check = check_block_method_defaults,
	},
	{
		.name = "code.events",
		.what = "Code has a word with the events that it was written for",
		.without = "beside Coverage of oneshot lines only the first call of a method is seen, with a warning",
		.seen = ALL,
		.check = check_code_events,
	},
	{
		.name = "threads.context",
		.what = "A thread leads to its execution context, and that back to it",
		.without = "backtraces do not tell who holds the Mutex that a thread waits for",
		.seen = ALL,
		.check = check_thread_context,
	},
	{
		.name = "threads.interrupts",
		.what = "A context has a mask of interrupts that are not looked at",
		.without = "of several that are sent to a thread at once one may be lost, or come before another",
		.seen = ALL,
		.check = check_thread_interrupts,
	},
	{
		.name = "threads.mutex",
		.what = "A thread leads to the Mutex that it waits for, and that to who holds it",
		.without = "backtraces do not tell who holds the Mutex that a thread waits for",
		.seen = ALL,
		.check = check_thread_mutex,
	},
	{
		.name = "threads.frames",
		.what = "The frames of a thread other than the running one can be read",
		.without = "backtraces show methods without their classes",
		.seen = "2.7 3.1 3.2 3.3",
		.check = check_thread_frames,
	},
	{
		.name = "threads.handler",
		.what = "A signal handler can tell whether its thread has the GVL",
		.without = "of a process whose VM is stuck that may not be traced, nothing is shown",
		.seen = "3.1 3.2 3.3 3.4 4.0 4.1",
		.check = check_handler_frames,
	},
	{
		.name = "heap.pages",
		.what = "The heap can be walked over, page by page",
		.without = "memory does not count objects",
		.seen = ALL,
		.check = check_heap_pages,
	},
	{
		.name = "heap.objspace",
		.what = "Ruby's objspace library is where Ruby looks for it",
		.without = "heap dump is refused",
		.seen = ALL,
		.check = check_heap_objspace,
	},
	{
		.name = "clock.tsc",
		.what = "The kernel keeps time by the processor's time stamp counter",
		.without = "events are timed by clock_gettime()",
		.seen = ALL,
		.check = check_ticks,
	},
};

const size_t assumptions_count = sizeof(facts) / sizeof(facts[0]);

const char *assumption_state_name(enum assumption_state state)
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
	const struct assumption *fact;
	struct text *reason;
	enum assumption_state state;
};

static VALUE try_protected(VALUE argument)
{
	struct trying *trying = (struct trying *)argument;

	trying->state = trying->fact->check(trying->reason);
	return Qnil;
}

enum assumption_state assumption_try(const struct assumption *fact, struct text *reason)
{
	struct trying trying = {.fact = fact, .reason = reason};
	int failed = 0;

	rb_protect(try_protected, (VALUE)&trying, &failed);
	if (failed) {
		VALUE error = rb_errinfo();
		char message[512];

		exception_drop(Qnil);
		text_printf(reason, "finding it out raised: %s", builtin_describe(error, message, sizeof(message)));
		return FACT_FAILED;
	}
	return trying.state;
}

void assumptions_failed(struct text *names)
{
	for (size_t i = 0; i < assumptions_count; i++) {
		char bytes[64];
		struct text reason = {.bytes = bytes, .size = sizeof(bytes)};

		if (facts[i].is_known && facts[i].is_known() && assumption_try(&facts[i], &reason) == FACT_FAILED)
			text_printf(names, "%s%s", names->used ? ", " : "", facts[i].name);
	}
}
