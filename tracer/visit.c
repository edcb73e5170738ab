/*
 * Loading step by step. See visit.h.
 *
 *  1. Choose a thread that can be stopped without harm, which mostly is the main one, and become its tracer; it runs on. Read its map; find in its own memory the functions to call and a breakpoint instruction for them to return to.
 *  2. Stop the thread. Where it stands in a place from which the dynamic loader may not be called (stop_check.c), let it go on and try
 *     again a moment later, for VISIT_LOAD_PATIENCE_NS at most.
 *  3. Have it call dlopen on the extension's file, or, where it does not see that file, on a copy in a memfd.
 *  4. Have it call rbprobe_start(), which makes Ruby run the extension's Init at its next safe point (tracee/startup.c).
 *  5. Put back what was touched: registers, vector state, signal mask, errno; and let go. loader.c does, whatever became of the rest.
 *
 * Steps 2 to 5 take half a millisecond, most of it dlopen.
 */

#define _GNU_SOURCE
#include "visit.h"

#include "arch.h"
#include "proc_status.h"
#include "proto/bell.h"
#include "proto/clock.h"
#include "trace_permission.h"

#include "proto/names.h"
#include "proto/startup.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#define KERNEL_MASK_SIZE 8
#define REFUSALS_MAX 2
#define OTHER_CLIENT_PAUSE_NS NS_PER_MS

static int start(struct visit *visit, uint64_t function)
{
	uint64_t result = 0;
	int status = visit_call(visit, function, visit->mode != LOADER_STAY, 0, &result);

	if (status < 0)
		return status;
	if ((int)result < 0)
		return error_set(
			visit->err, -ENOSYS,
			"the extension is loaded in process %d but cannot start: Ruby's signal handler was not found (%s)",
			(int)visit->target->pid, strerror(-(int)result));
	visit->report->started = true;
	return 0;
}

/* Where the stopped thread's errno is. Mostly that can be told from libc's code; else libc is asked. */
static int errno_find(struct visit *visit, uint64_t *address)
{
	if (visit->errno_is_at_offset) {
		*address = arch.thread_pointer(&visit->injection.registers) + visit->errno_offset;
		return 0;
	}
	return visit_call(visit, visit->errno_location, 0, 0, address);
}

static int load_stopped(struct visit *visit)
{
	uint64_t location = 0, handle, function = 0;
	int saved_errno, status;

	status = errno_find(visit, &location);
	if (status < 0)
		return status;
	if (!remote_read(&visit->remote, location, &saved_errno, sizeof(saved_errno)))
		return error_set(visit->err, -EFAULT, "the memory of process %d cannot be read", (int)visit->target->pid);
	visit->errno_address = location;
	status = visit_open(visit, &handle);
	if (status == 0) {
		visit->report->loaded = true;
		if (!visit_symbol_of_handle(visit, handle, "rbprobe_start", &function))
			status = error_set(visit->err, -ENOEXEC,
			                   "%s is not an extension that can be loaded by rbprobe " RBPROBE_VERSION,
			                   visit->file.path);
	}
	if (status == 0)
		status = start(visit, function);
	if (!visit->injection.gone)
		remote_write(&visit->remote, location, &saved_errno, sizeof(saved_errno));
	return status;
}

static int load(struct visit *visit)
{
	int status = loader_file_open(&visit->file, visit->target, &visit->remote, visit->err);

	if (status == 0)
		status = visit_check_confinement(visit);
	if (status == 0)
		status = visit_stop(visit, false, VISIT_LOAD_PATIENCE_NS);
	if (status < 0)
		return status;
	return load_stopped(visit);
}

/* --- A process in which the extension is loaded */

/* Whose SIGURG is, and whether anybody has taken it; the process is stopped. extension: NULL where it has not started. */
static int bell_look(struct visit *visit, const struct remote_module *extension, bool *taken)
{
	uint64_t scratch = inject_scratch(&visit->injection), handler = 0;
	int64_t result = -1;
	int status = visit_call_system(visit, SYS_rt_sigaction, SIGURG, 0, scratch, KERNEL_MASK_SIZE, &result);

	if (status < 0 || result != 0 || !remote_read(&visit->remote, scratch, &handler, sizeof(handler)))
		return status;
	/* When it starts, the extension takes also a signal that is ignored; later only one that nobody has set. */
	*taken = handler != (uint64_t)(uintptr_t)SIG_DFL && (extension || handler != (uint64_t)(uintptr_t)SIG_IGN);
	visit->report->bell = *taken && !remote_module_has(extension, handler) ? LOADER_BELL_CALL : LOADER_BELL_SIGNAL;
	return 0;
}

int visit_startup_state(const struct visit *visit, const struct remote_module *extension, struct startup *startup)
{
	uint64_t address;

	if (!remote_symbol(&visit->remote, extension, "rbprobe_startup", &address) ||
	    !remote_read(&visit->remote, address, startup, sizeof(*startup)))
		return -1;
	startup->text[sizeof(startup->text) - 1] = '\0';
	return (int)startup->state;
}

static int ring(struct visit *visit, const struct remote_module *extension)
{
	uint64_t function, result;
	int status = visit_stop(visit, true, VISIT_LOOK_PATIENCE_NS);

	if (status < 0)
		return status;
	if (!remote_symbol(&visit->remote, extension, "rbprobe_ring", &function))
		return error_set(visit->err, -ENOSYS, "the extension in process %d is of another version",
		                 (int)visit->target->pid);
	return visit_call(visit, function, 0, 0, &result);
}

static int visit_loaded(struct visit *visit, const struct remote_module *extension)
{
	struct startup startup;
	int state = visit_startup_state(visit, extension, &startup), status;
	bool taken = true;
	uint64_t function;

	if (state == STARTUP_FAILED)
		return error_set(visit->err, -ENOSYS, "the extension is loaded in process %d but could not start: %s",
		                 (int)visit->target->pid, startup.text);
	/* Starting makes a thread, and so needs a safe place: where a loader was killed before it could, and after a session, when that thread has ended. */
	status = visit_stop(visit, bell_thread(visit->target->pid) != 0, VISIT_LOAD_PATIENCE_NS);
	if (status == 0)
		status = bell_look(visit, state == STARTUP_DONE || state == -1 ? extension : NULL, &taken);
	if (status < 0 || !remote_symbol(&visit->remote, extension, "rbprobe_start", &function))
		return status;
	/*
	 * It is told once more: that it is to stay; that one more is waiting, where Ruby has not come to it since another
	 * client loaded it; that SIGURG is to be taken again, which it gave back after its last session.
	 */
	return visit->mode == LOADER_STAY || state != STARTUP_DONE || !taken ? start(visit, function) : 0;
}

/* --- The visit */

static bool catches(const struct visit *visit, int signal)
{
	return proc_status_number(visit->target->pid, "SigCgt", 16, 0) >> (signal - 1) & 1;
}

/* A Ruby that has just been started has no signal handler yet, by which the extension wakes it; the process goes on meanwhile. */
static void boot_await(struct visit *visit, uint64_t deadline_ns)
{
	static const int caught_by_ruby[] = {SIGINT, SIGTERM, SIGUSR2, SIGUSR1, SIGHUP, SIGALRM, SIGQUIT};
	struct timespec pause = {.tv_nsec = (long)OTHER_CLIENT_PAUSE_NS};

	while (clock_now_ns() < deadline_ns && !visit->injection.gone) {
		for (size_t i = 0; i < sizeof(caught_by_ruby) / sizeof(*caught_by_ruby); i++)
			if (catches(visit, caught_by_ruby[i]))
				return;
		nanosleep(&pause, NULL);
	}
}

int visit_run(struct visit *visit)
{
	const struct remote_module *extension;
	uint64_t deadline_ns = clock_now_ns() + VISIT_LOAD_PATIENCE_NS;
	unsigned refused = 0;
	int status;

	status = loader_file_possible(visit->target, visit->err);
	if (status == 0 && proc_status_has(visit->target->pid, "x86_Thread_features", "shstk"))
		status = error_set(
			visit->err, -ENOEXEC,
			"process %d runs with a shadow stack (CET), in which rbprobe calls no functions; " LOADER_READY_REMEDY,
			(int)visit->target->pid);
	if (status < 0)
		return status;
	/* Of several clients one has it at a time, for a moment. */
	while ((status = visit_seize(visit)) == -EPERM && clock_now_ns() < deadline_ns) {
		struct timespec pause = {.tv_nsec = (long)OTHER_CLIENT_PAUSE_NS};

		/* One that had it may have let go, or been killed, since. */
		if (!trace_permission_waits_for_us(visit->target) && refused++ == REFUSALS_MAX)
			break;
		nanosleep(&pause, NULL);
	}
	if (status == -ETIMEDOUT)
		return status;
	if (status < 0)
		return trace_permission_explain(visit->target, status, visit->err);
	visit->report->thread = visit->injection.pid;
	status = visit_map_read(visit);
	if (status < 0)
		return status;
	extension = remote_module_file(&visit->remote, EXTENSION_FILE);
	if (visit->look)
		return visit_look(visit, extension);
	if (extension)
		return visit->ring ? ring(visit, extension) : visit_loaded(visit, extension);
	if (visit->mode == LOADER_LOOK)
		return error_set(visit->err, -ENOEXEC, "process %d has not loaded the rbprobe extension",
		                 (int)visit->target->pid);
	boot_await(visit, deadline_ns);
	/* Asked before loading: it is what the extension will respect. */
	visit->report->bell = catches(visit, SIGURG) ? LOADER_BELL_CALL : LOADER_BELL_SIGNAL;
	return load(visit);
}
