/* The Ruby processes of this machine. See ruby_processes.h. */

#include "tracer/process/ruby_processes.h"

#include "proto/clock.h"
#include "tracer/base/buffer.h"
#include "tracer/process/target_copy.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int compare_pids(const void *one, const void *other)
{
	return *(const int *)one < *(const int *)other ? -1 : *(const int *)one > *(const int *)other;
}

/* Of all processes, in order, for the caller to free. */
static int *pids_of(DIR *directory, size_t *count)
{
	struct dirent *entry;
	int *pids = NULL;

	*count = 0;
	while ((entry = readdir(directory))) {
		int pid = atoi(entry->d_name);

		if (pid <= 0)
			continue;
		if (*count % 256 == 0)
			pids = memory_resize(pids, (*count + 256) * sizeof(*pids));
		pids[(*count)++] = pid;
	}
	if (*count)
		qsort(pids, *count, sizeof(*pids), compare_pids);
	return pids;
}

int ruby_processes_each(enum target_detail detail, uint64_t deadline_ns, size_t *late,
                        void (*found)(void *owner, const struct target *target), void *owner, struct error *err)
{
	DIR *directory = opendir("/proc");
	size_t count, next = 0;
	int *pids;

	if (!directory)
		return error_set(err, -errno, "cannot read /proc: %s", strerror(errno));
	pids = pids_of(directory, &count);
	closedir(directory);
	for (; next < count && clock_now_ns() < deadline_ns; next++) {
		struct target target;

		if (target_describe(&target, pids[next], detail, NULL) == 0 && target.is_ruby && target.state != 'Z' &&
		    copy_role_of(pids[next]) != COPY_HELPING)
			found(owner, &target);
	}
	free(pids);
	*late = count - next;
	return 0;
}
