/*
 * Ringing without a signal to any thread of the application. See ringer.h.
 *
 * A signal ends what a thread waits in: epoll_wait, poll, nanosleep, semop and others fail with EINTR whatever SA_RESTART says,
 * and so would any other by the SIGVTALRM by which the VM wakes its threads. So SIGURG is for this thread alone, which waits for
 * it with sigwaitinfo: clients send it by its number (proto/bell.c), and so do our own timer and writers. It then asks the VM for
 * a job, and looks whether the main thread has to be woken for that and may be (waiting.h). Where it may not, it waits: the job
 * is taken by whatever Ruby thread runs next, or by the main thread when its call returns.
 *
 * Asking once is not enough: a job lands with the thread that had the GVL last, which may be asleep; having been woken the main
 * thread is that one, and takes the next. So it asks again, in growing intervals, until a job has begun.
 *
 * The signal's value tells the client's wish that the main thread be woken whatever it is in (--interrupt).
 *
 * From 3.3 on the VM's own timer thread wakes the main one, by what Ruby's signal handler does, and only while that is in the
 * call. Before, the handler starts a timer whose signal may come when the thread has gone on to something else; so there the
 * thread is sent the VM's signal directly.
 *
 * Context: its own native thread; ringer_ring: any.
 */

#define _GNU_SOURCE
#include "tracee/session/ringer.h"

#include "proto/bell.h"
#include "proto/clock.h"
#include "tracee/session/queue.h"
#include "tracee/session/waiting.h"
#include "tracee/session/wake.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/gvl_events.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_MIN_NS (200 * NS_PER_US)
#define PAUSE_MAX_NS (50 * NS_PER_MS)
#define ASK_NS (30 * NS_PER_S) /* for so long where there is no queue, which is as long as somebody wants something */
#define MINUTE 60
#define QUIET_MS_MAX 100
#define ATTEMPT_MAX_NS (2 * NS_PER_S)
#define HELD_MAX_NS (2 * NS_PER_S)              /* C code hardly has the GVL for longer; */
#define HELD_BY_OTHERS_MAX_NS (200 * NS_PER_MS) /* and where it may be another Ractor's */
#define ATTEMPT_SHARE 10                        /* the process gets as many times the CPU time that an attempt took */

static struct {
	_Atomic pid_t process; /* in which it runs: a forked child has none */
	_Atomic pid_t thread;
	atomic_bool wanted;
	atomic_bool busy;     /* with the VM, which must not go down meanwhile; */
	atomic_uint pushes;   /* likewise: so many are in ringer_push() */
	atomic_bool creating; /* perhaps, a queue */
	atomic_uint jobs;
	_Atomic uint64_t not_before_ns; /* nothing is asked of the VM */
	atomic_bool alone;              /* the main Ractor is, as a job has seen */
} ringer;

/* What there is to ring for. */
struct cause {
	bool any, forced;
	unsigned jobs; /* that had begun before */
	uint64_t since_ns, pause_ns;
};

static void send(pid_t thread, int signal)
{
	syscall(SYS_tgkill, getpid(), thread, signal);
}

bool ringer_may_wake(uint64_t since_ns)
{
	uint64_t most_ns = atomic_load(&ringer.alone) ? HELD_MAX_NS : HELD_BY_OTHERS_MAX_NS;

	return clock_now_ns() - since_ns >= most_ns || !gvl_is_held();
}

void ringer_note_ractors(bool main_alone)
{
	atomic_store(&ringer.alone, main_alone);
}

static bool wake(bool forced)
{
	enum waiting where = waiting_where();
	struct sigaction action;

	if (!forced && (where == WAITING_NOT || where == WAITING_ALONE))
		return false;
	if (compat_timer_thread_wakes() || where == WAITING_WAKE_LOCK || sigaction(SIGVTALRM, NULL, &action) != 0 ||
	    !wake_is_handler_of_vm(action.sa_handler))
		wake_vm();
	else if (!forced)
		send(getpid(), SIGVTALRM);
	if (forced)
		send(getpid(), SIGVTALRM);
	return true;
}

static void push(struct cause *cause)
{
	atomic_store(&ringer.busy, true);
	if (!wake_is_over() && clock_now_ns() >= atomic_load(&ringer.not_before_ns)) {
		wake_trigger();
		if (cause->forced || ringer_may_wake(cause->since_ns))
			wake(cause->forced);
	}
	atomic_store(&ringer.busy, false);
	cause->forced = false; /* once a ring */
	if ((cause->pause_ns *= 2) > PAUSE_MAX_NS)
		cause->pause_ns = PAUSE_MAX_NS;
}

bool ringer_push(void (*trigger)(void), bool wakes)
{
	bool woken = false;

	atomic_fetch_add(&ringer.pushes, 1);
	if (!wake_is_over()) {
		trigger();
		woken = wakes && wake(false);
	}
	atomic_fetch_sub(&ringer.pushes, 1);
	return woken;
}

static bool is_over(const struct cause *cause)
{
	return atomic_load(&ringer.jobs) != cause->jobs || wake_is_over() ||
	       (clock_now_ns() - cause->since_ns > ASK_NS && !queue_exists());
}

/* One that has been told to end makes none: nobody would take it away. */
static void create_queue(void)
{
	atomic_store(&ringer.creating, true);
	if (atomic_load(&ringer.wanted))
		queue_create();
	atomic_store(&ringer.creating, false);
}

static void take(struct cause *cause, const siginfo_t *info)
{
	if (info->si_code == SI_TIMER)
		queue_timer_rang();
	else if (info->si_code == SI_QUEUE || info->si_pid != getpid())
		create_queue();
	*cause = (struct cause){.any = true,
	                        .forced = info->si_code == SI_QUEUE && info->si_value.sival_int == BELL_INTERRUPT,
	                        .jobs = atomic_load(&ringer.jobs),
	                        .since_ns = clock_now_ns(),
	                        .pause_ns = PAUSE_MIN_NS};
}

/* Whether it is to go on: having been told to end, it may be wanted again. */
static bool stays(void)
{
	pid_t none = 0;

	if (atomic_load(&ringer.wanted))
		return true;
	atomic_store(&ringer.thread, 0);
	atomic_store(&ringer.process, 0);
	if (!atomic_load(&ringer.wanted) || !atomic_compare_exchange_strong(&ringer.process, &none, getpid()))
		return false;
	atomic_store(&ringer.thread, (pid_t)syscall(SYS_gettid));
	return true;
}

static void *run(void *unused)
{
	/* It may have been rung before it was there. */
	struct cause cause = {
		.any = true, .jobs = atomic_load(&ringer.jobs), .since_ns = clock_now_ns(), .pause_ns = PAUSE_MIN_NS};
	sigset_t ring;

	(void)unused;
	prctl(PR_SET_NAME, BELL_THREAD_NAME, 0, 0, 0);
	sigemptyset(&ring);
	sigaddset(&ring, SIGURG);
	atomic_store(&ringer.thread, (pid_t)syscall(SYS_gettid));
	while (stays()) {
		struct timespec pause = {.tv_sec = (time_t)(cause.pause_ns / NS_PER_S),
		                         .tv_nsec = (long)(cause.pause_ns % NS_PER_S)};
		siginfo_t info;

		if (cause.any && is_over(&cause))
			cause.any = false;
		if (cause.any)
			push(&cause);
		if (sigtimedwait(&ring, &info, cause.any ? &pause : &(struct timespec){.tv_sec = MINUTE}) == SIGURG)
			take(&cause, &info);
		else if (errno != EAGAIN && errno != EINTR)
			return NULL; /* a filter forbids it: rings then come to our handler */
	}
	return NULL;
}

void ringer_start(void)
{
	pid_t before = atomic_load(&ringer.process), own = getpid();

	waiting_init();
	atomic_store(&ringer.wanted, true);
	if (before == own || !atomic_compare_exchange_strong(&ringer.process, &before, own))
		return;
	atomic_store(&ringer.thread, 0);
	atomic_store(&ringer.busy, false);
	/* Who was in ringer_push() is in the parent. */
	if (before)
		atomic_store(&ringer.pushes, 0);
	atomic_store(&ringer.creating, false);
	if (!wake_thread(run, NULL))
		atomic_store(&ringer.process, 0);
}

void ringer_stop(void)
{
	atomic_store(&ringer.wanted, false);
	ringer_ring();
}

bool ringer_rest(void)
{
	atomic_store(&ringer.wanted, false);
	/* A few system calls. */
	while (atomic_load(&ringer.process) == getpid() && atomic_load(&ringer.creating))
		nanosleep(&(struct timespec){.tv_nsec = 100 * (long)NS_PER_US}, NULL);
	if (queue_exists()) {
		ringer_start();
		return false;
	}
	ringer_ring();
	return true;
}

void ringer_renew(void)
{
	if (atomic_load(&ringer.wanted) && atomic_load(&ringer.process) != getpid())
		ringer_start();
}

void ringer_await_quiet(void)
{
	for (int ms = 0; ms < QUIET_MS_MAX && ((ringer_thread() && atomic_load(&ringer.busy)) || atomic_load(&ringer.pushes));
	     ms++)
		nanosleep(&(struct timespec){.tv_nsec = (long)NS_PER_MS}, NULL);
}

pid_t ringer_thread(void)
{
	return atomic_load(&ringer.process) == getpid() ? atomic_load(&ringer.thread) : 0;
}

bool ringer_ring(void)
{
	int saved_errno = errno;
	pid_t thread = ringer_thread();

	if (thread)
		send(thread, SIGURG);
	errno = saved_errno;
	/* One that is just beginning asks for a job by itself. */
	return atomic_load(&ringer.process) == getpid();
}

uint64_t ringer_attempt_begins(void)
{
	/* It may not come to its end: one that raises, a child that is forked meanwhile. */
	atomic_store(&ringer.not_before_ns, clock_now_ns() + ATTEMPT_MAX_NS);
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

void ringer_attempt_ends(uint64_t began_ns, bool done)
{
	uint64_t took_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;

	atomic_store(&ringer.not_before_ns, done ? 0 : clock_now_ns() + took_ns * ATTEMPT_SHARE);
}

void ringer_job_begins(void)
{
	atomic_fetch_add(&ringer.jobs, 1);
}
