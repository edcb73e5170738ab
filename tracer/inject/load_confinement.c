/*
 * Whether a seccomp filter lets the extension do its work. See load.h.
 *
 * A filter that answers with an error is an inconvenience; one that kills would kill the process for what rbprobe has it do.
 * So the filters are read and asked about each system call that rbprobe or the extension makes there and a Ruby program need
 * not. Reading them takes CAP_SYS_ADMIN. Who has not, but runs under as many filters (in the same container: `docker exec`),
 * has the calls made by a process of his own, which may be killed.
 */

#define _GNU_SOURCE
#include "tracer/inject/load.h"

#include "tracer/base/debug.h"
#include "tracer/base/proc_status.h"
#include "tracer/inject/seccomp_filter.h"
#include "tracer/process/arch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum need {
	NEEDED,      /* no session without it */
	HELPFUL,     /* there is another way where it is refused by an error */
	MEMORY_FILE, /* needed for loading from memory only */
};

/* The arguments are those which filters look at, if any; made with them, the calls do nothing. */
static const struct probe {
	const char *name;
	long number;
	long arguments[3];
	enum need need;
} probes[] = {
	{"memfd_create", SYS_memfd_create, {0}, MEMORY_FILE},
	{"msgget", SYS_msgget, {0x7fffffff}, NEEDED},
	{"msgctl", SYS_msgctl, {-1}, NEEDED},
	{"msgrcv", SYS_msgrcv, {-1}, NEEDED},
	{"socket", SYS_socket, {AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC}, NEEDED},
	{"fcntl", SYS_fcntl, {-1, F_DUPFD_CLOEXEC}, NEEDED},
	{"connect", SYS_connect, {-1}, NEEDED},
	{"getsockopt", SYS_getsockopt, {-1}, NEEDED},
	{"sendto", SYS_sendto, {-1}, NEEDED},
	{"timer_create", SYS_timer_create, {-1}, HELPFUL},
	{"timer_settime", SYS_timer_settime, {-1}, HELPFUL},
	{"process_vm_readv", SYS_process_vm_readv, {0}, HELPFUL},
	{"tgkill", SYS_tgkill, {0}, HELPFUL},
	{"rt_sigtimedwait", SYS_rt_sigtimedwait, {0}, HELPFUL},
	{"prctl", SYS_prctl, {-1}, HELPFUL},
};
#define PROBE_COUNT (sizeof(probes) / sizeof(*probes))

static int read_filters(struct load *load, struct seccomp_filters *filters)
{
	int status = load_stop(load, true, LOAD_PATIENCE_NS);

	if (status < 0)
		return status;
	status = seccomp_filters_read(filters, load->target->pid);
	inject_resume(&load->injection);
	return status < 0 ? 1 : 0;
}

static enum seccomp_verdict judge(const struct seccomp_filters *filters, const struct probe *probe)
{
	struct seccomp_data call = {.nr = (int)probe->number, .arch = arch.audit_machine};

	for (size_t i = 0; i < sizeof(probe->arguments) / sizeof(*probe->arguments); i++)
		call.args[i] = (uint64_t)probe->arguments[i];
	return seccomp_filters_judge(filters, &call);
}

/* Makes the call in a process that may be killed for it. */
static enum seccomp_verdict try(const struct probe *probe)
{
	pid_t child = fork();
	int status = 0;

	if (child == 0) {
		prctl(PR_SET_DUMPABLE, 0); /* no core file */
		syscall(probe->number, probe->arguments[0], probe->arguments[1], probe->arguments[2], 0, 0, 0);
		_exit(errno == EPERM || errno == ENOSYS);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return SECCOMP_DEADLY;
	return WEXITSTATUS(status) ? SECCOMP_REFUSED : SECCOMP_ALLOWED;
}

static int refused(struct load *load, const struct probe *probe, enum seccomp_verdict verdict)
{
	return error_set(
		load->err, -EPERM,
		"process %d runs under a seccomp filter that %s %s, which the extension needs; nothing was changed; allow it "
		"in the filter (of its container, service or program)",
		(int)load->target->pid, verdict == SECCOMP_DEADLY ? "would kill it for" : "forbids it", probe->name);
}

int load_check_confinement(struct load *load)
{
	pid_t pid = load->target->pid;
	unsigned long long mode = proc_status_number(pid, "Seccomp", 10, SECCOMP_MODE_DISABLED),
			   count = proc_status_number(pid, "Seccomp_filters", 10, 0);
	struct seccomp_filters filters = {0};
	int unread;

	if (mode == SECCOMP_MODE_DISABLED)
		return 0;
	unread = read_filters(load, &filters);
	if (unread < 0)
		return unread;
	if (unread && (count == 0 || proc_status_number(getpid(), "Seccomp_filters", 10, 0) != count))
		return error_set(
			load->err, -EPERM,
			"process %d runs under a seccomp filter that rbprobe may not read, and that might kill it for what the "
			"extension does; run rbprobe as root, or " LOADER_READY_REMEDY,
			(int)pid);
	for (size_t i = 0; i < PROBE_COUNT; i++) {
		enum seccomp_verdict verdict = unread ? try(&probes[i]) : judge(&filters, &probes[i]);

		if (verdict == SECCOMP_ALLOWED)
			continue;
		debug(DEBUG_LOAD, "process %d: its seccomp filter %s %s%s", (int)pid,
		      verdict == SECCOMP_DEADLY ? "kills for" : "refuses", probes[i].name,
		      unread ? " (tried in a process of our own)" : "");
		if (verdict == SECCOMP_DEADLY || probes[i].need == NEEDED) {
			seccomp_filters_free(&filters);
			return refused(load, &probes[i], verdict);
		}
		if (probes[i].need == MEMORY_FILE)
			load->memory_file_forbidden = true;
	}
	seccomp_filters_free(&filters);
	return 0;
}
