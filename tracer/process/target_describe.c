/*
 * Describing a process from /proc. What it has loaded shows whether it is Ruby, its name never does: either a
 * libruby is mapped, or the executable itself defines the VM's functions (a Ruby built without a shared library, or a
 * program that embeds one).
 */

#define _GNU_SOURCE
#include "tracer/base/proc_file.h"
#include "tracer/process/container.h"
#include "tracer/process/other_ruby.h"
#include "tracer/process/target.h"
#include "tracer/process/target_files.h"
#include "tracer/process/target_maps.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *status_field(const char *text, const char *name)
{
	size_t length = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		if (*line == '\n')
			line++;
		if (strncmp(line, name, length) == 0 && line[length] == ':')
			return line + length + 1;
	}
	return NULL;
}

static bool signal_in_mask(const char *mask, int number)
{
	return mask && (strtoull(mask, NULL, 16) >> (number - 1) & 1);
}

static int status_read(struct target *target)
{
	char text[8192], *end;
	ssize_t size = proc_file_read(target->pid, "status", text, sizeof(text));
	const char *field;

	if (size <= 0)
		return size < 0 ? (int)size : -ESRCH;
	field = status_field(text, "Uid");
	if (!field)
		return -EPROTO;
	strtoul(field, &end, 10);
	target->euid = (uid_t)strtoul(end, NULL, 10);
	field = status_field(text, "Gid");
	if (field) {
		strtoul(field, &end, 10);
		target->egid = (gid_t)strtoul(end, NULL, 10);
	}
	field = status_field(text, "Tgid");
	target->group_pid = field ? (pid_t)strtol(field, NULL, 10) : target->pid;
	target->own_pid = target->pid;
	field = status_field(text, "NSpid");
	while (field && (*field == '\t' || *field == ' ')) {
		target->own_pid = (pid_t)strtol(field, &end, 10);
		field = end;
	}
	target->sigurg = signal_in_mask(status_field(text, "SigCgt"), SIGURG)   ? SIGURG_CAUGHT
	                 : signal_in_mask(status_field(text, "SigIgn"), SIGURG) ? SIGURG_IGNORED
	                                                                        : SIGURG_DEFAULT;
	return 0;
}

bool target_follow_user(struct target *target)
{
	struct target now = *target;

	if (status_read(&now) < 0 || now.euid == target->euid || !target_is_same(target))
		return false;
	target->euid = now.euid;
	target->egid = now.egid;
	return true;
}

/* Ours is the one that rbprobe was started in: it goes into others to use their queues (queue.c). */
static bool namespace_is_ours(pid_t pid, const char *name, ino_t *home)
{
	struct stat ours, theirs;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
	if (*home == 0 && stat(path, &ours) == 0)
		*home = ours.st_ino;
	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name);
	return *home == 0 || stat(path, &theirs) != 0 || *home == theirs.st_ino;
}

int target_describe(struct target *target, pid_t pid, enum target_detail detail, struct error *err)
{
	static ino_t home_pid, home_ipc;
	int status;

	memset(target, 0, sizeof(*target));
	target->pid = pid;
	status = container_check_surroundings(err);
	if (status < 0)
		return status;
	status = proc_stat_read(pid, &target->state, &target->start_ticks);
	if (status == 0)
		status = status_read(target);
	if (status == 0) {
		target_maps_read(target, detail); /* what may not be read stays unknown: target->readable */
		target->same_pid_namespace = namespace_is_ours(pid, "pid", &home_pid);
		target->same_ipc_namespace = namespace_is_ours(pid, "ipc", &home_ipc);
		if (target->readable && target->has_memory && !target->is_ruby) {
			target->other_ruby = other_ruby(target);
			int is_ruby = target->other_ruby ? 0 : target_program_is_ruby(target);

			target->is_ruby = is_ruby == 1;
			target->program_error = is_ruby < 0 ? is_ruby : 0;
		}
		if (target->is_ruby && detail == TARGET_VERSION)
			target_read_version(target);
		return 0;
	}
	if (status == -ENOENT || status == -ESRCH)
		return error_set(err, -ESRCH, "no process has the PID %d; `rbprobe ps` lists the Ruby processes", (int)pid);
	return error_set(err, status, "cannot look at process %d: %s", (int)pid, strerror(-status));
}
