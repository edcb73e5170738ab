/*
 * The extension's entry: `require "rbprobe"` makes a process attachable, and does nothing else. Context: Init, GVL held.
 */

#include "proto/names.h"
#include "tracee/api/api.h"
#include "tracee/base/fork_gate.h"
#include "tracee/base/job_due.h"
#include "tracee/base/ticks.h"
#include "tracee/dispatch.h"
#include "tracee/engine/arming.h"
#include "tracee/entry.h"
#include "tracee/eval/console.h"
#include "tracee/long_command.h"
#include "tracee/observe/callers.h"
#include "tracee/observe/marks.h"
#include "tracee/observe/measure.h"
#include "tracee/observe/observe.h"
#include "tracee/observe/overhead.h"
#include "tracee/requests/profile.h"
#include "tracee/requests/silent_fork.h"
#include "tracee/select/code_compiled.h"
#include "tracee/select/compiler_watch.h"
#include "tracee/select/module_changes.h"
#include "tracee/select/selection.h"
#include "tracee/session/bell.h"
#include "tracee/session/gc_hook.h"
#include "tracee/session/queue.h"
#include "tracee/session/request.h"
#include "tracee/session/session.h"
#include "tracee/session/waiting.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/evaluation.h"
#include "tracee/vm/fiber.h"
#include "tracee/vm/gc_stress.h"
#include "tracee/vm/interrupts.h"
#include "tracee/vm/native_id.h"
#include "tracee/vm/own_work.h"
#include "tracee/vm/quiet.h"
#include "tracee/vm/refinements.h"

#include <pthread.h>
#include <ruby.h>
#include <stdlib.h>
#include <unistd.h>

#define EXIT_TIMEOUT_MS 1000
#define EXEC_WAIT_MS 10000

RUBY_FUNC_EXPORTED void Init_rbprobe(void);

/* Only what is async-signal-safe: other threads' locks are in the state they had when the parent forked. */
static void at_fork_in_child(void)
{
	fork_gate_fork_child();
	session_fork_child();
	silent_forks_fork_child();
	own_work_fork_child();
	gc_hook_fork_child();
	profile_fork_child();
	dispatch_fork_child();
	arming_fork_child();
	gc_stress_fork_child();
	evaluation_fork_child();
	overhead_fork_child();
	timeline_fork_child();
	api_fork_child();
	queue_init();
	bell_trigger();
}

static void at_end_of_threads(void)
{
	timeline_exit(true);
}

static void at_exit_of_vm(void)
{
	session_exit(EXIT_TIMEOUT_MS);
	queue_remove();
}

/* `rbprobe exec` names the process it started: children of that one inherit the variable and must not wait. */
static void wait_if_told(void)
{
	const char *pid = getenv(EXEC_ENV);
	const char *wait_ms = getenv(EXEC_WAIT_ENV);

	if (pid && atoi(pid) == getpid())
		dispatch_wait_for_client(wait_ms ? (unsigned)atoi(wait_ms) : EXEC_WAIT_MS);
}

static VALUE init(VALUE stress_is_off)
{
	struct error err;

	compat_init();
	native_ids_learn();
	builtin_init();
	interrupts_init();
	gc_stress_off();
	*(bool *)stress_is_off = true;
	ticks_init();
	fiber_init(observe_fiber_died);
	selection_init();
	session_part_register(&long_command_part);
	session_part_register(&marks_part);
	session_part_register(&selection_part);
	session_part_register(&measure_part);
	session_part_register(&callers_part);
	session_part_register(&console_part);
	refinements_init();
	compiler_watch_init();
	code_compiled_init();
	module_changes_init();
	evaluation_init();
	eval_init();
	queue_init();
	waiting_learn();
	job_due_register(JOB_AT_ONCE, evaluation_overdue);
	job_due_register(JOB_AT_ONCE, requests_overdue);
	job_due_register(JOB_AT_ONCE, silent_forks_ended);
	job_due_register(JOB_EVENTUALLY, selection_look_is_due);
	job_due_register(JOB_EVENTUALLY, overhead_is_due);
	if (bell_install(dispatch_job, at_end_of_threads, at_exit_of_vm, &err) < 0)
		rb_raise(rb_eLoadError, "rbprobe: %s", err.text);
	pthread_atfork(fork_gate_close, fork_gate_open, at_fork_in_child);
	entry_done();
	return Qnil;
}

/* Where a client has loaded us, the application sees nothing of it. */
static void api_define_if_required(void)
{
	if (!entry_by_loader())
		api_define();
}

void Init_rbprobe(void)
{
	bool stress_is_off = false;
	struct quiet quiet;
	int failed = 0;

	if (!entry_begin()) {
		api_define_if_required();
		return;
	}
	quiet_init();
	quiet = quiet_begin();
	rb_protect(init, (VALUE)&stress_is_off, &failed);
	if (stress_is_off)
		gc_stress_back();
	quiet_end(quiet);
	if (failed)
		rb_jump_tag(failed);
	api_define_if_required();
	wait_if_told();
}
