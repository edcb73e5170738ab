/*
 * Evaluations in the main thread. See eval.h.
 *
 * What Ruby runs there, whatever the main thread waits for, is a trap. (A job would be run by any thread, would keep others away,
 * and an exception in it would leave the main thread's state such that its sleep ends.) So a signal that nobody uses is trapped
 * for as long as it takes, and raised once. The code is under the limits of a trap: it cannot lock a Mutex. Jobs run in it, so
 * that it can be cancelled, and others can attach.
 *
 * Interrupts that others send to the main thread are the application's: they are held back until the code is over. So are those
 * of Timeout in the code itself, which cannot be told apart. Ours are let in, and have all been taken before we return.
 *
 * Context: job (start, stop), and the trap; GVL held.
 */

#define _GNU_SOURCE
#include "tracee/eval/eval.h"

#include "tracee/session/debug.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/interrupts.h"
#include "tracee/vm/quiet.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/* By default they end the process: nobody sends them without somebody listening. */
static const struct {
	int number;
	const char *name;
} signals[] = {{SIGPWR, "PWR"}, {SIGXFSZ, "XFSZ"}, {SIGXCPU, "XCPU"}, {SIGPOLL, "IO"}};

#define SIGNALS (sizeof(signals) / sizeof(*signals))

static struct {
	const char *trapped; /* name of the signal that is ours at the moment; NULL: none */
	pid_t pid;           /* in this process: a forked child has inherited the trap */
	bool busy;           /* the trap runs code */
} mains;

static VALUE set_trap(const char *name, VALUE command)
{
	VALUE arguments[] = {rb_str_new_cstr(name), command};

	return builtin_call(BUILTIN_SIGNAL_TRAP, rb_const_get(rb_cObject, rb_intern("Signal")), 2, arguments);
}

static VALUE untrap(VALUE unused)
{
	const char *name = mains.trapped;

	(void)unused;
	mains.trapped = NULL;
	set_trap(name, rb_str_new_cstr("SYSTEM_DEFAULT"));
	return Qnil;
}

void eval_main_stop(void)
{
	if (mains.trapped && !mains.busy && !eval_waiting_for_main())
		eval_try(untrap, Qnil);
}

static VALUE take_interrupt(VALUE unused)
{
	struct timeval pause = {.tv_usec = 1000};

	(void)unused;
	rb_thread_wait_for(pause);
	return Qnil;
}

static VALUE run_deferring(VALUE argument)
{
	struct eval *eval = (struct eval *)argument;

	eval_output_begin();
	debug(eval->request->session, DEBUG_EVAL, "evaluation %llu: the main thread runs it, in a trap of SIG%s",
	      (unsigned long long)eval->serial, mains.trapped ? mains.trapped : "?");
	eval_run(eval);
	/*
	 * Nobody sends one from now on; those that are on their way must not reach the application. (Thread#pending_interrupt?
	 * with a class would tell, but crashes where there are others: it takes exceptions for classes, seen on 3.1.)
	 */
	while (eval->interrupted && !eval_try(take_interrupt, Qnil))
		;
	eval_output_end();
	eval_finish(eval);
	return Qnil;
}

/* What has been held back for the application is raised behind each, and leaves the trap. */
static VALUE run_all(VALUE unused)
{
	struct eval *eval;

	(void)unused;
	while ((eval = eval_waiting_for_main())) {
		eval->thread = rb_thread_current();
		interrupts_deferred(run_deferring, (VALUE)eval, eval_exception_class());
	}
	return Qnil;
}

static VALUE leave_trap(VALUE quiet)
{
	mains.busy = false;
	eval_main_stop();
	quiet_end(*(struct quiet *)quiet);
	return Qnil;
}

static VALUE on_signal(RB_BLOCK_CALL_FUNC_ARGLIST(signal, unused))
{
	struct quiet quiet;

	(void)unused;
	(void)argc;
	(void)argv;
	(void)blockarg;
	if (mains.busy)
		return signal;
	mains.busy = true;
	quiet = quiet_begin();
	return rb_ensure(run_all, Qnil, leave_trap, (VALUE)&quiet);
}

static bool is_free(int number)
{
	struct sigaction action;

	return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_DFL;
}

static VALUE trap_a_free_one(VALUE number)
{
	for (size_t i = 0; i < SIGNALS; i++)
		if (is_free(signals[i].number)) {
			set_trap(signals[i].name, rb_proc_new(on_signal, Qnil));
			mains.trapped = signals[i].name;
			*(int *)number = signals[i].number;
			return Qnil;
		}
	return Qnil;
}

bool eval_main_start(struct eval *eval)
{
	static int number;

	if (mains.pid != eval->pid) {
		mains.pid = eval->pid;
		mains.busy = false;
		if (mains.trapped)
			eval_try(untrap, Qnil);
	}
	if (!mains.trapped && (!eval_try(trap_a_free_one, (VALUE)&number) || !mains.trapped))
		return false;
	/* To this thread: the handler has run when this returns, so no signal is under way when the trap is gone. */
	return syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number) == 0;
}
