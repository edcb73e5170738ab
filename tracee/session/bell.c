/*
 * From SIGURG to the job.
 *
 * The VM runs a postponed job at its next safe point, but triggering one wakes nobody: with the main thread in sleep, join,
 * Queue#pop or a blocking read the job would wait for ever (3.3 and 4.0), or until the wait ends. Ruby's own signal handler does
 * wake it, through functions that are not exported. So the handler is borrowed: `trap` installs it for SIGURG, sigaction tells
 * its address, and the previous trap is put back. A trap block that runs would be simpler, but makes ConditionVariable#wait and
 * Mutex#sleep return early; a Ruby thread of ours would switch off the VM's deadlock detection, show in Thread.list and be gone
 * after fork.
 *
 * It is a native thread that is rung, and that wakes the main one where that may be (ringer.c). Our handler is for the signals
 * that come to other threads: from who does not find that thread, and as a question to one that is stuck (stuck.c). It passes
 * them on; without a ringer, it calls Ruby's.
 *
 * Contexts: signal handler (bell_handler and what it calls), job (the rest).
 */

#define _GNU_SOURCE
#include "tracee/session/bell.h"

#include "proto/bell.h"
#include "tracee/session/queue.h"
#include "tracee/session/ringer.h"
#include "tracee/session/stuck.h"
#include "tracee/session/wake.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/own.h"
#include "tracee/vm/own_work.h"

#include <errno.h>
#include <ruby.h>
#include <ruby/vm.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Global, because a signal handler has no argument to carry it. */
static struct {
	void (*job)(void);
	void (*at_end)(void), (*at_exit)(void);
	void (*ruby_handler)(int);
	struct sigaction before; /* SIG_DFL or SIG_IGN */
	VALUE last_word;
	bool in_job; /* GVL */
} bell;

/* Whether a person's tool sent it: not the kernel (out-of-band data), not our own timer or writer. */
static bool rung_from_outside(const siginfo_t *info)
{
	return (info->si_code == SI_USER || info->si_code == SI_TKILL) && info->si_pid != getpid();
}

static void bell_handler(int signal, siginfo_t *info, void *context)
{
	int saved_errno = errno;

	(void)context;
	if (rung_from_outside(info)) {
		queue_create();
		stuck_answer_if_asked(queue_own());
	} else if (info->si_code == SI_TIMER)
		queue_timer_rang();
	compat_job_trigger();
	if (!ringer_ring())
		bell.ruby_handler(signal);
	errno = saved_errno;
}

bool bell_is_ours(void)
{
	struct sigaction action;

	return sigaction(SIGURG, NULL, &action) == 0 && (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == bell_handler;
}

/* With busy Ractors the job can run off the main Ractor, where it may not touch the main one's objects: once more, then. */
static void do_job(void)
{
	bool in_other_job = bell.in_job; /* it lets other threads run, whose own come here meanwhile, and are over at once */

	if (!compat_in_main_ractor()) {
		if (ringer_ring())
			return;
		if (bell_is_ours())
			syscall(SYS_tgkill, getpid(), getpid(), SIGURG);
		else
			wake_ring();
		return;
	}
	ringer_job_begins();
	bell.in_job = true;
	bell.job();
	bell.in_job = in_other_job;
	/* A forked child has none: this is its first job. */
	ringer_renew();
}

static void job_run(void *unused)
{
	(void)unused;
	do_job();
	OWN_WORK_KEEP_FRAME();
}

bool bell_in_job(void)
{
	return bell.in_job;
}

/*
 * Of a command that is no String, Ruby asks whether it responds to `to_str`, as the application has that; a block's Proc it
 * takes as it is.
 */
static VALUE trap_set(VALUE command)
{
	VALUE arguments[] = {rb_str_new_cstr("URG"), command}, module = rb_const_get(rb_cObject, rb_intern("Signal"));

	if (RTEST(rb_obj_is_proc(command)))
		return builtin_call_with(BUILTIN_SIGNAL_TRAP, module, 1, arguments, command);
	return builtin_call(BUILTIN_SIGNAL_TRAP, module, 2, arguments);
}

/* Leaves Ruby's handler in bell.ruby_handler and the application's trap as it was. */
static VALUE borrow_handler(VALUE unused)
{
	struct sigaction action;
	VALUE previous;

	(void)unused;
	previous = trap_set(rb_str_new_cstr("nil")); /* code, of which nothing runs: it is replaced before the VM can */
	if (sigaction(SIGURG, NULL, &action) == 0)
		bell.ruby_handler = action.sa_handler;
	trap_set(NIL_P(previous) ? rb_str_new_cstr("SYSTEM_DEFAULT") : previous);
	return Qnil;
}

static void bell_silence(void)
{
	if (bell_is_ours())
		signal(SIGURG, SIG_IGN);
	wake_stop();
}

/*
 * The VM frees the main thread first, and then calls who asked by ruby_vm_at_exit(): a job that is triggered in between, by the
 * ringer or the signal, writes into a thread that is gone. Before that it frees all objects that have something to free.
 */
static void last_word_free(void *unused)
{
	(void)unused;
	bell_silence();
	bell.at_end();
}

static const rb_data_type_t last_word_type = {
	.wrap_struct_name = "rbprobe bell",
	.function = {.dfree = last_word_free},
};

static void at_vm_exit(ruby_vm_t *vm)
{
	(void)vm;
	bell_silence();
	bell.at_exit();
}

void bell_take(void)
{
	struct sigaction now, ours = {.sa_sigaction = bell_handler, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};

	ringer_start();
	sigemptyset(&ours.sa_mask);
	if (!bell.ruby_handler || sigaction(SIGURG, NULL, &now) != 0 || (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN))
		return;
	bell.before = now;
	sigaction(SIGURG, &ours, NULL);
}

bool bell_rest(void)
{
	if (!ringer_rest())
		return false;
	if (bell_is_ours())
		sigaction(SIGURG, &bell.before, NULL);
	return true;
}

int bell_install(void (*job)(void), void (*at_end)(void), void (*at_exit)(void), struct error *err)
{
	struct sigaction action;
	char message[ERROR_TEXT_SIZE / 2];
	int failed = 0;

	bell.job = job;
	bell.at_end = at_end;
	bell.at_exit = at_exit;
	compat_job_register(job_run);
	own_work_note((uintptr_t)job_run);
	own_work_note((uintptr_t)bell_handler);
	own_register(&bell.last_word);
	bell.last_word = TypedData_Wrap_Struct(rb_cObject, &last_word_type, &bell);
	ruby_vm_at_exit(at_vm_exit);
	/*
	 * Who catches SIGURG already needs it (Puma's fork_worker forks on it), and keeps it: what is sent to the ringer alone is
	 * never delivered there.
	 */
	if (sigaction(SIGURG, NULL, &action) == 0 && action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN) {
		ringer_start();
		return 0;
	}
	rb_protect(borrow_handler, Qnil, &failed);
	if (failed) {
		builtin_describe(rb_errinfo(), message, sizeof(message));
		exception_drop(Qnil);
		return error_set(err, -EPERM, "Signal.trap refused SIGURG: %s", message);
	}
	if (!bell.ruby_handler || bell.ruby_handler == SIG_DFL || bell.ruby_handler == SIG_IGN)
		return error_set(err, -ENOSYS, "this Ruby's signal handler was not found");
	bell_take();
	if (!bell_is_ours())
		return error_set(err, -EPERM, "sigaction refused SIGURG");
	return 0;
}

void bell_ring_self(void)
{
	if (ringer_ring())
		return;
	if (bell_is_ours())
		bell_ring(getpid(), -1, false);
	else
		wake_ring();
}

void bell_trigger(void)
{
	compat_job_trigger();
}
