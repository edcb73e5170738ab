/* What a container's limits and kernel mean for attaching. See container.h. */

#include "tracer/process/container.h"

#include "proto/bell.h"
#include "tracer/base/proc_file.h"
#include "tracer/process/cgroup.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)

/* An answer was seen to take half a megabyte. The events of a trace fill their ring of 8 where the reader is late. */
static const uint64_t memory_needed[] = {[CONTAINER_ASK] = 2 * MIB, [CONTAINER_TRACE] = 10 * MIB};

bool container_is_frozen(pid_t pid)
{
	struct cgroup_limits limits;

	cgroup_look(pid, &limits);
	return limits.frozen;
}

int container_refuse_frozen(pid_t pid, struct error *err)
{
	return error_set(err, -EBUSY,
	                 "process %d is frozen with its cgroup (a paused container, perhaps) and cannot answer; let it go on "
	                 "first, with: docker unpause, podman unpause or systemctl thaw",
	                 (int)pid);
}

int container_check(const struct target *target, enum container_use use, struct error *err)
{
	int pid = (int)target->pid;
	unsigned threads;
	struct cgroup_limits limits;

	cgroup_look(target->pid, &limits);
	/* The one that is rung, and the one that writes. Of ours, the loader and the keeper of the socket. */
	threads = (bell_thread(target->pid) == 0 ? 2u : 1u) + (limits.shared ? 2u : 0u);
	if (limits.frozen)
		return container_refuse_frozen(target->pid, err);
	if (limits.threads_left < threads)
		return error_set(
			err, -EAGAIN,
			"attaching to process %d takes %u more thread%s, and its container or service may have %llu (its "
			"pids.max is %llu); raise the limit, with: docker update --pids-limit, or TasksMax= of systemd",
			pid, threads, threads == 1 ? "" : "s", (unsigned long long)limits.threads_left,
			(unsigned long long)limits.threads_max);
	if (limits.memory_left < memory_needed[use])
		return error_set(err, -ENOMEM,
		                 "process %d could be killed for want of memory: its container or service has %llu KiB left of "
		                 "%llu MiB, and rbprobe may need %llu MiB there; raise the limit, with: docker update --memory, "
		                 "or MemoryMax= of systemd",
		                 pid, (unsigned long long)(limits.memory_left / KIB),
		                 (unsigned long long)(limits.memory_max / MIB), (unsigned long long)(memory_needed[use] / MIB));
	return 0;
}

/* Its date has been the same for all releases. */
bool container_kernel_is_known(const char *version)
{
	return !strstr(version, "gvisor") && !strstr(version, "Sun Jan 10 15:06:54 PST 2016");
}

/*
 * "/proc/self" is a link to the number that the mount's PID namespace has for us, and leads nowhere where it has none.
 * Without a /proc nothing can be said, and nothing be looked at.
 */
static bool proc_is_ours(void)
{
	char number[16];
	struct statfs mounted;
	ssize_t length = readlink("/proc/self", number, sizeof(number) - 1);

	if (length < 0)
		return errno != ENOENT || statfs("/proc", &mounted) != 0 || mounted.f_type != PROC_SUPER_MAGIC;
	number[length] = '\0';
	return strtol(number, NULL, 10) == (long)getpid();
}

int container_check_surroundings(struct error *err)
{
	char version[512];

	if (text_file_read("/proc/version", version, sizeof(version)) > 0 && !container_kernel_is_known(version))
		return error_set(
			err, -ENOSYS,
			"rbprobe does not work in a gVisor sandbox (runsc), whose kernel is not Linux; run the container "
			"with another runtime, such as runc or crun");
	if (!proc_is_ours())
		return error_set(
			err, -EXDEV,
			"/proc is that of another PID namespace than rbprobe's, so its PIDs are not those of the processes "
			"that rbprobe would reach; enter both namespaces (nsenter -p -m), or mount a /proc of your own "
			"(unshare -m --mount-proc)");
	return 0;
}

bool container_is_sandbox(pid_t pid)
{
	char words[64];

	return proc_file_read(pid, "cmdline", words, sizeof(words)) > 0 && strncmp(words, "runsc-", 6) == 0;
}
