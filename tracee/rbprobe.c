/*
 * The extension's entry: `require "rbprobe"` makes a process attachable, and does nothing else. Context: Init, GVL held.
 */

#include "bell.h"
#include "compat.h"
#include "compiler_watch.h"
#include "copy.h"
#include "core.h"
#include "dispatch.h"
#include "evaluation.h"
#include "fiber.h"
#include "gc_stress.h"
#include "interrupts.h"
#include "observe.h"
#include "proto/names.h"
#include "queue.h"
#include "quiet.h"
#include "refinements.h"
#include "request.h"
#include "selection.h"
#include "session.h"
#include "startup.h"
#include "ticks.h"
#include "waiting.h"
#include "watch_modules.h"

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
	session_fork_child();
	copies_fork_child();
	dispatch_fork_child();
	selection_fork_child();
	gc_stress_fork_child();
	queue_init();
	bell_trigger();
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
	core_init();
	interrupts_init();
	gc_stress_off();
	*(bool *)stress_is_off = true;
	ticks_init();
	fiber_init(observe_fiber_died);
	selection_init();
	refinements_init();
	compiler_watch_init();
	watch_modules_init();
	evaluation_init();
	eval_init();
	queue_init();
	waiting_learn();
	if (bell_install(dispatch_job, at_exit_of_vm, &err) < 0)
		rb_raise(rb_eLoadError, "rbprobe: %s", err.text);
	pthread_atfork(NULL, NULL, at_fork_in_child);
	startup_done();
	return Qnil;
}

void Init_rbprobe(void)
{
	bool stress_is_off = false;
	struct quiet quiet;
	int failed = 0;

	if (!startup_begin())
		return;
	quiet_init();
	quiet = quiet_begin();
	rb_protect(init, (VALUE)&stress_is_off, &failed);
	if (stress_is_off)
		gc_stress_back();
	quiet_end(quiet);
	if (failed)
		rb_jump_tag(failed);
	wait_if_told();
}
