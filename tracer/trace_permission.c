/* Explaining EPERM. See trace_permission.h. The order is that of the kernel's own checks. */

#define _GNU_SOURCE
#include "trace_permission.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CAPABILITY_SYS_PTRACE 19
#define NO_SUCH_SETTING (-1)

static bool text_read(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return false;
	got = read(fd, text, size - 1);
	close(fd);
	text[got > 0 ? got : 0] = '\0';
	return got > 0;
}

/* A number of /proc/PID/status; base as strtoull takes it. */
static unsigned long long status_number(const char *pid, const char *field, int base, unsigned long long missing)
{
	char path[64], text[8192], name[32];
	const char *at;

	snprintf(path, sizeof(path), "/proc/%s/status", pid);
	snprintf(name, sizeof(name), "\n%s:", field);
	if (!text_read(path, text, sizeof(text)) || !(at = strstr(text, name)))
		return missing;
	return strtoull(at + strlen(name), NULL, base);
}

static int yama_scope(void)
{
	char text[32];

	return text_read("/proc/sys/kernel/yama/ptrace_scope", text, sizeof(text)) ? atoi(text) : NO_SUCH_SETTING;
}

static bool have_capability(void)
{
	return status_number("self", "CapEff", 16, 0) >> CAPABILITY_SYS_PTRACE & 1;
}

static pid_t tracer_of(const struct target *target)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)target->pid);
	return (pid_t)status_number(pid, "TracerPid", 10, 0);
}

static bool in_our_user_namespace(const struct target *target)
{
	char path[64];
	struct stat ours, theirs;

	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)target->pid);
	return stat("/proc/self/ns/user", &ours) != 0 || stat(path, &theirs) != 0 || ours.st_ino == theirs.st_ino;
}

/* What a remedy that begins with "run rbprobe as root" has to add where that cannot work. */
static const char *sudo_note(void)
{
	return status_number("self", "NoNewPrivs", 10, 0)
	               ? " (not by sudo from this shell: it runs with no_new_privs, which switches sudo off)"
	               : "";
}

bool trace_permission_waits_for_us(const struct target *target)
{
	struct stat ours, theirs;
	char path[64];
	pid_t tracer = tracer_of(target);

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)tracer);
	return tracer > 0 && stat("/proc/self/exe", &ours) == 0 && stat(path, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
	       ours.st_ino == theirs.st_ino;
}

int trace_permission_explain(const struct target *target, int code, struct error *err)
{
	int pid = (int)target->pid, scope = yama_scope();
	pid_t tracer = tracer_of(target);
	struct passwd *user;

	if (code == -ESRCH || !target_is_same(target))
		return error_set(err, -ESRCH, "process %d ended while rbprobe was looking at it", pid);
	if (tracer > 0) {
		char path[64], name[64] = "?";

		snprintf(path, sizeof(path), "/proc/%d/comm", (int)tracer);
		text_read(path, name, sizeof(name));
		name[strcspn(name, "\n")] = '\0';
		return error_set(
			err, -EBUSY,
			"process %d is being traced by %s (process %d) already, and only one tracer is possible; let that one "
			"go first",
			pid, name, (int)tracer);
	}
	if (code != -EPERM && code != -EACCES)
		return error_set(err, code, "process %d cannot be traced: %s", pid, strerror(-code));
	if (scope == 3)
		return error_set(
			err, -EPERM,
			"kernel.yama.ptrace_scope is 3 on this machine: nobody may trace a process until the next boot; require "
			"\"rbprobe\" in the program instead");
	if (have_capability())
		return error_set(err, -EPERM, "process %d may not be traced even with CAP_SYS_PTRACE: %s", pid,
		                 in_our_user_namespace(target)
		                         ? "a security module (AppArmor, SELinux, a container's seccomp profile) forbids it, or "
		                           "it is part "
		                           "of the kernel; rbprobe has to run outside of that confinement"
		                         : "its user namespace does not belong to us; run rbprobe as root of the host");
	user = getpwuid(target->euid);
	if (target->euid != geteuid())
		return error_set(err, -EPERM, "process %d belongs to user %s (%u); run rbprobe as root%s", pid,
		                 user ? user->pw_name : "?", (unsigned)target->euid, sudo_note());
	if (scope == 2)
		return error_set(
			err, -EPERM,
			"kernel.yama.ptrace_scope is 2 on this machine: only those with CAP_SYS_PTRACE may trace; run rbprobe as "
			"root%s",
			sudo_note());
	if (scope == 1)
		return error_set(
			err, -EPERM,
			"kernel.yama.ptrace_scope is 1 on this machine: a process may be traced only by those who started it, "
			"or with CAP_SYS_PTRACE; run rbprobe as root%s, or: sysctl kernel.yama.ptrace_scope=0",
			sudo_note());
	if (geteuid() == 0)
		return error_set(
			err, -EPERM,
			"this root has no CAP_SYS_PTRACE (a container's, perhaps), and process %d is out of its reach; add "
			"the capability (docker run --cap-add SYS_PTRACE), or run rbprobe on the host",
			pid);
	return error_set(
		err, -EPERM,
		"process %d is yours but may not be traced: it changed its user, dropped privileges or runs a program that may "
		"not be read; run rbprobe as root%s",
		pid, sudo_note());
}

const char *trace_permission_obstacle(const struct target *target)
{
	int scope = yama_scope();

	if (tracer_of(target) > 0)
		return "being traced";
	if (scope == 3 || (scope > 0 && !have_capability()))
		return "ptrace_scope";
	if (target->euid != geteuid() && !have_capability())
		return "other user's";
	return NULL;
}
