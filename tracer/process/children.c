/* Child processes. See children.h. */

#include "tracer/process/children.h"

#include "tracer/base/buffer.h"
#include "tracer/base/proc_file.h"
#include "tracer/base/proc_status.h"
#include "tracer/process/target.h"
#include "tracer/process/target_copy.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#define LIST_SIZE 65536 /* of one thread's children, as text */

struct pids {
	pid_t *items;
	size_t count;
};

static void add(struct pids *pids, pid_t pid)
{
	for (size_t i = 0; i < pids->count; i++)
		if (pids->items[i] == pid)
			return;
	if (pids->count == DESCENDANTS_MAX)
		return;
	pids->items = memory_resize(pids->items, (pids->count + 1) * sizeof(*pids->items));
	pids->items[pids->count++] = pid;
}

/* Those that threads of the process have started. False: this kernel has no such list. */
static bool add_listed(struct pids *pids, pid_t parent)
{
	static char text[LIST_SIZE];
	char path[64];
	DIR *directory;
	struct dirent *entry;
	bool has_list = true;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)parent);
	directory = opendir(path);
	while (has_list && directory && (entry = readdir(directory))) {
		char name[64], *at = text, *end;
		long pid;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "task/%.20s/children", entry->d_name);
		/* A thread that has just ended has none, either. */
		if (proc_file_read(parent, name, text, sizeof(text)) < 0) {
			char state;
			uint64_t start_ticks;

			has_list = atoi(entry->d_name) != parent || proc_stat_read(parent, &state, &start_ticks) != 0;
			continue;
		}
		while ((pid = strtol(at, &end, 10)) > 0 && end != at) {
			add(pids, (pid_t)pid);
			at = end;
		}
	}
	if (directory)
		closedir(directory);
	return has_list;
}

static void add_by_parent(struct pids *pids, pid_t parent)
{
	DIR *directory = opendir("/proc");
	struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		pid_t pid = (pid_t)atoi(entry->d_name);

		if (pid > 0 && proc_status_number(pid, "PPid", 10, 0) == (unsigned long long)parent)
			add(pids, pid);
	}
	if (directory)
		closedir(directory);
}

static void add_children(struct pids *pids, pid_t parent)
{
	if (!add_listed(pids, parent))
		add_by_parent(pids, parent);
}

size_t descendants_find(pid_t ancestor, pid_t **pids)
{
	struct pids found = {0};

	add_children(&found, ancestor);
	for (size_t i = 0; i < found.count; i++)
		add_children(&found, found.items[i]);
	*pids = found.items;
	return found.count;
}

bool process_is_worker(pid_t pid, uint64_t *start_ticks)
{
	struct target target;
	struct error err;

	if (target_describe(&target, pid, TARGET_BASIC, &err) != 0 || !target.is_ruby || target.state == 'Z')
		return false;
	*start_ticks = target.start_ticks;
	return copy_role_of(pid) == COPY_NONE;
}

static int compare(const void *one, const void *other)
{
	pid_t first = *(const pid_t *)one, second = *(const pid_t *)other;

	return (first > second) - (first < second);
}

size_t children_find(pid_t parent, pid_t **children)
{
	size_t count = descendants_find(parent, children), kept = 0;
	uint64_t start_ticks;

	for (size_t i = 0; i < count; i++)
		if (process_is_worker((*children)[i], &start_ticks))
			(*children)[kept++] = (*children)[i];
	if (kept)
		qsort(*children, kept, sizeof(**children), compare);
	return kept;
}
