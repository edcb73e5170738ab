/* Child processes. See children.h. */

#include "tracer/process/children.h"

#include "tracer/base/buffer.h"
#include "tracer/base/proc_status.h"
#include "tracer/process/target.h"

#include <dirent.h>
#include <stdlib.h>

static int compare(const void *one, const void *other)
{
	pid_t first = *(const pid_t *)one, second = *(const pid_t *)other;

	return (first > second) - (first < second);
}

size_t children_find(pid_t parent, pid_t **children)
{
	DIR *directory = opendir("/proc");
	struct dirent *entry;
	struct error err;
	size_t count = 0;

	*children = NULL;
	while (directory && (entry = readdir(directory))) {
		pid_t pid = (pid_t)atoi(entry->d_name);
		struct target target;

		if (pid <= 0 || proc_status_number(pid, "PPid", 10, 0) != (unsigned long long)parent)
			continue;
		if (target_describe(&target, pid, TARGET_BASIC, &err) != 0 || !target.is_ruby)
			continue;
		*children = memory_resize(*children, (count + 1) * sizeof(**children));
		(*children)[count++] = pid;
	}
	if (directory)
		closedir(directory);
	if (count)
		qsort(*children, count, sizeof(**children), compare);
	return count;
}
