/*
 * Stopping the main thread where it may be used, and using it. See visit.h.
 *
 * What can be known before is found out before: while the thread stands still there are only the checks of where it stands
 * (stop_check.c), which read its memory, and the calls.
 */

#define _GNU_SOURCE
#include "visit.h"

#include "arch.h"
#include "proto/bell.h"
#include "proto/clock.h"
#include "tasks.h"
#include "thread_wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define CALL_TIMEOUT_NS (10 * NS_PER_S)
#define BACK_OFF_MIN_NS (100 * NS_PER_US)
#define BACK_OFF_MAX_NS NS_PER_MS

_Static_assert(VISIT_LOAD_PATIENCE_NS == 3 * NS_PER_S && VISIT_LOOK_PATIENCE_NS == 100 * NS_PER_MS, "they are what they seem");

static int gone(struct visit *visit)
{
	if (visit->injection.execed)
		return error_set(visit->err, -ESTALE, "process %d started another program meanwhile; try again",
		                 (int)visit->target->pid);
	return error_set(visit->err, -ESRCH, "process %d ended while rbprobe was looking at it", (int)visit->target->pid);
}

static int call(struct visit *visit, uint64_t function, const uint64_t arguments[ARCH_ARGUMENTS_MAX], uint64_t *result)
{
	int status = inject_call(&visit->injection, function, arguments, CALL_TIMEOUT_NS, result);

	if (status == -ESRCH)
		return gone(visit);
	if (status < 0)
		return error_set(visit->err, status, "process %d did not finish a call that rbprobe made in it: %s",
		                 (int)visit->target->pid, strerror(-status));
	return 0;
}

int visit_call(struct visit *visit, uint64_t function, uint64_t one, uint64_t two, uint64_t *result)
{
	return call(visit, function, (const uint64_t[ARCH_ARGUMENTS_MAX]){one, two}, result);
}

int visit_call_map(struct visit *visit, size_t size, uint64_t *address)
{
	const uint64_t arguments[ARCH_ARGUMENTS_MAX] = {
		0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0};

	return call(visit, visit->map, arguments, address);
}

int visit_call_system(struct visit *visit, long number, uint64_t one, uint64_t two, uint64_t three, uint64_t four,
                      int64_t *result)
{
	const uint64_t arguments[ARCH_ARGUMENTS_MAX] = {(uint64_t)number, one, two, three, four};
	uint64_t value = 0;
	int status = call(visit, visit->system_call, arguments, &value);

	*result = (int64_t)value;
	return status;
}

/*
 * errno is at the same distance from every thread's pointer; the function that tells its address shows it, where that has the
 * code we know.
 */
static void errno_decode(struct visit *visit)
{
	uint8_t code[ARCH_ERRNO_CODE_SIZE];
	uint64_t word = 0;

	if (arch.errno_word && remote_read(&visit->remote, visit->errno_location, code, sizeof(code)))
		word = arch.errno_word(code, visit->errno_location);
	visit->errno_is_at_offset = word && remote_read(&visit->remote, word, &visit->errno_offset, sizeof(visit->errno_offset));
}

/* Functions to call, and a breakpoint instruction for them to return to. */
static int symbols_find(struct visit *visit)
{
	const struct remote *remote = &visit->remote;
	const struct remote_module *libdl = remote_module_named(remote, "libdl"), *libc;
	int pid = (int)visit->target->pid;

	if (!stop_check_init(&visit->check, remote))
		return error_set(visit->err, -ENOEXEC,
		                 "process %d is linked statically: it has no dynamic loader, and nothing can be loaded into it",
		                 pid);
	libc = visit->check.libc;
	/* Older glibcs have dlopen in a library of its own. */
	if (!remote_symbol(remote, libc, "__errno_location", &visit->errno_location) ||
	    !remote_symbol(remote, libc, "syscall", &visit->system_call) || !remote_symbol(remote, libc, "mmap", &visit->map) ||
	    (!remote_symbol(remote, libc, "dlopen", &visit->dlopen) && !remote_symbol(remote, libdl, "dlopen", &visit->dlopen)) ||
	    (!remote_symbol(remote, libc, "dlerror", &visit->dlerror) &&
	     !remote_symbol(remote, libdl, "dlerror", &visit->dlerror)))
		return error_set(visit->err, -ENOEXEC,
		                 "process %d has a C library in which rbprobe does not find dlopen; " LOADER_READY_REMEDY, pid);
	errno_decode(visit);
	visit->injection.trap = remote_text_find(remote, visit->check.loader, arch.find_trap);
	if (!visit->injection.trap)
		visit->injection.trap = remote_text_find(remote, libc, arch.find_trap);
	if (!visit->injection.trap)
		return error_set(visit->err, -ENOEXEC, "process %d contains no breakpoint instruction for calls to return to",
		                 pid);
	return 0;
}

int visit_map_read(struct visit *visit)
{
	int status;

	remote_close(&visit->remote);
	status = remote_open(&visit->remote, visit->target->pid, visit->err);
	if (status < 0)
		return status;
	visit->injection.remote = &visit->remote;
	return symbols_find(visit);
}

/* --- Which thread */

#define CHOICE_PAUSE_NS NS_PER_MS

/* Whether a stop now would not be noticed. Where that cannot be told, it is the kernel that will refuse to trace. */
static bool may_be_stopped(const struct visit *visit, pid_t tid)
{
	struct thread_wait wait;

	return visit->interrupt || thread_wait_read(&wait, visit->target->pid, tid) != 1 ||
	       thread_wait_is_lasting(&wait, visit->target->pid);
}

/* Another thread than the main one, that waits. */
static pid_t other_thread(const struct visit *visit)
{
	pid_t pid = visit->target->pid, bell = bell_thread(pid), found = 0;
	struct thread_wait wait;
	struct tasks tasks;

	tasks_read(&tasks, pid);
	for (size_t i = 0; i < tasks.count && !found; i++) {
		pid_t tid = tasks.items[i].tid;

		if (tid != pid && tid != bell && thread_wait_read(&wait, pid, tid) == 1 && thread_wait_is_lasting(&wait, pid))
			found = tid;
	}
	tasks_free(&tasks);
	return found;
}

int visit_seize(struct visit *visit)
{
	uint64_t deadline_ns = clock_now_ns() + VISIT_LOAD_PATIENCE_NS;
	pid_t pid = visit->target->pid, tid = visit->look ? visit->look->tid : 0;
	struct thread_wait wait;

	while (!tid) {
		struct timespec pause = {.tv_nsec = (long)CHOICE_PAUSE_NS};

		tid = may_be_stopped(visit, pid) ? pid : other_thread(visit);
		if (tid)
			break;
		if (clock_now_ns() >= deadline_ns && thread_wait_read(&wait, pid, pid) == 1)
			return error_set(visit->err, -ETIMEDOUT,
			                 "process %d: its main thread is in %s, which a stop would cut short, and there is no "
			                 "other thread by which the extension could be loaded (waited for %g s); try again, or "
			                 "cut it short with --interrupt",
			                 (int)pid, thread_wait_name(&wait), (double)VISIT_LOAD_PATIENCE_NS / 1e9);
		nanosleep(&pause, NULL);
	}
	return inject_seize(&visit->injection, tid);
}

/* --- Stopping */

/* Why inject_stop() gave that up. */
static int not_stopped(struct visit *visit, int status, uint64_t patience_ns)
{
	int pid = (int)visit->target->pid;

	switch (status) {
	case -EBUSY:
		return error_set(visit->err, -EBUSY, "process %d is stopped; let it go on first, with: kill -CONT %d", pid, pid);
	case 0:
		return error_set(visit->err, -ETIMEDOUT,
		                 "process %d could not be stopped within %g s: its thread is in a system call that cannot be "
		                 "interrupted (a slow disk or network file system, or it waits for a new program to start)",
		                 pid, (double)patience_ns / 1e9);
	case -ESRCH:
		return gone(visit);
	default:
		return error_set(visit->err, status, "process %d cannot be stopped: %s", pid, strerror(-status));
	}
}

int visit_stop(struct visit *visit, bool anywhere, uint64_t patience_ns)
{
	uint64_t deadline_ns = clock_now_ns() + patience_ns, back_off_ns = BACK_OFF_MIN_NS;
	const char *objection = "it could not be stopped";
	int pid = (int)visit->target->pid;

	do {
		int status;

		if (!may_be_stopped(visit, visit->injection.pid)) {
			objection = "it was in a system call that a stop would cut short";
			if (inject_wait(&visit->injection, BACK_OFF_MAX_NS) < 0)
				return gone(visit);
			continue;
		}
		status = inject_stop(&visit->injection, deadline_ns);

		visit->report->stops++;
		if (status <= 0)
			return not_stopped(visit, status, patience_ns);
		objection = stop_check_restartable(&visit->check, &visit->injection);
		if (!objection && !anywhere)
			objection = stop_check_objection(&visit->check, &visit->injection);
		if (!objection)
			return 0;
		inject_resume(&visit->injection);
		if (objection == stop_check_new_stack && (status = visit_map_read(visit)) < 0)
			return status;
		if (getppid() != visit->client)
			return error_set(visit->err, -EINTR, "the client is gone");
		if (inject_wait(&visit->injection, back_off_ns) < 0)
			return gone(visit);
		back_off_ns += back_off_ns / 4;
		if (back_off_ns > BACK_OFF_MAX_NS)
			back_off_ns = BACK_OFF_MIN_NS + (uint64_t)random() % BACK_OFF_MIN_NS;
	} while (clock_now_ns() < deadline_ns);
	return error_set(visit->err, -ETIMEDOUT,
	                 "process %d did not come to a place where it is safe to load a library within %g s (%u looks; the last "
	                 "time %s); nothing was changed; try again, or " LOADER_READY_REMEDY,
	                 pid, (double)patience_ns / 1e9, visit->report->stops, objection);
}
