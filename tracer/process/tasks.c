/* Native threads. See tasks.h. */

#define _GNU_SOURCE
#include "tracer/process/tasks.h"

#include "proto/task_file.h"
#include "tracer/base/buffer.h"
#include "tracer/base/proc_file.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Fields of /proc/PID/task/TID/stat, counted from the state, which is the first after the name. */
#define FIELD_USER_TIME 11
#define FIELD_SYSTEM_TIME 12

static int stat_parse(struct task *task, char *text)
{
	static long ticks_per_s;
	char *name = strchr(text, '('), *field = strrchr(text, ')');
	uint64_t ticks = 0;

	if (!ticks_per_s)
		ticks_per_s = sysconf(_SC_CLK_TCK);
	if (!name || !field || field[1] != ' ')
		return -1;
	snprintf(task->command, sizeof(task->command), "%.*s", (int)(field - name - 1), name + 1);
	field += 2;
	task->state = *field;
	for (int i = 1; i <= FIELD_SYSTEM_TIME; i++) {
		field = strchr(field, ' ');
		if (!field)
			return -1;
		field++;
		if (i >= FIELD_USER_TIME)
			ticks += strtoull(field, NULL, 10);
	}
	task->cpu_ns = ticks * (1000000000u / (uint64_t)ticks_per_s);
	return 0;
}

/* The last number of "NSpid: 1234 5": the one of the innermost namespace. */
static pid_t own_tid_of(int directory, const char *tid)
{
	char text[8192], *line, *end;
	pid_t own = atoi(tid);

	if (task_file_read(directory, tid, "status", text, sizeof(text)) <= 0 || !(line = strstr(text, "\nNSpid:")))
		return own;
	for (line += strlen("\nNSpid:"); *line == '\t' || *line == ' '; line = end)
		own = (pid_t)strtol(line, &end, 10);
	return own;
}

static bool in_our_namespace(pid_t pid)
{
	struct stat ours, theirs;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	return stat("/proc/self/ns/pid", &ours) != 0 || stat(path, &theirs) != 0 || ours.st_ino == theirs.st_ino;
}

void tasks_read(struct tasks *tasks, pid_t pid)
{
	char path[64], text[1024];
	struct dirent *entry;
	DIR *directory;
	bool same = in_our_namespace(pid);

	memset(tasks, 0, sizeof(*tasks));
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	directory = opendir(path);
	if (!directory)
		return;
	while ((entry = readdir(directory))) {
		struct task task = {.tid = atoi(entry->d_name)};

		if (task.tid <= 0 || task_file_read(dirfd(directory), entry->d_name, "stat", text, sizeof(text)) <= 0 ||
		    stat_parse(&task, text) != 0)
			continue;
		task.own_tid = same ? task.tid : own_tid_of(dirfd(directory), entry->d_name);
		if ((tasks->count & (tasks->count - 1)) == 0)
			tasks->items = memory_resize(tasks->items, (tasks->count ? 2 * tasks->count : 1) * sizeof(task));
		tasks->items[tasks->count++] = task;
	}
	closedir(directory);
}

uint64_t task_stack_pointer(pid_t pid, pid_t tid)
{
	unsigned long long sp = 0;
	char name[32], text[256], *at;

	snprintf(name, sizeof(name), "task/%d/syscall", (int)tid);
	if (proc_file_read(pid, name, text, sizeof(text)) <= 0)
		return 0;
	/* "202 0x1 ... SP PC", or "running" */
	at = strrchr(text, ' ');
	if (!at)
		return 0;
	*at = '\0';
	at = strrchr(text, ' ');
	return at && sscanf(at, "%llx", &sp) == 1 ? sp : 0;
}

void tasks_free(struct tasks *tasks)
{
	free(tasks->items);
	memset(tasks, 0, sizeof(*tasks));
}

const struct task *tasks_find(const struct tasks *tasks, pid_t own_tid)
{
	for (size_t i = 0; i < tasks->count; i++)
		if (tasks->items[i].own_tid == own_tid)
			return &tasks->items[i];
	return NULL;
}
