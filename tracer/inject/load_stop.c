/*
 * Stopping the main thread where it may be used, and using it. See load.h.
 *
 * What can be known before is found out before: while the thread stands still there are only the checks of where it stands
 * (stop_check.c), which read its memory, and the calls.
 */

#define _GNU_SOURCE
#include "tracer/inject/load.h"

#include "proto/bell.h"
#include "proto/clock.h"
#include "tracer/base/debug.h"
#include "tracer/inject/thread_wait.h"
#include "tracer/process/arch.h"
#include "tracer/process/tasks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define CALL_TIMEOUT_NS (10 * NS_PER_S)
#define BACK_OFF_MIN_NS (100 * NS_PER_US)
#define BACK_OFF_MAX_NS NS_PER_MS

_Static_assert(LOAD_PATIENCE_NS == 3 * NS_PER_S && LOAD_LOOK_PATIENCE_NS == 100 * NS_PER_MS, "they are what they seem");

static int gone(struct load *load)
{
	if (load->injection.execed)
		return error_set(load->err, -ESTALE, "process %d started another program meanwhile; try again",
		                 (int)load->target->pid);
	return error_set(load->err, -ESRCH, "process %d ended while rbprobe was looking at it", (int)load->target->pid);
}

/* The process, or only the thread that was chosen: it goes on until it is stopped, and may have had enough. */
static int left(struct load *load, pid_t tid)
{
	int pid = (int)load->target->pid;

	if (load->injection.execed || tid == load->target->pid || !target_is_same(load->target))
		return gone(load);
	debug(DEBUG_LOAD, "process %d: thread %d ended before it could be stopped", pid, (int)tid);
	return error_set(load->err, LOAD_THREAD_LEFT, "process %d: thread %d ended while rbprobe was looking at it; try again",
	                 pid, (int)tid);
}

static int call(struct load *load, uint64_t function, const uint64_t arguments[ARCH_ARGUMENTS_MAX], uint64_t *result)
{
	int status = inject_call(&load->injection, function, arguments, CALL_TIMEOUT_NS, result);

	if (status == -ESRCH)
		return gone(load);
	if (status < 0)
		return error_set(load->err, status, "process %d did not finish a call that rbprobe made in it: %s",
		                 (int)load->target->pid, strerror(-status));
	return 0;
}

int load_call(struct load *load, uint64_t function, uint64_t one, uint64_t two, uint64_t *result)
{
	return call(load, function, (const uint64_t[ARCH_ARGUMENTS_MAX]){one, two}, result);
}

int load_call_map(struct load *load, size_t size, uint64_t *address)
{
	const uint64_t arguments[ARCH_ARGUMENTS_MAX] = {
		0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0};

	return call(load, load->map, arguments, address);
}

int load_call_system(struct load *load, long number, uint64_t one, uint64_t two, uint64_t three, uint64_t four, int64_t *result)
{
	const uint64_t arguments[ARCH_ARGUMENTS_MAX] = {(uint64_t)number, one, two, three, four};
	uint64_t value = 0;
	int status = call(load, load->system_call, arguments, &value);

	*result = (int64_t)value;
	return status;
}

/*
 * errno is at the same distance from every thread's pointer. libc's function that returns its address shows the distance, if
 * its code is one that we know.
 */
static void errno_decode(struct load *load)
{
	uint8_t code[ARCH_ERRNO_CODE_SIZE];
	uint64_t word = 0;

	if (arch.errno_word && remote_read(&load->remote, load->errno_location, code, sizeof(code)))
		word = arch.errno_word(code, load->errno_location);
	load->errno_is_at_offset = word && remote_read(&load->remote, word, &load->errno_offset, sizeof(load->errno_offset));
}

/* Functions to call, and a breakpoint instruction for them to return to. */
static int symbols_find(struct load *load)
{
	const struct remote *remote = &load->remote;
	const struct remote_module *libdl = remote_module_named(remote, "libdl"), *libc;
	int pid = (int)load->target->pid;

	if (!stop_check_init(&load->check, remote))
		return error_set(load->err, -ENOEXEC,
		                 "process %d is linked statically: it has no dynamic loader, and nothing can be loaded into it",
		                 pid);
	libc = load->check.libc;
	/* Older glibcs have dlopen in a library of its own. */
	if (!remote_symbol(remote, libc, "__errno_location", &load->errno_location) ||
	    !remote_symbol(remote, libc, "syscall", &load->system_call) || !remote_symbol(remote, libc, "mmap", &load->map) ||
	    (!remote_symbol(remote, libc, "dlopen", &load->dlopen) && !remote_symbol(remote, libdl, "dlopen", &load->dlopen)) ||
	    (!remote_symbol(remote, libc, "dlerror", &load->dlerror) && !remote_symbol(remote, libdl, "dlerror", &load->dlerror)))
		return error_set(load->err, -ENOEXEC,
		                 "process %d has a C library in which rbprobe does not find dlopen; " LOADER_READY_REMEDY, pid);
	errno_decode(load);
	load->injection.trap = remote_text_find(remote, load->check.loader, arch.find_trap);
	if (!load->injection.trap)
		load->injection.trap = remote_text_find(remote, libc, arch.find_trap);
	if (!load->injection.trap)
		return error_set(load->err, -ENOEXEC, "process %d contains no breakpoint instruction for calls to return to",
		                 pid);
	debug(DEBUG_LOAD,
	      "process %d: %zu mappings, %zu modules, %zu other allocators; libc %s, dlopen 0x%llx, calls return to 0x%llx", pid,
	      remote->mapping_count, remote->module_count, load->check.allocator_count, libc->path,
	      (unsigned long long)load->dlopen, (unsigned long long)load->injection.trap);
	return 0;
}

int load_map_read(struct load *load)
{
	int status;

	remote_close(&load->remote);
	status = remote_open(&load->remote, load->target->pid, load->err);
	if (status < 0)
		return status;
	load->injection.remote = &load->remote;
	return symbols_find(load);
}

/* --- Which thread */

#define CHOICE_PAUSE_NS NS_PER_MS

/* Whether a stop now would not be noticed. True where that is not known: then the kernel will refuse to trace. */
static bool may_be_stopped(const struct load *load, pid_t tid)
{
	struct thread_wait wait;

	return load->interrupt || thread_wait_read(&wait, load->target->pid, tid) != 1 ||
	       thread_wait_is_lasting(&wait, load->target->pid);
}

/* Another thread than the main one, that waits. */
static pid_t other_thread(const struct load *load)
{
	pid_t pid = load->target->pid, bell = bell_thread(pid), found = 0;
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

int load_seize(struct load *load)
{
	uint64_t deadline_ns = clock_now_ns() + LOAD_PATIENCE_NS;
	pid_t pid = load->target->pid, tid = load->look ? load->look->tid : 0;
	struct thread_wait wait;
	int status;

	while (!tid) {
		struct timespec pause = {.tv_nsec = (long)CHOICE_PAUSE_NS};

		tid = may_be_stopped(load, pid) ? pid : other_thread(load);
		if (tid)
			break;
		if (clock_now_ns() >= deadline_ns && thread_wait_read(&wait, pid, pid) == 1)
			return error_set(load->err, -ETIMEDOUT,
			                 "process %d: its main thread is in %s, which a stop would cut short, and there is no "
			                 "other thread by which the extension could be loaded (waited for %g s); try again, or "
			                 "cut it short with --interrupt",
			                 (int)pid, thread_wait_name(&wait), (double)LOAD_PATIENCE_NS / 1e9);
		nanosleep(&pause, NULL);
	}
	status = inject_seize(&load->injection, tid);
	debug(DEBUG_LOAD, "process %d: tracing thread %d (%s): %s", (int)pid, (int)tid,
	      tid == pid ? "the main one" : "a stop would cut short what the main one waits in",
	      status < 0 ? strerror(-status) : "done");
	return status == -ESRCH ? left(load, tid) : status;
}

/* --- Stopping */

/* Why inject_stop() gave that up. */
static int not_stopped(struct load *load, int status, uint64_t patience_ns)
{
	int pid = (int)load->target->pid;

	switch (status) {
	case -EBUSY:
		return error_set(load->err, -EBUSY, "process %d is stopped; let it go on first, with: kill -CONT %d", pid, pid);
	case 0:
		return error_set(load->err, -ETIMEDOUT,
		                 "process %d could not be stopped within %g s: its thread is in a system call that cannot be "
		                 "interrupted (a slow disk or network file system, or it waits for a new program to start)",
		                 pid, (double)patience_ns / 1e9);
	case -ESRCH:
		return left(load, load->injection.pid);
	default:
		return error_set(load->err, status, "process %d cannot be stopped: %s", pid, strerror(-status));
	}
}

/* The thread stands still meanwhile: its name in /proc is not asked for. */
static void debug_stop(const struct load *load, bool anywhere, const char *objection)
{
	struct thread_wait wait = {.number = load->injection.registers.system_call};

	debug(DEBUG_LOAD, "process %d: stopped thread %d in %s, %s%s", (int)load->target->pid, (int)load->injection.pid,
	      wait.number < 0 ? "its code" : thread_wait_name(&wait), !objection ? "restartable, " : "refused: ",
	      objection  ? objection
	      : anywhere ? "where any function but dlopen may be called"
	                 : "where dlopen may be called");
}

int load_stop(struct load *load, bool anywhere, uint64_t patience_ns)
{
	uint64_t deadline_ns = clock_now_ns() + patience_ns, back_off_ns = BACK_OFF_MIN_NS;
	const char *objection = "it could not be stopped", *debugged = NULL;
	int pid = (int)load->target->pid;

	do {
		int status;

		if (!may_be_stopped(load, load->injection.pid)) {
			objection = "it was in a system call that a stop would cut short";
			if (debugged != objection)
				debug(DEBUG_LOAD,
				      "process %d: waiting: thread %d is in a system call that a stop would cut short", pid,
				      (int)load->injection.pid);
			debugged = objection;
			if (inject_wait(&load->injection, BACK_OFF_MAX_NS) < 0)
				return left(load, load->injection.pid);
			continue;
		}
		status = inject_stop(&load->injection, deadline_ns);

		load->report->stops++;
		if (status <= 0)
			return not_stopped(load, status, patience_ns);
		objection = stop_check_restartable(&load->check, &load->injection);
		if (!objection && !anywhere)
			objection = stop_check_objection(&load->check, &load->injection);
		debug_stop(load, anywhere, objection);
		if (!objection)
			return 0;
		inject_resume(&load->injection);
		if (objection == stop_check_new_stack && (status = load_map_read(load)) < 0)
			return status;
		if (getppid() != load->client)
			return error_set(load->err, -EINTR, "the client is gone");
		if (inject_wait(&load->injection, back_off_ns) < 0)
			return left(load, load->injection.pid);
		back_off_ns += back_off_ns / 4;
		if (back_off_ns > BACK_OFF_MAX_NS)
			back_off_ns = BACK_OFF_MIN_NS + (uint64_t)random() % BACK_OFF_MIN_NS;
	} while (clock_now_ns() < deadline_ns);
	return error_set(load->err, -ETIMEDOUT,
	                 "process %d did not come to a place where it is safe to load a library within %g s (%u looks; the last "
	                 "time %s); nothing was changed; try again, or " LOADER_READY_REMEDY,
	                 pid, (double)patience_ns / 1e9, load->report->stops, objection);
}
