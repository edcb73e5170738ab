/*
 * Loading, as the rest of rbprobe sees it. See loader.h; load.c describes the steps.
 *
 * rbprobe must not end in the middle: the thread would return to a breakpoint that nobody waits for. So a helper process
 * that nobody kills does the work (load_make).
 */

#define _GNU_SOURCE
#include "tracer/inject/loader.h"

#include "proto/clock.h"
#include "tracer/base/debug.h"
#include "tracer/base/proc_status.h"
#include "tracer/inject/load.h"
#include "tracer/process/arch.h"

#include "proto/names.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS_MAX 5
#define HELPER_PATIENCE_NS (60 * NS_PER_S) /* more than all that has a limit of its own takes */
#define HELPER_LOOK_NS (100 * NS_PER_MS)

/* What the helper has to say. */
struct load_result {
	int status; /* written last; 1: the helper has died before that */
	struct loader_report report;
	struct error err;
	struct debug_lines debug;
};

/* The kernel's killer is to take others first, where we may say so. */
static void spare_from_memory_shortage(void)
{
	static const char never[] = "-1000";
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, never, sizeof(never) - 1) < 0)
		errno = 0; /* not permitted: as it was */
	close(fd);
}

static void load_help(struct load *load, struct load_result *result, int ends[2])
{
	sigset_t all;
	int status;

	close(ends[0]);
	/* A process that stands still does not wait for whoever reads them. */
	debug_divert(&result->debug);
	/* A Ctrl-C is for all of the terminal's foreground group, and a kill -9 of that group as well: this is not in it. */
	setsid();
	signal(SIGCHLD, SIG_DFL);
	spare_from_memory_shortage();
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	load->remote = REMOTE_CLOSED;
	load->report = &result->report;
	load->err = &result->err;
	load->began_ns = clock_now_ns();
	load->client = getppid();
	result->report.stops = 0;
	status = load_run(load);
	inject_release(&load->injection);
	result->report.stopped_ns = load->injection.stopped_longest_ns;
	result->report.waited_ns = load->injection.waited_then_ns;
	result->report.took_ns = clock_now_ns() - load->began_ns;
	debug(DEBUG_LOAD, "process %d: let go of it after %.1f ms, result %d; %u stops, the longest %.2f ms",
	      (int)load->target->pid, (double)result->report.took_ns / 1e6, status, result->report.stops,
	      (double)result->report.stopped_ns / 1e6);
	result->status = status;
	_exit(0);
}

/*
 * The pipe ends with the helper. False: it had to be killed. One that hangs in a file system may not even die: then it is not
 * waited for.
 */
static bool helper_await(pid_t helper, int pipe, int *ended)
{
	uint64_t deadline_ns = clock_now_ns() + HELPER_PATIENCE_NS;
	struct pollfd end = {.fd = pipe, .events = POLLIN};
	bool in_time = true;

	while (poll(&end, 1, (int)(HELPER_LOOK_NS / NS_PER_MS)) <= 0) {
		if (clock_now_ns() < deadline_ns)
			continue;
		if (!in_time)
			return false;
		in_time = false;
		kill(helper, SIGKILL);
		deadline_ns += NS_PER_S;
	}
	while (waitpid(helper, ended, 0) < 0 && errno == EINTR)
		;
	return in_time;
}

/*
 * In a process of its own: the client may be killed at any moment, with -9 and with all of its group, and what was begun in
 * the other process must be finished all the same. And the kernel lets go of everything that a process traces when that
 * process ends, whatever happened.
 */
static int load_make(struct load *load)
{
	struct load_result *result;
	int status = -EIO, ended = 0, ends[2];
	pid_t helper;

	if (arch.refusal)
		return error_set(load->err, -ENOEXEC, "%s", arch.refusal);
	result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (result == MAP_FAILED)
		return error_set(load->err, -errno, "cannot get memory: %s", strerror(errno));
	if (pipe2(ends, O_CLOEXEC) != 0) {
		munmap(result, sizeof(*result));
		return error_set(load->err, -errno, "cannot make a pipe: %s", strerror(errno));
	}
	result->status = 1;
	helper = fork();
	if (helper == 0)
		load_help(load, result, ends);
	close(ends[1]);
	if (helper < 0) {
		status = error_set(load->err, -errno, "cannot start a process: %s", strerror(errno));
	} else {
		bool in_time = helper_await(helper, ends[0], &ended);

		status = result->status;
		*load->report = result->report;
		debug_show(&result->debug);
		if (status == 1 && WIFSIGNALED(ended) && WTERMSIG(ended) == SIGSYS)
			status = error_set(load->err, -EPERM,
			                   "rbprobe runs under a seccomp filter (a container's, perhaps) that "
			                   "kills for ptrace; run it outside of that");
		else if (status == 1 && !in_time)
			status = error_set(
				load->err, -EIO,
				"process %d kept rbprobe's loader busy for more than %g s: its memory lies in files on a "
				"file system that does not answer, or it is hostile",
				(int)load->target->pid, (double)HELPER_PATIENCE_NS / 1e9);
		else if (status == 1)
			status = error_set(load->err, -EIO, "rbprobe's loader was killed while it was at work in process %d",
			                   (int)load->target->pid);
		else if (status < 0 && load->err)
			*load->err = result->err;
	}
	close(ends[0]);
	munmap(result, sizeof(*result));
	return status;
}

/* Threads that come and go: one that has just ended was the wrong one, and the next may wait for longer. */
static int load_make_by_any_thread(struct load *load)
{
	int status = load_make(load);

	for (unsigned tries = 1; status == LOAD_THREAD_LEFT && tries < THREADS_MAX; tries++)
		status = load_make(load);
	return status;
}

int loader_prepare(const struct target *target, const struct loader_wish *wish, struct loader_report *report, struct error *err)
{
	struct load load = {.target = target, .mode = wish->mode, .interrupt = wish->interrupt, .report = report, .err = err};
	int status;

	memset(report, 0, sizeof(*report));
	status = load_make_by_any_thread(&load);
	/*
	 * What is loaded already can be spoken to without being traced, unless SIGURG was given back: only a load takes it
	 * again.
	 */
	if (target->extension_mapped && !report->started && status < 0 && status != -ENOSYS && status != -ESRCH &&
	    status != -ESTALE && !loader_bell_is_gone(target))
		return 0;
	return status;
}

void loader_describe(const struct loader_report *report, pid_t pid, char *text, size_t size)
{
	const char *bell = report->bell == LOADER_BELL_CALL ? "; the application has SIGURG, and keeps it" : "";
	char thread[48] = "the main thread";

	if (report->thread != pid)
		snprintf(thread, sizeof(thread), "thread %d", (int)report->thread);

	if (report->loaded)
		snprintf(text, size,
		         "process %d: loaded the extension%s in %.1f ms; %s was stopped for %.2f ms "
		         "(%.2f ms of it waiting for a processor; %u stop%s)%s",
		         (int)pid, report->from_memory ? " from memory" : "", (double)report->took_ns / 1e6, thread,
		         (double)report->stopped_ns / 1e6, (double)report->waited_ns / 1e6, report->stops,
		         report->stops == 1 ? "" : "s", bell);
	else
		snprintf(text, size, "process %d: the extension was loaded already%s", (int)pid, bell);
}

bool loader_bell_is_gone(const struct target *target)
{
	unsigned long long used =
		proc_status_number(target->pid, "SigCgt", 16, ~0ull) | proc_status_number(target->pid, "SigIgn", 16, ~0ull);

	return !(used >> (SIGURG - 1) & 1);
}

int loader_ring(const struct target *target, struct error *err)
{
	struct loader_report report = {0};
	struct load load = {.target = target, .mode = LOADER_LOOK, .ring = true, .report = &report, .err = err};
	int status = load_make_by_any_thread(&load);

	return status == -ETIMEDOUT || status == LOAD_THREAD_LEFT ? -EAGAIN : status;
}

int loader_look(const struct target *target, struct loader_look *look, struct error *err)
{
	struct loader_report report = {0};
	struct load load = {.target = target, .mode = LOADER_LOOK, .report = &report, .err = err};
	int status;

	load.look = mmap(NULL, sizeof(*look), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (load.look == MAP_FAILED)
		return error_set(err, -errno, "cannot get memory: %s", strerror(errno));
	load.look->tid = look->tid;
	load.look->others = look->others;
	status = load_make(&load);
	if (status == 0)
		memcpy(look, load.look, sizeof(*look));
	munmap(load.look, sizeof(*look));
	return status;
}

int loader_has_started(const struct target *target, struct error *err)
{
	struct load load = {.target = target};
	struct startup startup;
	int state;

	if (remote_open(&load.remote, target->pid, NULL) < 0)
		return 1;
	state = load_startup_state(&load, remote_module_file(&load.remote, EXTENSION_FILE), &startup);
	remote_close(&load.remote);
	if (state == STARTUP_FAILED)
		return error_set(err, -ENOSYS, "the extension is loaded in process %d but could not start: %s", (int)target->pid,
		                 startup.text);
	return state < 0 || state == STARTUP_DONE;
}
