/* Copies of processes. See target_copy.h. */

#define _GNU_SOURCE
#include "tracer/process/target_copy.h"

#include "proto/clock.h"
#include "tracer/base/proc_file.h"
#include "tracer/base/proc_status.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SETTLE_NS (3 * NS_PER_S)

enum copy_role copy_role_of(pid_t pid)
{
	static const struct {
		const char *name;
		enum copy_role role;
	} names[] = {
		{"rbprobe-keeper\n", COPY_HELPING},
		{"rbprobe-dump\n", COPY_HELPING},
		{"rbprobe-frozen\n", COPY_FROZEN},
	};
	char name[32];

	if (proc_file_read(pid, "comm", name, sizeof(name)) <= 0)
		return COPY_NONE;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(name, names[i].name) == 0)
			return names[i].role;
	return COPY_NONE;
}

static bool same_namespace(pid_t one, pid_t other)
{
	char path[64], links[2][64] = {"", ""};

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)(i ? other : one));
		if (readlink(path, links[i], sizeof(links[i]) - 1) < 0)
			return false;
	}
	return strcmp(links[0], links[1]) == 0;
}

/* A process of the target's user with that role, which its parent has started and no other. */
static bool is_child(const struct target *target, pid_t pid, pid_t parent, enum copy_role role, struct target *child)
{
	return copy_role_of(pid) == role && target_describe(child, pid, TARGET_BASIC, NULL) == 0 && child->euid == target->euid &&
	       child->egid == target->egid && proc_status_number(pid, "PPid", 10, 0) == (unsigned long long)parent &&
	       target_is_same(child);
}

static bool is_copy(const struct target *target, pid_t pid, pid_t own_pid, uint64_t start_ticks)
{
	pid_t keeper = (pid_t)proc_status_number(pid, "PPid", 10, 0);
	struct target copy, parent;

	return keeper > 1 && is_child(target, keeper, target->pid, COPY_HELPING, &parent) &&
	       is_child(target, pid, keeper, COPY_FROZEN, &copy) && copy.own_pid == own_pid && copy.start_ticks >= start_ticks &&
	       same_namespace(pid, target->pid) && target_is_same(target);
}

static pid_t copy_find(const struct target *target, pid_t own_pid, uint64_t start_ticks)
{
	struct dirent *entry;
	pid_t found = 0;
	DIR *directory;

	if (target->same_pid_namespace)
		return own_pid > 0 && is_copy(target, own_pid, own_pid, start_ticks) ? own_pid : 0;
	directory = opendir("/proc");
	while (directory && !found && (entry = readdir(directory))) {
		pid_t pid = atoi(entry->d_name);

		if (pid > 0 && is_copy(target, pid, own_pid, start_ticks))
			found = pid;
	}
	if (directory)
		closedir(directory);
	return found;
}

uint64_t target_ticks_now(void)
{
	return clock_ns(CLOCK_BOOTTIME) / (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* The two give themselves their names after they have begun. */
pid_t target_frozen_copy(const struct target *target, pid_t own_pid, uint64_t start_ticks)
{
	uint64_t deadline_ns = clock_now_ns() + SETTLE_NS;
	struct timespec pause = {.tv_nsec = 2 * (long)NS_PER_MS};
	pid_t found;

	while ((found = copy_find(target, own_pid, start_ticks)) == 0 && clock_now_ns() < deadline_ns)
		nanosleep(&pause, NULL);
	return found;
}
