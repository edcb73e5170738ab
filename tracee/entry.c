/*
 * From dlopen to Init. See entry.h.
 *
 * The loader (tracer/inject/load.c) has stopped the main thread anywhere, perhaps without the GVL, and calls rbprobe_start() on
 * its stack. So that function asks the VM for a job and leaves; the job, at a safe point and with the GVL, does what `require
 * "rbprobe"` does. wake.c says how the VM gets to it.
 *
 * There is no ELF constructor on purpose: where the extension is required, nothing here runs by itself. Contexts: any
 * (rbprobe_start, rbprobe_ring), job (start_job).
 */

#include "tracee/entry.h"

#include "proto/startup.h"
#include "tracee/dispatch.h"
#include "tracee/session/bell.h"
#include "tracee/session/queue.h"
#include "tracee/session/ringer.h"
#include "tracee/session/waiting.h"
#include "tracee/session/wake.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/interrupts.h"
#include "tracee/vm/quiet.h"
#include "tracee/vm/stack_room.h"

#include <errno.h>
#include <ruby.h>
#include <stdatomic.h>
#include <stdio.h>

__attribute__((visibility("default"))) struct startup rbprobe_startup;
RUBY_FUNC_EXPORTED int rbprobe_start(int make_queue);
RUBY_FUNC_EXPORTED int rbprobe_ring(void);

void Init_rbprobe(void);

static struct {
	_Atomic bool make_queue;
	_Atomic bool stays;
	bool by_loader; /* Init is run by start_job; GVL */
} state;

static uint32_t state_now(void)
{
	return __atomic_load_n(&rbprobe_startup.state, __ATOMIC_ACQUIRE);
}

static void state_set(enum startup_state now)
{
	wake_trigger_by(now == STARTUP_ASKED ? compat_start_trigger : bell_trigger);
	__atomic_store_n(&rbprobe_startup.state, (uint32_t)now, __ATOMIC_RELEASE);
}

int rbprobe_ring(void)
{
	int saved_errno = errno;

	queue_create();
	wake_ring();
	errno = saved_errno;
	return 0;
}

/* --- Init */

bool entry_begin(void)
{
	wake_find_handler();
	if (!state.by_loader)
		atomic_store(&state.stays, true);
	if (state_now() != STARTUP_DONE)
		return true;
	bell_take();
	return false;
}

bool entry_by_loader(void)
{
	return state.by_loader;
}

bool entry_stays(void)
{
	return atomic_load(&state.stays);
}

void entry_done(void)
{
	state_set(STARTUP_DONE);
}

static VALUE initialise(VALUE unused)
{
	(void)unused;
	Init_rbprobe();
	return Qnil;
}

static void fail(const char *why)
{
	snprintf(rbprobe_startup.text, sizeof(rbprobe_startup.text), "%s", why);
	ringer_stop();
	state_set(STARTUP_FAILED);
}

/* What Init itself raises is a failure; what others send to the thread meanwhile is not for us. */
static VALUE initialise_protected(VALUE unused)
{
	char message[sizeof(rbprobe_startup.text)];
	int failed = 0;

	(void)unused;
	rb_protect(initialise, Qnil, &failed);
	if (failed)
		fail(builtin_describe(rb_errinfo(), message, sizeof(message)));
	exception_drop(Qnil);
	return Qnil;
}

static void start(void)
{
	VALUE error = rb_errinfo();
	const char *missing;

	/* Init lets other threads run, and one of them may come by here as well. The ringer asks again. */
	if (state_now() != STARTUP_ASKED || state.by_loader || !compat_starts_in_main_ractor())
		return;
	/* Deep in a recursion: the ringer asks again. */
	if (!stack_room_is_enough())
		return;
	builtin_begin();
	interrupts_init();
	missing = interrupts_missing();
	/* In a deeper one, or without memory. */
	if (missing == builtin_lack_text)
		return;
	if (missing) {
		fail(missing);
		return;
	}
	if (interrupts_go_first())
		return;
	state.by_loader = true;
	interrupts_job(initialise_protected, Qnil);
	state.by_loader = false;
	exception_drop(error);
	if (state_now() == STARTUP_DONE && atomic_load(&state.make_queue)) {
		/*
		 * In this order: the job removes what a dead process of our PID may have left, and sees to it that ours goes if
		 * nobody comes.
		 */
		dispatch_job();
		queue_create();
		bell_take();
	}
}

/* What is called here is no call of the application's. */
static void start_job(void *unused)
{
	struct quiet quiet;
	uint64_t began_ns;

	(void)unused;
	/* Too early for anything of ours; the ringer asks again. */
	if (!compat_vm_is_ready())
		return;
	began_ns = ringer_attempt_begins();
	quiet_init();
	quiet = quiet_begin();
	start();
	quiet_end(quiet);
	ringer_attempt_ends(began_ns, state_now() == STARTUP_DONE);
}

int rbprobe_start(int make_queue)
{
	atomic_store(make_queue ? &state.make_queue : &state.stays, true);
	if (state_now() == STARTUP_DONE) {
		if (make_queue)
			queue_create();
		bell_take(); /* behind that: what has a queue is in use */
		wake_ring();
		return 0;
	}
	if (!wake_find_handler())
		return -ENOENT;
	compat_start_register(start_job);
	waiting_note_start();
	state_set(STARTUP_ASKED);
	compat_start_trigger();
	/* One that an earlier client has started may have stopped asking. */
	ringer_ring();
	ringer_start();
	return 0;
}
