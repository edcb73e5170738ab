/*
 * A child that may do next to nothing. See confined.h.
 *
 * The order in the child: hold the process's /proc entry and check that it is still the same process; open what takes
 * privileges, without looking into it; limits; the process's root directory; its groups and user; no capabilities; the
 * filter. The parent only waits, with a deadline: a file system that hangs stops the child.
 */

#define _GNU_SOURCE
#include "tracer/process/confined.h"

#include "proto/clock.h"
#include "tracer/base/close_from.h"
#include "tracer/base/proc_status.h"
#include "tracer/process/confined_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define DESCRIPTORS_MAX 4096
#define REAP_NS (100 * NS_PER_MS)
#define EXIT_REFUSED 3  /* of a child that could not confine itself; */
#define EXIT_NO_FILES 4 /* as it may not have so many files open */

/* --- In the child, before */

/* errno says why. */
static void refuse(void)
{
	_exit(errno == EMFILE || errno == ENFILE ? EXIT_NO_FILES : EXIT_REFUSED);
}

/* Each that is kept gets the number 3 + its place. */
static void leave_our_files(int *kept, int count)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 0; i < count; i++)
		if ((kept[i] = fcntl(kept[i], F_DUPFD_CLOEXEC, 3 + count)) < 0)
			refuse();
	for (int i = 0; i < 3; i++)
		if (dup2(null, i) < 0)
			refuse();
	for (int i = 0; i < count; i++)
		if ((kept[i] = dup2(kept[i], 3 + i)) < 0)
			refuse();
	close_from(3 + (unsigned)count);
}

static void leave_our_signals(void)
{
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

void confined_leave_ours(int *kept, int count)
{
	leave_our_signals();
	leave_our_files(kept, count);
}

static size_t read_at(int directory, const char *name, char *text, size_t size)
{
	int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = '\0';
	return got > 0 ? (size_t)got : 0;
}

/* The process that was described, and no other that has its PID now; its groups. */
static bool groups_read(struct confined *confined, const struct target *target, int entry)
{
	char text[16384], *at, *end;

	confined->group_count = 0;
	if (!target_is_same(target) || !read_at(entry, "status", text, sizeof(text)))
		return false;
	at = strstr(text, "\nUid:");
	if (!at || (strtoul(at + 5, &end, 10), (uid_t)strtoul(end, NULL, 10)) != target->euid)
		return false;
	at = strstr(text, "\nGroups:");
	for (at = at ? at + 8 : NULL; at && confined->group_count < CONFINED_GROUPS_MAX; at = end) {
		gid_t group = (gid_t)strtoul(at, &end, 10);

		if (end == at || memchr(at, '\n', (size_t)(end - at)))
			break;
		confined->groups[confined->group_count++] = group;
	}
	return true;
}

bool confined_take(struct confined *confined, const struct target *target)
{
	char path[32];
	ssize_t size;
	int entry;

	snprintf(path, sizeof(path), "/proc/%d", (int)target->pid);
	entry = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (entry < 0 || !groups_read(confined, target, entry))
		return false;
	size = readlinkat(entry, "root", confined->root_path, sizeof(confined->root_path) - 1);
	confined->root_path[size > 1 ? size : 0] = '\0';
	confined->root = openat(entry, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	confined->directory = openat(entry, "cwd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	confined->program = openat(entry, "exe", O_PATH | O_CLOEXEC);
	confined->program_error = confined->program < 0 ? errno : 0;
	confined->memory = openat(entry, "mem", O_RDONLY | O_CLOEXEC);
	confined->maps = openat(entry, "maps", O_RDONLY | O_CLOEXEC);
	confined->own = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (confined->own < 0 && errno == EMFILE)
		return false;
	close(entry);
	return true;
}

static void limit(int resource, rlim_t value)
{
	struct rlimit now;

	if (getrlimit(resource, &now) != 0)
		return;
	if (value > now.rlim_max)
		value = now.rlim_max;
	setrlimit(resource, &(struct rlimit){value, value});
}

static void set_limits(const struct confined_job *job)
{
	char text[64] = "";
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	rlim_t used;

	if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	used = strtoull(text, NULL, 10) * (rlim_t)sysconf(_SC_PAGESIZE);
	limit(RLIMIT_AS, used + job->memory_max);
	limit(RLIMIT_CPU, job->budget_ns / NS_PER_S + 1);
	limit(RLIMIT_NOFILE, DESCRIPTORS_MAX);
	limit(RLIMIT_FSIZE, 0);
	limit(RLIMIT_CORE, 0);
}

static bool may_change_user(void)
{
	return proc_status_number(getpid(), "CapEff", 16, 0) >> CAP_SETUID & 1;
}

bool confined_become(const struct confined *confined, const struct target *target, bool *inside)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct nothing[2] = {{0}};

	/* In a user namespace groups may be nobody's to change; then it must be a process of our own user. */
	bool same = geteuid() == target->euid && getegid() == target->egid;
	/* Asked here: a process's root directory need not have a /proc. */
	bool may_change = may_change_user();

	*inside = confined->root >= 0 && fchdir(confined->root) == 0 && chroot(".") == 0;
	if (may_change &&
	    ((setgroups(confined->group_count, confined->groups) != 0 && !same) ||
	     setresgid(target->egid, target->egid, target->egid) != 0 ||
	     setresuid(target->euid, target->euid, target->euid) != 0 || getuid() != target->euid || geteuid() != target->euid))
		return false;
	if (syscall(SYS_capset, &header, nothing) != 0)
		return false;
	return prctl(PR_SET_DUMPABLE, 0) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

static _Noreturn void child(const struct confined_job *job, int answer, pid_t parent)
{
	struct confined confined;
	bool inside;

	confined_leave_ours(&answer, 1);
	confined.answer = answer;
	errno = 0;
	if (!confined_take(&confined, job->target))
		refuse();
	set_limits(job);
	if (!confined_become(&confined, job->target, &inside))
		_exit(EXIT_REFUSED);
	/* A change of user takes this away, and so comes before it. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
		_exit(EXIT_REFUSED);
	if (!confined_filter_set(inside))
		_exit(EXIT_REFUSED);
	job->work(&confined, job->argument);
	_exit(0);
}

/* --- In the child, at work */

/* Looked at first and opened then by what was looked at: opening a device may do something. */
static int open_checked(const struct confined *confined, int found)
{
	struct stat status;
	char name[16];
	int fd = -1;

	if (fstat(found, &status) == 0 && S_ISREG(status.st_mode)) {
		snprintf(name, sizeof(name), "%d", found);
		fd = openat(confined->own, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	}
	return fd;
}

int confined_open(const struct confined *confined, const char *path)
{
	struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	size_t above = strlen(confined->root_path);
	int found, fd;

	if (strncmp(path, confined->root_path, above) == 0 && path[above] == '/')
		path += above;
	if (path[0] != '/')
		return -1;
	found = (int)syscall(__NR_openat2, confined->root, path, &how, sizeof(how));
	/* An older kernel; or its root directory is ours, and the filter wants the other call. */
	if (found < 0 && (errno == ENOSYS || errno == EPERM))
		found = openat(confined->root, path + strspn(path, "/"), O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (found < 0)
		return -1;
	fd = open_checked(confined, found);
	close(found);
	return fd;
}

int confined_open_here(const struct confined *confined, const char *path)
{
	struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
	int found, fd;

	if (path[0] == '/' || confined->directory < 0)
		return -1;
	found = (int)syscall(__NR_openat2, confined->directory, path, &how, sizeof(how));
	if (found < 0 && (errno == ENOSYS || errno == EPERM))
		found = openat(confined->directory, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (found < 0)
		return -1;
	fd = open_checked(confined, found);
	close(found);
	return fd;
}

int confined_open_program(const struct confined *confined)
{
	errno = confined->program_error;
	return confined->program < 0 ? -1 : open_checked(confined, confined->program);
}

bool confined_read_memory(const struct confined *confined, uint64_t address, void *bytes, size_t size)
{
	return address <= INT64_MAX && pread(confined->memory, bytes, size, (off_t)address) == (ssize_t)size;
}

void confined_answer(const struct confined *confined, const void *bytes, size_t size)
{
	const char *at = bytes;

	while (size) {
		ssize_t written = write(confined->answer, at, size);

		if (written <= 0)
			_exit(1);
		at += written;
		size -= (size_t)written;
	}
}

/* --- In the parent */

static int answer_read(int fd, size_t most, uint64_t deadline_ns, struct buffer *answer)
{
	size_t begin = answer->size;

	for (;;) {
		uint64_t now_ns = clock_now_ns();
		ssize_t got;
		int ready;

		if (now_ns >= deadline_ns)
			return -ETIMEDOUT;
		ready = poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, (int)((deadline_ns - now_ns) / NS_PER_MS) + 1);
		if (ready <= 0)
			continue;
		got = read(fd, buffer_reserve(answer, 65536), 65536);
		if (got == 0)
			return 0;
		if (got < 0 && errno != EINTR)
			return -errno;
		answer->size += got > 0 ? (size_t)got : 0;
		if (answer->size - begin > most) {
			answer->size = begin + most;
			return -EMSGSIZE;
		}
	}
}

static int ended_with(int status)
{
	return status == 0 ? 0 : status == EXIT_NO_FILES ? -EMFILE : status == EXIT_REFUSED ? -EPERM : -EIO;
}

/* What hangs in a file system may not even die: it is not waited for, and init takes it later. */
static int child_end(pid_t pid)
{
	uint64_t deadline_ns = clock_now_ns() + REAP_NS;
	struct timespec pause = {.tv_nsec = 100 * (long)NS_PER_US};
	int status;

	for (;;) {
		pid_t got = waitpid(pid, &status, WNOHANG | __WALL);

		if (got == pid)
			return !WIFEXITED(status) ? -EIO : ended_with(WEXITSTATUS(status));
		if ((got < 0 && errno != EINTR) || clock_now_ns() >= deadline_ns)
			return -EIO;
		nanosleep(&pause, NULL);
	}
}

int confined_run(const struct confined_job *job, struct buffer *answer)
{
	uint64_t deadline_ns = clock_now_ns() + job->budget_ns;
	int ends[2], status, ended;
	pid_t pid, self = getpid();

	if (pipe2(ends, O_CLOEXEC) != 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		child(job, ends[1], self);
	status = pid < 0 ? -errno : 0;
	close(ends[1]);
	if (pid > 0) {
		status = answer_read(ends[0], job->answer_max, deadline_ns, answer);
		if (status < 0)
			kill(pid, SIGKILL);
		ended = child_end(pid);
		if (status == 0)
			status = ended;
	}
	close(ends[0]);
	return status;
}
