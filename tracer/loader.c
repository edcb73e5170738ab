/*
 * Loading step by step. See loader.h.
 *
 *  1. Become the process's tracer; it runs on. Read its map; find in its own memory the functions to call and a breakpoint instruction for them to return to.
 *  2. Stop the main thread. Where it stands in a place from which the dynamic loader may not be called (stop_check.c), let it go on and try
 *     again a moment later, for LOAD_PATIENCE_NS at most.
 *  3. Have it call dlopen on the extension's file, or, where it does not see that file, on a copy in a memfd.
 *  4. Have it call rbprobe_start(), which makes Ruby run the extension's Init at its next safe point (tracee/startup.c).
 *  5. Put back what was touched: registers, vector state, signal mask, errno. Let go.
 *
 * Steps 2 to 5 take a millisecond or two, most of it dlopen. rbprobe must not end meanwhile: the thread would return to a breakpoint that nobody
 * waits for. So a helper process does it that nobody kills (visit_make).
 */

#define _GNU_SOURCE
#include "loader.h"

#include "arch.h"
#include "clock.h"
#include "inject.h"
#include "loader_file.h"
#include "remote.h"
#include "stop_check.h"
#include "trace_permission.h"

#include "proto/names.h"
#include "proto/startup.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOAD_PATIENCE_NS (3 * NS_PER_S)
#define LOOK_PATIENCE_NS (100 * NS_PER_MS)
#define CALL_TIMEOUT_NS (10 * NS_PER_S)
#define BACK_OFF_MIN_NS (100 * NS_PER_US)
#define BACK_OFF_MAX_NS NS_PER_MS
#define REMOTE_TEXT_MAX (INJECT_SCRATCH_SIZE - 8)
#define KERNEL_MASK_SIZE 8

/* memfd_create's, of newer kernels: programs may be mapped from it whatever vm.memfd_noexec says (unless that is 2). */
#define MEMFD_CLOSE_ON_EXEC 1u
#define MEMFD_EXECUTABLE 0x10u

/* One visit to a process. */
struct visit {
	const struct target *target;
	enum loader_mode mode;
	pid_t client;
	uint64_t began_ns;
	bool ring; /* only that */
	struct loader_report *report;
	struct error *err;

	struct remote remote;
	struct injection injection;
	struct stop_check check;
	uint64_t system_call, dlopen, dlerror, errno_location; /* functions in the process */
	struct loader_file file;
};

static int pid_of(const struct visit *visit)
{
	return (int)visit->target->pid;
}

static int gone(struct visit *visit)
{
	return error_set(visit->err, -ESRCH, "process %d ended while rbprobe was looking at it", pid_of(visit));
}

/* A call in the stopped process, at most three arguments. */
static int call(struct visit *visit, uint64_t function, uint64_t one, uint64_t two, uint64_t three, uint64_t *result)
{
	const uint64_t arguments[ARCH_ARGUMENTS_MAX] = {one, two, three};
	int status = inject_call(&visit->injection, function, arguments, CALL_TIMEOUT_NS, result);

	if (status == -ESRCH)
		return gone(visit);
	if (status < 0)
		return error_set(visit->err, status, "process %d did not finish a call that rbprobe made in it: %s",
		                 pid_of(visit), strerror(-status));
	return 0;
}

/* A system call; -1 is a failure like any other result, errno being the process's. */
static int call_system(struct visit *visit, long number, uint64_t one, uint64_t two, uint64_t three, uint64_t four,
                       int64_t *result)
{
	const uint64_t arguments[ARCH_ARGUMENTS_MAX] = {(uint64_t)number, one, two, three, four};
	uint64_t value = 0;
	int status = inject_call(&visit->injection, visit->system_call, arguments, CALL_TIMEOUT_NS, &value);

	*result = (int64_t)value;
	if (status == -ESRCH)
		return gone(visit);
	return status;
}

/* --- Step 1 */

static int symbols_find(struct visit *visit)
{
	const struct remote *remote = &visit->remote;
	const struct remote_module *libdl = remote_module_named(remote, "libdl"), *libc;

	if (remote_module_named(remote, "ld-musl"))
		return error_set(visit->err, -ENOEXEC,
		                 "process %d uses the C library musl; rbprobe can be loaded into processes with glibc "
		                 "only; " LOADER_READY_REMEDY,
		                 pid_of(visit));
	if (!stop_check_init(&visit->check, remote))
		return error_set(visit->err, -ENOEXEC,
		                 "process %d is linked statically: it has no dynamic loader, and nothing can be loaded into it",
		                 pid_of(visit));
	libc = visit->check.libc;
	/* Older glibcs have dlopen in a library of its own. */
	if (!remote_symbol(remote, libc, "__errno_location", &visit->errno_location) ||
	    !remote_symbol(remote, libc, "syscall", &visit->system_call) ||
	    (!remote_symbol(remote, libc, "dlopen", &visit->dlopen) && !remote_symbol(remote, libdl, "dlopen", &visit->dlopen)) ||
	    (!remote_symbol(remote, libc, "dlerror", &visit->dlerror) &&
	     !remote_symbol(remote, libdl, "dlerror", &visit->dlerror)))
		return error_set(visit->err, -ENOEXEC,
		                 "process %d has a C library in which rbprobe does not find dlopen; " LOADER_READY_REMEDY,
		                 pid_of(visit));
	visit->injection.trap = remote_text_find(remote, visit->check.loader, arch.find_trap);
	if (!visit->injection.trap)
		visit->injection.trap = remote_text_find(remote, libc, arch.find_trap);
	if (!visit->injection.trap)
		return error_set(visit->err, -ENOEXEC, "process %d contains no breakpoint instruction for calls to return to",
		                 pid_of(visit));
	return 0;
}

static int map_read(struct visit *visit)
{
	int status;

	remote_close(&visit->remote);
	status = remote_open(&visit->remote, visit->target->pid, visit->err);
	if (status < 0)
		return status;
	visit->injection.remote = &visit->remote;
	visit->injection.execed = false;
	return symbols_find(visit);
}

/* --- Step 2 */

/*
 * Stops the thread where dlopen may be called; or, where `anywhere`, at any place: system calls and the extension's own functions take no lock and
 * allocate nothing.
 */
static int stop(struct visit *visit, bool anywhere, uint64_t patience_ns)
{
	uint64_t deadline_ns = clock_now_ns() + patience_ns, back_off_ns = BACK_OFF_MIN_NS;
	const char *objection = "it could not be stopped";

	do {
		int status = inject_stop(&visit->injection, deadline_ns);

		visit->report->stops++;
		if (status == -EBUSY)
			return error_set(visit->err, -EBUSY, "process %d is stopped; let it go on first, with: kill -CONT %d",
			                 pid_of(visit), pid_of(visit));
		if (status == 0)
			return error_set(
				visit->err, -ETIMEDOUT,
				"process %d could not be stopped within %g s: its main thread is in a system call that cannot be "
				"interrupted (a slow disk or network file system, or it waits for a new program to start)",
				pid_of(visit), (double)patience_ns / 1e9);
		if (status < 0)
			return status == -ESRCH ? gone(visit)
			                        : error_set(visit->err, status, "process %d cannot be stopped: %s", pid_of(visit),
			                                    strerror(-status));
		if (visit->injection.execed)
			return error_set(visit->err, -ESTALE, "process %d started another program meanwhile; try again",
			                 pid_of(visit));
		objection = anywhere ? NULL : stop_check_objection(&visit->check, &visit->injection);
		if (!objection)
			return 0;
		inject_resume(&visit->injection);
		if (objection == stop_check_new_stack && (status = map_read(visit)) < 0)
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
	                 "time %s); nothing "
	                 "was changed; try again, or " LOADER_READY_REMEDY,
	                 pid_of(visit), (double)patience_ns / 1e9, visit->report->stops, objection);
}

/* --- Step 3 */

static int open_in_process(struct visit *visit, const char *path, uint64_t *handle)
{
	uint64_t scratch = inject_scratch(&visit->injection);

	if (strlen(path) >= REMOTE_TEXT_MAX || !remote_write(&visit->remote, scratch, path, strlen(path) + 1))
		return error_set(visit->err, -ENOSPC, "there is no room on the stack of process %d", pid_of(visit));
	/* NOW: what does not fit is found out here, and not in the middle of a handler. */
	return call(visit, visit->dlopen, scratch, RTLD_NOW | RTLD_LOCAL, 0, handle);
}

static int why_not_opened(struct visit *visit, char *why, size_t size)
{
	uint64_t text = 0;
	int status = call(visit, visit->dlerror, 0, 0, 0, &text);

	if (status < 0)
		return status;
	if (!text || !remote_read_text(&visit->remote, text, why, size))
		snprintf(why, size, "dlopen failed without a reason");
	return 0;
}

/* 0 and *handle; 1: this process may not have such files, and `why`; or negative. */
static int open_from_memory(struct visit *visit, uint64_t *handle, char *why, size_t why_size)
{
	uint64_t scratch = inject_scratch(&visit->injection);
	char path[64];
	int64_t fd = -1, ignored;
	unsigned flags[] = {MEMFD_CLOSE_ON_EXEC | MEMFD_EXECUTABLE, MEMFD_CLOSE_ON_EXEC};
	int status = 0;

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags) && fd < 0; i++) {
		if (!remote_write(&visit->remote, scratch, EXTENSION_FILE, sizeof(EXTENSION_FILE)))
			return error_set(visit->err, -ENOSPC, "there is no room on the stack of process %d", pid_of(visit));
		status = call_system(visit, SYS_memfd_create, scratch, flags[i], 0, 0, &fd);
		if (status < 0)
			return status;
	}
	if (fd < 0) {
		snprintf(why, why_size, "the kernel or a seccomp filter refuses it a file in memory");
		return 1;
	}
	status = loader_file_copy(&visit->file, visit->target->pid, (int)fd, visit->err);
	if (status == 0) {
		/* dlopen knows libraries by their path, too, and this one may have had the same number before: slashes make it new. */
		snprintf(path, sizeof(path), "/proc/self%.*s/fd/%d", 1 + (int)(clock_now_ns() % 15), "////////////////", (int)fd);
		status = open_in_process(visit, path, handle);
	}
	if (status == 0 && !*handle)
		status = why_not_opened(visit, why, why_size) < 0 ? -ESRCH : 1;
	if (!visit->injection.gone)
		call_system(visit, SYS_close, (uint64_t)fd, 0, 0, 0, &ignored);
	return status;
}

/* The file is there, and yet not for this process. */
static bool is_out_of_reach(const char *why)
{
	return strstr(why, "cannot open shared object file") || strstr(why, "Permission denied") ||
	       strstr(why, "failed to map") || strstr(why, "Operation not permitted");
}

static int open_somehow(struct visit *visit, uint64_t *handle)
{
	char why[512] = "";
	int status = 1;

	*handle = 0;
	if (visit->file.visible) {
		status = open_in_process(visit, visit->file.path, handle);
		if (status == 0 && !*handle)
			status = why_not_opened(visit, why, sizeof(why)) < 0 ? -ESRCH : 1;
	}
	if (status == 1 && (!visit->file.visible || is_out_of_reach(why))) {
		visit->report->from_memory = true;
		status = open_from_memory(visit, handle, why, sizeof(why));
	}
	if (status == 1)
		return error_set(visit->err, -ENOEXEC, "process %d could not load %s: %s%s", pid_of(visit), visit->file.path, why,
		                 strstr(why, "GLIBC_") || strstr(why, "undefined symbol")
		                         ? "; it was built for another libc or Ruby: build it where this process's Ruby is"
		                         : "");
	return status;
}

/* --- Step 4 */

static int start(struct visit *visit, uint64_t function)
{
	uint64_t result = 0;
	int status = call(visit, function, visit->mode == LOADER_ATTACH, 0, 0, &result);

	if (status < 0)
		return status;
	if ((int)result < 0)
		return error_set(
			visit->err, -ENOSYS,
			"the extension is loaded in process %d but cannot start: Ruby's signal handler was not found (%s)",
			pid_of(visit), strerror(-(int)result));
	visit->report->started = true;
	return 0;
}

/* dlopen's handle is the head of a struct link_map, which is public. */
static bool symbol_of_handle(const struct visit *visit, uint64_t handle, const char *name, uint64_t *address)
{
	uint64_t head[3]; /* l_addr, l_name, l_ld */

	return remote_read(&visit->remote, handle, head, sizeof(head)) &&
	       remote_symbol_in(&visit->remote, head[0], head[2], name, address);
}

static int load_stopped(struct visit *visit)
{
	uint64_t location = 0, handle, function = 0;
	int saved_errno, status;

	status = call(visit, visit->errno_location, 0, 0, 0, &location);
	if (status < 0)
		return status;
	if (!remote_read(&visit->remote, location, &saved_errno, sizeof(saved_errno)))
		return error_set(visit->err, -EFAULT, "the memory of process %d cannot be read", pid_of(visit));
	status = open_somehow(visit, &handle);
	if (status == 0) {
		visit->report->loaded = true;
		if (!symbol_of_handle(visit, handle, "rbprobe_start", &function))
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
		status = stop(visit, false, LOAD_PATIENCE_NS);
	if (status < 0)
		return status;
	status = load_stopped(visit);
	inject_resume(&visit->injection);
	return status;
}

/* --- A process in which the extension is loaded */

/* Whose handler SIGURG has; the process is stopped. */
static int bell_look(struct visit *visit, const struct remote_module *extension)
{
	uint64_t scratch = inject_scratch(&visit->injection), handler = 0;
	int64_t result = -1;
	int status = call_system(visit, SYS_rt_sigaction, SIGURG, 0, scratch, KERNEL_MASK_SIZE, &result);

	if (status < 0 || result != 0 || !remote_read(&visit->remote, scratch, &handler, sizeof(handler)))
		return status;
	/* Where the extension has not started, it will take the signal if nobody has. */
	if (extension)
		visit->report->bell = remote_module_has(extension, handler) ? LOADER_BELL_SIGNAL : LOADER_BELL_CALL;
	else
		visit->report->bell = handler == (uint64_t)(uintptr_t)SIG_DFL || handler == (uint64_t)(uintptr_t)SIG_IGN
		                              ? LOADER_BELL_SIGNAL
		                              : LOADER_BELL_CALL;
	return 0;
}

/* -1: it does not tell. */
static int startup_state(const struct visit *visit, const struct remote_module *extension, struct startup *startup)
{
	uint64_t address;

	if (!remote_symbol(&visit->remote, extension, "rbprobe_startup", &address) ||
	    !remote_read(&visit->remote, address, startup, sizeof(*startup)))
		return -1;
	startup->text[sizeof(startup->text) - 1] = '\0';
	return (int)startup->state;
}

static int visit_loaded(struct visit *visit, const struct remote_module *extension)
{
	uint64_t function = 0;
	struct startup startup;
	int state = startup_state(visit, extension, &startup), status;

	if (state == STARTUP_FAILED)
		return error_set(visit->err, -ENOSYS, "the extension is loaded in process %d but could not start: %s",
		                 pid_of(visit), startup.text);
	if (visit->mode == LOADER_STAY && state == STARTUP_DONE)
		return 0;
	status = stop(visit, true, LOOK_PATIENCE_NS);
	if (status < 0)
		return status;
	if (visit->ring) {
		uint64_t result;

		status = remote_symbol(&visit->remote, extension, "rbprobe_ring", &function)
		                 ? call(visit, function, 0, 0, 0, &result)
		                 : error_set(visit->err, -ENOSYS, "the extension in process %d is of another version",
		                             pid_of(visit));
		inject_resume(&visit->injection);
		return status;
	}
	status = bell_look(visit, state == STARTUP_DONE || state == -1 ? extension : NULL);
	/* Another client has just loaded it, and Ruby has not come to it: say that there is one more who waits. */
	if (status == 0 && state == STARTUP_ASKED && remote_symbol(&visit->remote, extension, "rbprobe_start", &function))
		status = start(visit, function);
	inject_resume(&visit->injection);
	if (status < 0 || state != STARTUP_NONE || !remote_symbol(&visit->remote, extension, "rbprobe_start", &function))
		return status;
	/* It is mapped and has not started: a loader was killed in between. Starting makes a thread, so it needs a safe place. */
	status = stop(visit, false, LOAD_PATIENCE_NS);
	if (status == 0) {
		status = start(visit, function);
		inject_resume(&visit->injection);
	}
	return status;
}

/* --- The visit */

static int visit_run(struct visit *visit)
{
	const struct remote_module *extension;
	uint64_t deadline_ns = clock_now_ns() + LOAD_PATIENCE_NS;
	int status;

	/* Of several clients one has it at a time, for a moment. */
	while ((status = inject_seize(&visit->injection, visit->target->pid)) == -EPERM &&
	       trace_permission_waits_for_us(visit->target) && clock_now_ns() < deadline_ns) {
		struct timespec pause = {.tv_nsec = (long)BACK_OFF_MAX_NS};

		nanosleep(&pause, NULL);
	}
	if (status < 0)
		return trace_permission_explain(visit->target, status, visit->err);
	status = map_read(visit);
	if (status < 0)
		return status;
	extension = remote_module_file(&visit->remote, EXTENSION_FILE);
	if (extension)
		return visit_loaded(visit, extension);
	if (visit->mode == LOADER_LOOK)
		return error_set(visit->err, -ENOEXEC, "process %d has not loaded the rbprobe extension", pid_of(visit));
	/* Asked before loading: it is what the extension will respect. */
	status = stop(visit, true, LOAD_PATIENCE_NS);
	if (status == 0) {
		status = bell_look(visit, NULL);
		inject_resume(&visit->injection);
	}
	return status < 0 ? status : load(visit);
}

/* What the helper has to say. */
struct visit_result {
	int status; /* the first member to be written last: a helper that died has written nothing */
	struct loader_report report;
	struct error err;
};

static void visit_help(struct visit *visit, struct visit_result *result)
{
	sigset_t all;

	/* A Ctrl-C is for all of the terminal's foreground group, and a kill -9 of that group as well: this is not in it. */
	setsid();
	signal(SIGCHLD, SIG_DFL);
	/* While we wait for a processor, the other process stands still. Refused to all but root, who asks for it where machines are busy. */
	setpriority(PRIO_PROCESS, 0, -20);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	visit->remote = REMOTE_CLOSED;
	visit->file = LOADER_FILE_CLOSED;
	visit->report = &result->report;
	visit->err = &result->err;
	visit->began_ns = clock_now_ns();
	visit->client = getppid();
	result->report.stops = 0;
	result->status = visit_run(visit);
	inject_release(&visit->injection);
	result->report.stopped_ns = visit->injection.stopped_longest_ns;
	result->report.took_ns = clock_now_ns() - visit->began_ns;
	_exit(0);
}

/*
 * In a process of its own: the client may be killed at any moment, with -9 and with all of its group, and what was begun in the other process must be finished all
 * the same. And the kernel lets go of everything that a process traces when that process ends, whatever happened.
 */
static int visit_make(struct visit *visit)
{
	struct visit_result *result;
	int status = -EIO, ended;
	pid_t helper;

	if (arch.refusal)
		return error_set(visit->err, -ENOEXEC, "%s", arch.refusal);
	result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (result == MAP_FAILED)
		return error_set(visit->err, -errno, "cannot get memory: %s", strerror(errno));
	result->status = 1;
	helper = fork();
	if (helper == 0)
		visit_help(visit, result);
	if (helper < 0) {
		status = error_set(visit->err, -errno, "cannot start a process: %s", strerror(errno));
	} else {
		while (waitpid(helper, &ended, 0) < 0 && errno == EINTR)
			;
		status = result->status;
		*visit->report = result->report;
		if (status == 1)
			status = error_set(visit->err, -EIO, "rbprobe's loader was killed while it was at work in process %d",
			                   pid_of(visit));
		else if (status < 0 && visit->err)
			*visit->err = result->err;
	}
	munmap(result, sizeof(*result));
	return status;
}

int loader_prepare(const struct target *target, enum loader_mode mode, struct loader_report *report, struct error *err)
{
	struct visit visit = {.target = target, .mode = mode, .report = report, .err = err};
	int status;

	memset(report, 0, sizeof(*report));
	status = visit_make(&visit);
	/* What is loaded already can be spoken to without being traced. */
	if (target->extension_mapped && !report->started && status < 0 && status != -ENOSYS && status != -ESRCH)
		return 0;
	return status;
}

void loader_describe(const struct loader_report *report, pid_t pid, char *text, size_t size)
{
	const char *bell =
		report->bell == LOADER_BELL_CALL ? "; the application has SIGURG, so its bell is rung by calling it" : "";

	if (report->loaded)
		snprintf(text, size,
		         "process %d: loaded the extension%s in %.1f ms; the main thread was stopped for %.2f ms (%u stop%s)%s",
		         (int)pid, report->from_memory ? " from memory" : "", (double)report->took_ns / 1e6,
		         (double)report->stopped_ns / 1e6, report->stops, report->stops == 1 ? "" : "s", bell);
	else
		snprintf(text, size, "process %d: the extension was loaded already%s", (int)pid, bell);
}

int loader_ring(const struct target *target, struct error *err)
{
	struct loader_report report = {0};
	struct visit visit = {.target = target, .mode = LOADER_LOOK, .ring = true, .report = &report, .err = err};
	int status = visit_make(&visit);

	return status == -ETIMEDOUT ? -EAGAIN : status;
}

int loader_has_started(const struct target *target, struct error *err)
{
	struct visit visit = {.target = target};
	struct startup startup;
	int state = -1;

	if (remote_open(&visit.remote, target->pid, NULL) < 0)
		return 1;
	state = startup_state(&visit, remote_module_file(&visit.remote, EXTENSION_FILE), &startup);
	remote_close(&visit.remote);
	if (state == STARTUP_FAILED)
		return error_set(err, -ENOSYS, "the extension is loaded in process %d but could not start: %s", (int)target->pid,
		                 startup.text);
	return state < 0 || state == STARTUP_DONE;
}
