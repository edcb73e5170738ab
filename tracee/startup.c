/*
 * From dlopen to Init, and the bell without a signal.
 *
 * The loader (tracer/visit.c) has stopped the main thread anywhere, perhaps without the GVL, and calls rbprobe_start() on its stack. So that function
 * asks the VM for a job and leaves; the job, at a safe point and with the GVL, does what `require "rbprobe"` does. A job alone wakes nobody (bell.c tells
 * the same about SIGURG): the VM is woken by calling Ruby's own C signal handler, which sigaction tells us for one of the signals that Ruby
 * catches itself (INT, TERM, ...). It is called for a real-time signal that nobody handles: what Ruby then does about the made-up signal is nothing, but
 * its threads have looked for interrupts meanwhile.
 *
 * Once is not enough: the job goes to the last holder of the GVL, which may be asleep, and with busy Ractors it may run outside of the main one. So a native
 * thread asks again until the job has run (ringer.c), and wakes the main thread only where that does not cut short what it waits in.
 *
 * There is no ELF constructor on purpose: where the extension is required, nothing here runs by itself.
 * Contexts: any (rbprobe_start, rbprobe_ring, startup_ring), job (start_job).
 */

#define _GNU_SOURCE
#include "startup.h"

#include "bell.h"
#include "compat.h"
#include "core.h"
#include "dispatch.h"
#include "interrupts.h"
#include "proto/startup.h"
#include "queue.h"
#include "quiet.h"
#include "ringer.h"
#include "waiting.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <ruby.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREAD_STACK_SIZE (PTHREAD_STACK_MIN + 65536)
#define OWN_STACK_SIZE 131072
#define REAL_TIME_SIGNAL_MAX 63 /* Ruby's table of pending signals ends at 64 on some versions */
#define REAL_TIME_SIGNAL_MIN 34 /* the lower ones are libc's own */

__attribute__((visibility("default"))) struct startup rbprobe_startup;
RUBY_FUNC_EXPORTED int rbprobe_start(int make_queue);
RUBY_FUNC_EXPORTED int rbprobe_ring(void);

void Init_rbprobe(void);

static struct {
	void (*ruby_handler)(int);
	int unused_signal;
	_Atomic bool make_queue;
	_Atomic bool vm_is_over;
	_Atomic bool stays;
	bool by_loader; /* Init is run by start_job; GVL */
} state;

static uint32_t state_now(void)
{
	return __atomic_load_n(&rbprobe_startup.state, __ATOMIC_ACQUIRE);
}

static void state_set(enum startup_state now)
{
	__atomic_store_n(&rbprobe_startup.state, (uint32_t)now, __ATOMIC_RELEASE);
}

/* --- Waking the VM */

static void *image_of(const void *address)
{
	Dl_info info;

	return dladdr(address, &info) ? info.dli_fbase : NULL;
}

/* Ruby's handler: one that lies where the rest of the VM does, whatever other extensions have installed. */
static bool handler_find(void)
{
	static const int caught_by_ruby[] = {SIGINT, SIGTERM, SIGUSR2, SIGUSR1, SIGHUP, SIGALRM, SIGQUIT};
	struct sigaction action;

	if (state.ruby_handler && state.unused_signal)
		return true;
	for (size_t i = 0; i < sizeof(caught_by_ruby) / sizeof(*caught_by_ruby) && !state.ruby_handler; i++)
		if (sigaction(caught_by_ruby[i], NULL, &action) == 0 && startup_is_of_vm(action.sa_handler))
			state.ruby_handler = action.sa_handler;
	for (int number = REAL_TIME_SIGNAL_MAX; number >= REAL_TIME_SIGNAL_MIN && !state.unused_signal; number--)
		if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_DFL)
			state.unused_signal = number;
	return state.ruby_handler && state.unused_signal;
}

bool startup_is_of_vm(void (*handler)(int))
{
	return handler != SIG_DFL && handler != SIG_IGN &&
	       image_of((const void *)(uintptr_t)handler) == image_of((const void *)(uintptr_t)rb_define_method);
}

void startup_wake(void)
{
	int saved_errno = errno;

	if (state.ruby_handler && state.unused_signal)
		state.ruby_handler(state.unused_signal);
	errno = saved_errno;
}

void startup_trigger(void)
{
	if (state_now() == STARTUP_ASKED)
		compat_start_trigger();
	else
		bell_trigger();
}

void startup_ring(void)
{
	if (atomic_load(&state.vm_is_over) || ringer_ring())
		return;
	startup_trigger();
	startup_wake();
}

void startup_stop(void)
{
	atomic_store(&state.vm_is_over, true);
	ringer_stop();
	ringer_await_quiet();
}

bool startup_is_over(void)
{
	return atomic_load(&state.vm_is_over);
}

int rbprobe_ring(void)
{
	int saved_errno = errno;

	queue_create();
	startup_ring();
	errno = saved_errno;
	return 0;
}

/* --- Init */

bool startup_begin(void)
{
	handler_find();
	if (!state.by_loader)
		atomic_store(&state.stays, true);
	if (state_now() != STARTUP_DONE)
		return true;
	bell_take();
	return false;
}

bool startup_stays(void)
{
	return atomic_load(&state.stays);
}

void startup_done(void)
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
		fail(core_describe(rb_errinfo(), message, sizeof(message)));
	rb_set_errinfo(Qnil);
	return Qnil;
}

static void start(void)
{
	VALUE error = rb_errinfo();
	const char *missing;

	/* Init lets other threads run, and one of them may come by here as well. The ringer asks again. */
	if (state_now() != STARTUP_ASKED || state.by_loader || !compat_starts_in_main_ractor())
		return;
	core_begin();
	interrupts_init();
	missing = interrupts_missing();
	if (missing) {
		fail(missing);
		return;
	}
	if (interrupts_go_first())
		return;
	state.by_loader = true;
	interrupts_job(initialise_protected, Qnil);
	state.by_loader = false;
	rb_set_errinfo(error);
	if (state_now() == STARTUP_DONE && atomic_load(&state.make_queue)) {
		/* In this order: the job removes what a dead process of our PID may have left, and sees to it that ours goes if nobody comes. */
		dispatch_job();
		queue_create();
		bell_take();
	}
}

/* What is called here is no call of the application's. */
static void start_job(void *unused)
{
	struct quiet quiet;

	(void)unused;
	quiet_init();
	quiet = quiet_begin();
	start();
	quiet_end(quiet);
}

/* --- Threads, and asking for the job */

/*
 * Of the thread that every load makes: libc would keep a stack of its own making for later, and the process would not be as it was. Another thread may have it
 * when the kernel no longer knows the one before.
 */
static char own_stack[OWN_STACK_SIZE] __attribute__((aligned(4096)));
static _Atomic pid_t own_stack_user;

struct beginning {
	void *(*run)(void *);
	void *argument;
	bool on_own_stack;
};

static void *begin(void *data)
{
	struct beginning beginning = *(struct beginning *)data;

	free(data);
	if (beginning.on_own_stack)
		atomic_store(&own_stack_user, (pid_t)syscall(SYS_gettid));
	return beginning.run(beginning.argument);
}

static bool own_stack_take(void)
{
	static pid_t taken_in; /* the process: its child has the memory, and not the thread */
	pid_t user = atomic_load(&own_stack_user);

	if (taken_in == getpid() && (user == 0 || syscall(SYS_tgkill, getpid(), user, 0) == 0))
		return false;
	taken_in = getpid();
	atomic_store(&own_stack_user, 0);
	return true;
}

bool startup_thread(void *(*run)(void *), void *argument)
{
	struct beginning *beginning = malloc(sizeof(*beginning));
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	bool made;

	if (!beginning)
		return false;
	*beginning = (struct beginning){run, argument, own_stack_take()};
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* the application's signals are for its own threads */
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	if (!beginning->on_own_stack || pthread_attr_setstack(&attributes, own_stack, sizeof(own_stack)) != 0) {
		beginning->on_own_stack = false;
		pthread_attr_setstacksize(&attributes, THREAD_STACK_SIZE);
	}
	made = pthread_create(&thread, &attributes, begin, beginning) == 0;
	if (!made)
		free(beginning);
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return made;
}

int rbprobe_start(int make_queue)
{
	atomic_store(make_queue ? &state.make_queue : &state.stays, true);
	if (state_now() == STARTUP_DONE) {
		if (make_queue)
			queue_create();
		bell_take(); /* behind that: what has a queue is in use */
		startup_ring();
		return 0;
	}
	if (!handler_find())
		return -ENOENT;
	compat_start_register(start_job);
	waiting_note_start();
	state_set(STARTUP_ASKED);
	compat_start_trigger();
	ringer_start();
	return 0;
}

/* --- A ring that is due later */

struct later {
	unsigned seconds;
	void (*ring)(void);
};

static void *ring_later(void *argument)
{
	struct later later = *(struct later *)argument;

	free(argument);
	sleep(later.seconds);
	later.ring();
	return NULL;
}

void startup_ring_after(unsigned seconds, void (*ring)(void))
{
	struct later *later = malloc(sizeof(*later));

	if (!later)
		return;
	*later = (struct later){.seconds = seconds, .ring = ring};
	if (!startup_thread(ring_later, later))
		free(later);
}
