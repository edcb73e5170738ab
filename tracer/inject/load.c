/*
 * Loading step by step. See load.h.
 *
 *  1. Choose a thread that can be stopped without harm, which mostly is the main one, and become its tracer; it runs on.
 *     Read its map; find in its own memory the functions to call and a breakpoint instruction for them to return to.
 *  2. Stop the thread. Where it stands in a place from which the dynamic loader may not be called (stop_check.c), let it
 *     go on and try again a moment later, for LOAD_PATIENCE_NS at most.
 *  3. Have it call dlopen on the extension's file, or, where it does not see that file, on a copy in a memfd.
 *  4. Have it call rbprobe_start(), which makes Ruby run the extension's Init at its next safe point (tracee/entry.c).
 *  5. Put back what was touched: registers, vector state, signal mask, errno; and let go. loader.c does, whatever
 *     became of the rest.
 *
 * Steps 2 to 5 take half a millisecond, most of it dlopen.
 */

#define _GNU_SOURCE
#include "tracer/inject/load.h"

#include "proto/bell.h"
#include "proto/clock.h"
#include "tracer/base/debug.h"
#include "tracer/base/proc_status.h"
#include "tracer/process/arch.h"
#include "tracer/process/trace_permission.h"

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

static int start(struct load *load, uint64_t function)
{
	uint64_t result = 0;
	int status = load_call(load, function, load->mode != LOADER_STAY, 0, &result);

	if (status < 0)
		return status;
	debug(DEBUG_LOAD, "process %d: rbprobe_start returned %d", (int)load->target->pid, (int)result);
	if ((int)result < 0)
		return error_set(
			load->err, -ENOSYS,
			"the extension is loaded in process %d but cannot start: Ruby's signal handler was not found (%s)",
			(int)load->target->pid, strerror(-(int)result));
	load->report->started = true;
	return 0;
}

/* Where the stopped thread's errno is. Mostly libc's code shows it; else libc is called. */
static int errno_find(struct load *load, uint64_t *address)
{
	if (load->errno_is_at_offset) {
		*address = arch.thread_pointer(&load->injection.registers) + load->errno_offset;
		return 0;
	}
	return load_call(load, load->errno_location, 0, 0, address);
}

static int load_stopped(struct load *load)
{
	uint64_t location = 0, handle, function = 0;
	int saved_errno, status;

	status = errno_find(load, &location);
	if (status < 0)
		return status;
	if (!remote_read(&load->remote, location, &saved_errno, sizeof(saved_errno)))
		return error_set(load->err, -EFAULT, "the memory of process %d cannot be read", (int)load->target->pid);
	load->errno_address = location;
	status = load_open(load, &handle);
	if (status == 0) {
		load->report->loaded = true;
		if (!load_symbol_of_handle(load, handle, "rbprobe_start", &function))
			status = error_set(load->err, -ENOEXEC,
			                   "%s is not an extension that can be loaded by rbprobe " RBPROBE_VERSION,
			                   load->file.path);
	}
	if (status == 0)
		status = start(load, function);
	if (!load->injection.gone)
		remote_write(&load->remote, location, &saved_errno, sizeof(saved_errno));
	return status;
}

static int load_extension(struct load *load)
{
	int status = loader_file_open(&load->file, load->target, &load->remote, load->err);

	if (status == 0)
		debug(DEBUG_LOAD, "process %d: the extension is %s, %zu bytes, which the process %s", (int)load->target->pid,
		      load->file.path, load->file.size, load->file.visible ? "sees" : "does not see");
	if (status == 0)
		status = load_check_confinement(load);
	if (status == 0)
		status = load_stop(load, false, LOAD_PATIENCE_NS);
	if (status < 0)
		return status;
	return load_stopped(load);
}

/* --- A process in which the extension is loaded */

/* Whose SIGURG is, and whether anybody has taken it; the process is stopped. extension: NULL where it has not started. */
static int bell_look(struct load *load, const struct remote_module *extension, bool *taken)
{
	uint64_t scratch = inject_scratch(&load->injection), handler = 0;
	int64_t result = -1;
	int status = load_call_system(load, SYS_rt_sigaction, SIGURG, 0, scratch, KERNEL_MASK_SIZE, &result);

	if (status < 0 || result != 0 || !remote_read(&load->remote, scratch, &handler, sizeof(handler)))
		return status;
	/* When it starts, the extension takes also a signal that is ignored; later only one that nobody has set. */
	*taken = handler != (uint64_t)(uintptr_t)SIG_DFL && (extension || handler != (uint64_t)(uintptr_t)SIG_IGN);
	load->report->bell = *taken && !remote_module_has(extension, handler) ? LOADER_BELL_CALL : LOADER_BELL_SIGNAL;
	return 0;
}

int load_startup_state(const struct load *load, const struct remote_module *extension, struct startup *startup)
{
	uint64_t address;

	if (!remote_symbol(&load->remote, extension, "rbprobe_startup", &address) ||
	    !remote_read(&load->remote, address, startup, sizeof(*startup)))
		return -1;
	startup->text[sizeof(startup->text) - 1] = '\0';
	return (int)startup->state;
}

static int ring(struct load *load, const struct remote_module *extension)
{
	uint64_t function, result;
	int status = load_stop(load, true, LOAD_LOOK_PATIENCE_NS);

	if (status < 0)
		return status;
	if (!remote_symbol(&load->remote, extension, "rbprobe_ring", &function))
		return error_set(load->err, -ENOSYS, "the extension in process %d is of another version", (int)load->target->pid);
	return load_call(load, function, 0, 0, &result);
}

static int load_loaded(struct load *load, const struct remote_module *extension)
{
	struct startup startup;
	int state = load_startup_state(load, extension, &startup), status;
	bool taken = true;
	uint64_t function;

	debug(DEBUG_LOAD, "process %d: the extension is there already, %s, start-up state %d%s%s", (int)load->target->pid,
	      extension->path, state, state == STARTUP_FAILED ? ": " : "", state == STARTUP_FAILED ? startup.text : "");
	if (state == STARTUP_FAILED)
		return error_set(load->err, -ENOSYS, "the extension is loaded in process %d but could not start: %s",
		                 (int)load->target->pid, startup.text);
	/*
	 * Starting makes a thread, and so needs a safe place: where a loader was killed before it could, and after a
	 * session, when that thread has ended.
	 */
	status = load_stop(load, bell_thread(load->target->pid) != 0, LOAD_PATIENCE_NS);
	if (status == 0)
		status = bell_look(load, state == STARTUP_DONE || state == -1 ? extension : NULL, &taken);
	if (status < 0 || !remote_symbol(&load->remote, extension, "rbprobe_start", &function))
		return status;
	/*
	 * Start it once more: so that it stays; or because one more client waits, and Ruby has not come to it since another
	 * client loaded it; or so that it takes SIGURG again, which it gave back after its last session.
	 */
	return load->mode == LOADER_STAY || state != STARTUP_DONE || !taken ? start(load, function) : 0;
}

/* --- The whole of it */

static bool catches(const struct load *load, int signal)
{
	return proc_status_number(load->target->pid, "SigCgt", 16, 0) >> (signal - 1) & 1;
}

/* A Ruby that has just been started has no signal handler yet, by which the extension wakes it; the process goes on meanwhile. */
static void boot_await(struct load *load, uint64_t deadline_ns)
{
	static const int caught_by_ruby[] = {SIGINT, SIGTERM, SIGUSR2, SIGUSR1, SIGHUP, SIGALRM, SIGQUIT};
	struct timespec pause = {.tv_nsec = (long)OTHER_CLIENT_PAUSE_NS};

	while (clock_now_ns() < deadline_ns && !load->injection.gone) {
		for (size_t i = 0; i < sizeof(caught_by_ruby) / sizeof(*caught_by_ruby); i++)
			if (catches(load, caught_by_ruby[i]))
				return;
		nanosleep(&pause, NULL);
	}
}

int load_run(struct load *load)
{
	const struct remote_module *extension;
	uint64_t deadline_ns = clock_now_ns() + LOAD_PATIENCE_NS;
	unsigned refused = 0;
	int status;

	status = loader_file_possible(load->target, load->err);
	if (status == 0 && proc_status_has(load->target->pid, "x86_Thread_features", "shstk"))
		status = error_set(
			load->err, -ENOEXEC,
			"process %d runs with a shadow stack (CET), in which rbprobe calls no functions; " LOADER_READY_REMEDY,
			(int)load->target->pid);
	if (status < 0)
		return status;
	/* Of several clients one has it at a time, for a moment. */
	while ((status = load_seize(load)) == -EPERM && clock_now_ns() < deadline_ns) {
		struct timespec pause = {.tv_nsec = (long)OTHER_CLIENT_PAUSE_NS};

		if (refused == 0)
			debug(DEBUG_LOAD, "process %d: the kernel does not let us trace it now; trying again",
			      (int)load->target->pid);
		/* One that had it may have let go, or been killed, since. */
		if (!trace_permission_waits_for_us(load->target) && refused++ == REFUSALS_MAX)
			break;
		nanosleep(&pause, NULL);
	}
	if (status == -ETIMEDOUT || status == -ESRCH || status == -ESTALE || status == LOAD_THREAD_LEFT)
		return status;
	if (status < 0)
		return trace_permission_explain(load->target, status, load->err);
	load->report->thread = load->injection.pid;
	status = load_map_read(load);
	if (status < 0)
		return status;
	extension = remote_module_file(&load->remote, EXTENSION_FILE);
	if (load->look)
		return load_look(load, extension);
	if (extension)
		return load->ring ? ring(load, extension) : load_loaded(load, extension);
	if (load->mode == LOADER_LOOK)
		return error_set(load->err, -ENOEXEC, "process %d has not loaded the rbprobe extension", (int)load->target->pid);
	boot_await(load, deadline_ns);
	/* Asked before loading: it is what the extension will respect. */
	load->report->bell = catches(load, SIGURG) ? LOADER_BELL_CALL : LOADER_BELL_SIGNAL;
	return load_extension(load);
}
