/*
 * Describing a process from /proc. Whether it is Ruby is told by what it has loaded, never by its name: either a libruby is mapped, or
 * the executable itself defines the VM's functions (a Ruby built without a shared library, or a program that embeds one).
 */

#define _GNU_SOURCE
#include "target.h"

#include "proto/clock.h"
#include "target_copy.h"
#include "target_files.h"
#include "trace_permission.h"

#include "proto/bell.h"
#include "proto/names.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOAD_REMEDY                                                                                                              \
	"load it with: rbprobe load -p PID, or start it with: ruby -I \"$(rbprobe extension-dir)\" -rrbprobe ..., or add "       \
	"require \"rbprobe\" to the program"

/* Reads a whole file of /proc/PID. Returns its size, the text ending with a NUL that is not counted, or -errno. */
static ssize_t proc_read(pid_t pid, const char *name, char *text, size_t size)
{
	char path[64];
	size_t filled = 0;
	ssize_t got = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (filled < size - 1 && (got = read(fd, text + filled, size - 1 - filled)) > 0)
		filled += (size_t)got;
	if (got < 0)
		got = -errno;
	close(fd);
	text[filled] = '\0';
	return filled ? (ssize_t)filled : got;
}

/* State and start time: fields 3 and 22; the command's name before them may hold anything, parentheses included. */
static int stat_read(pid_t pid, char *state, uint64_t *start_ticks)
{
	char text[1024], *field;
	ssize_t size = proc_read(pid, "stat", text, sizeof(text));

	if (size <= 0)
		return size < 0 ? (int)size : -ESRCH;
	field = strrchr(text, ')');
	if (!field || field[1] != ' ')
		return -EPROTO;
	field += 2;
	*state = *field;
	for (int i = 3; i < 22; i++) {
		field = strchr(field, ' ');
		if (!field)
			return -EPROTO;
		field++;
	}
	*start_ticks = strtoull(field, NULL, 10);
	return 0;
}

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
	ssize_t size = proc_read(target->pid, "status", text, sizeof(text));
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

/* What a version may have in it, with the suffixes that some builds have: the name is the process's choice, and is shown. */
#define ABI_CHARACTERS "0123456789.+-_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* "…/lib/ruby/3.1.0/…" names the ABI, as RbConfig::CONFIG["ruby_version"] does. */
static void abi_from_path(struct target *target, const char *path)
{
	const char *at = path;

	while (target->abi[0] == '\0' && (at = strstr(at, "/ruby/"))) {
		size_t length;

		at += strlen("/ruby/");
		length = strcspn(at, "/");
		if (isdigit((unsigned char)*at) && memchr(at, '.', length) && strspn(at, ABI_CHARACTERS) >= length &&
		    length < sizeof(target->abi)) {
			memcpy(target->abi, at, length);
			target->abi[length] = '\0';
		}
	}
}

static void mapping_judge(struct target *target, char *path)
{
	char *name = strrchr(path, '/'), *deleted;

	if (!name)
		return;
	name++;
	deleted = strstr(name, " (deleted)");
	if (deleted)
		*deleted = '\0';
	/* The loader's copy in memory has the file's name. */
	if (strncmp(name, "memfd:", 6) == 0)
		name += 6;
	if (strcmp(name, EXTENSION_FILE) == 0)
		target->extension_mapped = true;
	if (strncmp(name, "libruby", 7) == 0 && strstr(name, ".so")) {
		target->is_ruby = true;
		snprintf(target->libruby, sizeof(target->libruby), "%s", path);
	}
	abi_from_path(target, path);
}

/* The map has a line for each mapping; the path, if any, is its sixth column. */
static int maps_read(struct target *target)
{
	char path[64], *line = NULL;
	size_t capacity = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)target->pid);
	maps = fopen(path, "re");
	if (!maps)
		return -errno;
	setvbuf(maps, NULL, _IOFBF, 65536);
	while (getline(&line, &capacity, maps) > 0) {
		char *file = strchr(line, '/');

		if (!file)
			continue;
		file[strcspn(file, "\n")] = '\0';
		mapping_judge(target, file);
	}
	target->readable = !ferror(maps);
	free(line);
	fclose(maps);
	return target->readable ? 0 : -EACCES;
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
	status = stat_read(pid, &target->state, &target->start_ticks);
	if (status == 0)
		status = status_read(target);
	if (status == 0) {
		maps_read(target); /* what may not be read stays unknown: target->readable */
		target->same_pid_namespace = namespace_is_ours(pid, "pid", &home_pid);
		target->same_ipc_namespace = namespace_is_ours(pid, "ipc", &home_ipc);
		if (target->readable && !target->is_ruby)
			target->is_ruby = target_program_is_ruby(target);
		if (target->is_ruby && detail == TARGET_VERSION)
			target_read_version(target);
		return 0;
	}
	if (status == -ENOENT || status == -ESRCH)
		return error_set(err, -ESRCH, "no process has the PID %d; `rbprobe ps` lists the Ruby processes", (int)pid);
	return error_set(err, status, "cannot look at process %d: %s", (int)pid, strerror(-status));
}

int target_check(const struct target *target, struct error *err)
{
	int pid = (int)target->pid;

	if (target->group_pid != target->pid)
		return error_set(err, -ESRCH, "%d is a thread of process %d; give that PID: -p %d", pid, (int)target->group_pid,
		                 (int)target->group_pid);
	if (target->state == 'Z' || target->state == 'X')
		return error_set(err, -ESRCH, "process %d has ended already and waits for its parent to notice", pid);
	if (!target->readable)
		return trace_permission_explain(target, -EPERM, err);
	if (!target->is_ruby)
		return error_set(
			err, -EINVAL,
			"process %d is not a Ruby process: no libruby is loaded in it; `rbprobe ps` lists those that are", pid);
	if (copy_role_of(target->pid) != COPY_NONE)
		return error_set(
			err, -EBUSY,
			"process %d is a copy that rbprobe has made of another one: it runs nothing and cannot answer; a "
			"debugger can look at it",
			pid);
	if (target->state == 'T')
		return error_set(err, -EBUSY, "process %d is stopped and cannot answer; let it go on first, with: kill -CONT %d",
		                 pid, pid);
	return 0;
}

int target_check_loaded(const struct target *target, struct error *err)
{
	int pid = (int)target->pid;

	if (!target->extension_mapped)
		return error_set(err, -ENOEXEC, "process %d has not loaded the rbprobe extension; " LOAD_REMEDY, pid);
	if (target->state == 't')
		return error_set(err, -EBUSY, "process %d is stopped and cannot answer; let it go on first, with: kill -CONT %d",
		                 pid, pid);
	if (target->sigurg != SIGURG_CAUGHT)
		return error_set(
			err, -EBUSY,
			"process %d has loaded rbprobe, but the application has taken SIGURG from it (it is %s now); remove "
			"its trap(\"URG\"), or require \"rbprobe\" after it",
			pid, target->sigurg == SIGURG_IGNORED ? "ignored" : "not handled");
	return 0;
}

const char *target_attachable(const struct target *target)
{
	if (!target->readable)
		return "other user's";
	if (!target->extension_mapped)
		return "not loaded";
	if (target->state == 'T' || target->state == 't')
		return "stopped";
	if (target->sigurg != SIGURG_CAUGHT && bell_thread(target->pid) == 0)
		return "SIGURG taken";
	return "yes";
}

char target_state(const struct target *target)
{
	uint64_t start_ticks;
	char state;

	if (stat_read(target->pid, &state, &start_ticks) != 0 || start_ticks != target->start_ticks)
		return 0;
	return state;
}

bool target_is_same(const struct target *target)
{
	char state = target_state(target);

	return state != 0 && state != 'Z' && state != 'X';
}

int64_t target_start_time(const struct target *target)
{
	struct timespec boot, wall;
	double since_boot = (double)target->start_ticks / (double)sysconf(_SC_CLK_TCK);

	clock_gettime(CLOCK_BOOTTIME, &boot);
	clock_gettime(CLOCK_REALTIME, &wall);
	return (int64_t)((double)wall.tv_sec + (double)wall.tv_nsec / 1e9 - (double)boot.tv_sec - (double)boot.tv_nsec / 1e9 +
	                 since_boot);
}

void target_command_line(const struct target *target, char *text, size_t size)
{
	ssize_t length = proc_read(target->pid, "cmdline", text, size);

	if (length <= 0) {
		text[0] = '\0';
		return;
	}
	while (length > 0 && text[length - 1] == '\0')
		length--;
	for (ssize_t i = 0; i < length; i++)
		if (text[i] == '\0')
			text[i] = ' ';
}
