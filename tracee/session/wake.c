/*
 * Waking the VM without a signal of our own. See wake.h.
 *
 * A job alone wakes nobody (bell.c tells the same about SIGURG): the VM is woken by calling Ruby's own C signal handler, which
 * sigaction names for one of the signals that Ruby catches itself (INT, TERM, ...). It is called for a real-time signal that
 * nobody handles: what Ruby then does about the made-up signal is nothing, but its threads have looked for interrupts meanwhile.
 *
 * Once is not enough: the job goes to the last holder of the GVL, which may be asleep, and with busy Ractors it may run outside
 * of the main one. So a native thread asks again until the job has run (ringer.c), and wakes the main thread only where that does
 * not cut short what it waits in.
 */

#define _GNU_SOURCE
#include "tracee/session/wake.h"

#include "tracee/base/fork_gate.h"
#include "tracee/session/ringer.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <ruby.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREAD_STACK_SIZE (PTHREAD_STACK_MIN + 65536)
#define OWN_STACK_SIZE 131072
#define REAL_TIME_SIGNAL_MAX 63 /* Ruby's table of pending signals ends at 64 on some versions */
#define REAL_TIME_SIGNAL_MIN 35 /* the lower ones are libc's own; 34 is musl's */

static struct {
	void (*ruby_handler)(int);
	int unused_signal;
	void (*_Atomic handler_of_vm)(int); /* that was last seen to be one */
	_Atomic bool vm_is_over;
	void (*_Atomic trigger)(void);
} state;

static void *image_of(const void *address)
{
	Dl_info info;

	return dladdr(address, &info) ? info.dli_fbase : NULL;
}

/* Ruby's handler: one that lies where the rest of the VM does, whatever other extensions have installed. */
bool wake_find_handler(void)
{
	static const int caught_by_ruby[] = {SIGINT, SIGTERM, SIGUSR2, SIGUSR1, SIGHUP, SIGALRM, SIGQUIT};
	struct sigaction action;

	if (state.ruby_handler && state.unused_signal)
		return true;
	for (size_t i = 0; i < sizeof(caught_by_ruby) / sizeof(*caught_by_ruby) && !state.ruby_handler; i++)
		if (sigaction(caught_by_ruby[i], NULL, &action) == 0 && wake_is_handler_of_vm(action.sa_handler))
			state.ruby_handler = action.sa_handler;
	for (int number = REAL_TIME_SIGNAL_MAX; number >= REAL_TIME_SIGNAL_MIN && !state.unused_signal; number--)
		if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_DFL)
			state.unused_signal = number;
	return state.ruby_handler && state.unused_signal;
}

/* The loader is asked once about the same one: that takes its lock, and long, and a profile may ask at each tick. */
bool wake_is_handler_of_vm(void (*handler)(int))
{
	if (handler == SIG_DFL || handler == SIG_IGN)
		return false;
	if (handler == atomic_load(&state.handler_of_vm))
		return true;
	if (image_of((const void *)(uintptr_t)handler) != image_of((const void *)(uintptr_t)rb_define_method))
		return false;
	atomic_store(&state.handler_of_vm, handler);
	return true;
}

void wake_vm(void)
{
	int saved_errno = errno;

	if (state.ruby_handler && state.unused_signal)
		state.ruby_handler(state.unused_signal);
	errno = saved_errno;
}

void wake_trigger_by(void (*trigger)(void))
{
	atomic_store(&state.trigger, trigger);
}

void wake_trigger(void)
{
	void (*trigger)(void) = atomic_load(&state.trigger);

	if (trigger)
		trigger();
}

void wake_ring(void)
{
	if (atomic_load(&state.vm_is_over) || ringer_ring())
		return;
	wake_trigger();
	wake_vm();
}

void wake_stop(void)
{
	atomic_store(&state.vm_is_over, true);
	ringer_stop();
	ringer_await_quiet();
}

bool wake_is_over(void)
{
	return atomic_load(&state.vm_is_over);
}

/* --- Native threads of our own */

/*
 * Of the thread that every load makes: libc would keep a stack of its own making for later, and the process would not be as it
 * was. Another thread may have it when the kernel no longer knows the one before.
 */
static char own_stack[OWN_STACK_SIZE] __attribute__((aligned(4096)));
static _Atomic pid_t own_stack_user;

struct beginning {
	void *(*run)(void *);
	void *argument;
	bool on_own_stack;
};

static void *wake_thread_begin(void *data)
{
	struct beginning beginning = *(struct beginning *)data;

	fork_gate_thread_is_here();
	fork_gate_free(data);
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

bool wake_thread(void *(*run)(void *), void *argument)
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
	fork_gate_thread_is_coming();
	made = pthread_create(&thread, &attributes, wake_thread_begin, beginning) == 0;
	if (!made) {
		fork_gate_thread_is_here();
		free(beginning);
	}
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return made;
}

/* --- A ring that is due later */

struct later {
	unsigned seconds;
	void (*ring)(void);
};

static void *ring_later(void *argument)
{
	struct later later = *(struct later *)argument;

	fork_gate_free(argument);
	sleep(later.seconds);
	later.ring();
	return NULL;
}

void wake_ring_after(unsigned seconds, void (*ring)(void))
{
	struct later *later = malloc(sizeof(*later));

	if (!later)
		return;
	*later = (struct later){.seconds = seconds, .ring = ring};
	if (!wake_thread(ring_later, later))
		free(later);
}
