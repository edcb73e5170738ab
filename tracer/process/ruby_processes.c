/* The Ruby processes of this machine. See ruby_processes.h. */

#include "tracer/process/ruby_processes.h"

#include "proto/clock.h"
#include "tracer/base/buffer.h"
#include "tracer/base/proc_file.h"
#include "tracer/process/container.h"
#include "tracer/process/target_copy.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Not what is only in the kernel, which has no command line. */
static bool is_hidden(const struct target *target)
{
	char command[2];

	return !target->readable && geteuid() != 0 && target->euid != geteuid() &&
	       proc_file_read(target->pid, "cmdline", command, sizeof(command)) != 0;
}

int ruby_processes_each(enum target_detail detail, uint64_t deadline_ns, struct unseen_processes *unseen,
                        void (*found)(void *owner, const struct target *target), void *owner, struct error *err)
{
	DIR *directory;
	size_t count, next = 0;
	int *pids;
	int status = container_check_surroundings(err);

	if (status < 0)
		return status;
	directory = opendir("/proc");
	if (!directory)
		return error_set(err, -errno, "cannot read /proc: %s", strerror(errno));
	pids = pids_of(directory, &count);
	closedir(directory);
	*unseen = (struct unseen_processes){0};
	for (; next < count && clock_now_ns() < deadline_ns; next++) {
		struct target target;

		if (target_describe(&target, pids[next], detail, NULL) < 0 || target.state == 'Z')
			continue;
		if ((target.is_ruby || target.other_ruby) && copy_role_of(pids[next]) != COPY_HELPING)
			found(owner, &target);
		unseen->of_others += is_hidden(&target);
	}
	free(pids);
	unseen->late = count - next;
	return 0;
}
