/*
 * Explaining EPERM. See trace_permission.h. First the facts are gathered, then they are judged, in the order of the
 * kernel's own checks.
 */

#define _GNU_SOURCE
#include "tracer/process/trace_permission.h"

#include "tracer/base/proc_file.h"
#include "tracer/base/proc_status.h"

#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <unistd.h>

#define CAPABILITY_SYS_PTRACE 19
#define NO_SUCH_SETTING (-1)

static int yama_scope(void)
{
	char text[32];

	return text_file_read("/proc/sys/kernel/yama/ptrace_scope", text, sizeof(text)) > 0 ? atoi(text) : NO_SUCH_SETTING;
}

static bool have_capability(void)
{
	return proc_status_number(getpid(), "CapEff", 16, 0) >> CAPABILITY_SYS_PTRACE & 1;
}

static pid_t tracer_of(const struct target *target)
{
	return (pid_t)proc_status_number(target->pid, "TracerPid", 10, 0);
}

static void name_of(pid_t pid, char *name, size_t size)
{
	if (proc_file_read(pid, "comm", name, size) <= 0)
		snprintf(name, size, "?");
	name[strcspn(name, "\n")] = '\0';
}

/* A security module's name for what confines the process. */
static void label_of(pid_t pid, char *label, size_t size)
{
	if (proc_file_read(pid, "attr/current", label, size) <= 0)
		label[0] = '\0';
	label[strcspn(label, "\n")] = '\0';
}

/* No process has the number 0, which is found out after the filters. */
static bool ptrace_forbidden(void)
{
	return ptrace(PTRACE_SEIZE, 0, NULL, NULL) != 0 && errno != ESRCH;
}

static bool in_our_user_namespace(const struct target *target)
{
	char path[64];
	struct stat ours, theirs;

	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)target->pid);
	return stat("/proc/self/ns/user", &ours) != 0 || stat(path, &theirs) != 0 || ours.st_ino == theirs.st_ino;
}

bool trace_permission_is_closed(const struct target *target)
{
	char path[32];
	struct stat status;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)target->pid);
	return stat(path, &status) == 0 && status.st_uid != target->euid;
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

/* --- Judging */

/* What a remedy that begins with "run rbprobe as root" has to add where that cannot work. */
static const char *sudo_note(const struct trace_facts *facts)
{
	return facts->no_new_privs ? " (not by sudo from this shell: it runs with no_new_privs, which switches sudo off)" : "";
}

static int judge_with_capability(const struct trace_facts *facts, struct error *err)
{
	return error_set(
		err, -EPERM, "process %d may not be traced even with CAP_SYS_PTRACE: %s", (int)facts->pid,
		facts->same_user_namespace
			? "a security module (AppArmor, SELinux) forbids it, or it is part of the kernel; rbprobe has to "
			  "run outside of that confinement"
			: "its user namespace does not belong to us; run rbprobe as root of the host");
}

static int judge_other_user(const struct trace_facts *facts, struct error *err)
{
	struct passwd *user = getpwuid(facts->target_euid);

	return error_set(err, -EPERM, "process %d belongs to user %s (%u); run rbprobe as that user or as root%s",
	                 (int)facts->pid, user ? user->pw_name : "?", (unsigned)facts->target_euid, sudo_note(facts));
}

static int judge_scope(const struct trace_facts *facts, struct error *err)
{
	if (facts->yama_scope == 2)
		return error_set(
			err, -EPERM,
			"kernel.yama.ptrace_scope is 2 on this machine: only those with CAP_SYS_PTRACE may trace; run rbprobe as "
			"root%s",
			sudo_note(facts));
	return error_set(err, -EPERM,
	                 "kernel.yama.ptrace_scope is 1 on this machine: a process may be traced only by those who started it, "
	                 "or with CAP_SYS_PTRACE; run rbprobe as root%s, or: sysctl kernel.yama.ptrace_scope=0",
	                 sudo_note(facts));
}

/*
 * A user's own process, which needs no capability, and yet another profile's. SELinux gives almost every two processes
 * different labels: where the kernel has a reason of its own, they say nothing.
 */
static bool is_kept_apart(const struct trace_facts *facts)
{
	return facts->yama_scope <= 0 && !facts->closed && facts->target_euid == facts->own_euid && facts->own_label[0] != '\0' &&
	       facts->label[0] != '\0' && strcmp(facts->own_label, "unconfined") != 0 &&
	       strcmp(facts->own_label, facts->label) != 0;
}

int trace_permission_judge(const struct trace_facts *facts, struct error *err)
{
	int pid = (int)facts->pid;

	if (facts->has_ended)
		return error_set(err, -ESRCH, "process %d ended while rbprobe was looking at it", pid);
	if (facts->tracer > 0)
		return error_set(
			err, -EBUSY,
			"process %d is being traced by %s (process %d) already, and only one tracer is possible; let that one "
			"go first",
			pid, facts->tracer_name, (int)facts->tracer);
	if (facts->ptrace_forbidden)
		return error_set(
			err, -EPERM,
			"rbprobe runs under a seccomp filter (a container's, perhaps) that forbids ptrace; allow it (docker "
			"run --cap-add SYS_PTRACE), or run rbprobe on the host");
	if (facts->code != -EPERM && facts->code != -EACCES)
		return error_set(err, facts->code, "process %d cannot be traced: %s", pid, strerror(-facts->code));
	if (facts->yama_scope == 3)
		return error_set(
			err, -EPERM,
			"kernel.yama.ptrace_scope is 3 on this machine: nobody may trace a process until the next boot; require "
			"\"rbprobe\" in the program instead");
	if (facts->have_capability)
		return judge_with_capability(facts, err);
	if (is_kept_apart(facts))
		return error_set(
			err, -EPERM,
			"process %d may not be traced: a security module (AppArmor, SELinux) has rbprobe in \"%s\" and the "
			"process in \"%s\"; run rbprobe in the same (docker run --security-opt), or on the host",
			pid, facts->own_label, facts->label);
	if (facts->own_euid == 0)
		return error_set(
			err, -EPERM,
			"this root has no CAP_SYS_PTRACE (a container's, perhaps), and process %d is out of its reach; add "
			"the capability (docker run --cap-add SYS_PTRACE), or run rbprobe on the host",
			pid);
	if (facts->target_euid != facts->own_euid)
		return judge_other_user(facts, err);
	if (facts->yama_scope == 1 || facts->yama_scope == 2)
		return judge_scope(facts, err);
	return error_set(
		err, -EPERM,
		"process %d is yours but may not be traced: it changed its user, dropped privileges or runs a program that may "
		"not be read; run rbprobe as root%s",
		pid, sudo_note(facts));
}

int trace_permission_explain(const struct target *target, int code, struct error *err)
{
	struct trace_facts facts = {
		.pid = target->pid,
		.code = code,
		.has_ended = code == -ESRCH || !target_is_same(target),
		.tracer = tracer_of(target),
		.ptrace_forbidden = ptrace_forbidden(),
		.yama_scope = yama_scope(),
		.have_capability = have_capability(),
		.no_new_privs = proc_status_number(getpid(), "NoNewPrivs", 10, 0),
		.same_user_namespace = in_our_user_namespace(target),
		.closed = trace_permission_is_closed(target),
		.own_euid = geteuid(),
		.target_euid = target->euid,
	};

	if (facts.tracer > 0)
		name_of(facts.tracer, facts.tracer_name, sizeof(facts.tracer_name));
	label_of(getpid(), facts.own_label, sizeof(facts.own_label));
	label_of(target->pid, facts.label, sizeof(facts.label));
	return trace_permission_judge(&facts, err);
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
