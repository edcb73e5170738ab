/*
 * What a copy does with what it has inherited. See silent_fork.h. Context: a copy, which has one thread; all signals are blocked
 * when it begins.
 */

#define _GNU_SOURCE
#include "tracee/requests/silent_fork.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KEPT_MIN 512 /* beyond what the application's objects may take for theirs */
#define DESCRIPTORS_MAX 65536

/* The application's handlers are not to run here. What may not be held back still ends the process, without a core file. */
static void settle_signals(void)
{
	struct sigaction standard = {.sa_handler = SIG_DFL};
	struct rlimit none = {0, 0};
	sigset_t open;

	for (int number = 1; number < NSIG; number++)
		sigaction(number, &standard, NULL);
	setrlimit(RLIMIT_CORE, &none);
	sigemptyset(&open);
	for (int number = 1; number < NSIG; number++)
		sigaddset(&open, number);
	sigdelset(&open, SIGPIPE);
	sigdelset(&open, SIGTERM);
	sigprocmask(SIG_SETMASK, &open, NULL);
}

static void each_descriptor(void (*act)(int fd, int argument), int argument)
{
	DIR *directory = opendir("/proc/self/fd");
	struct dirent *entry;

	if (!directory) {
		for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
			if (fcntl(fd, F_GETFD) >= 0)
				act(fd, argument);
		return;
	}
	while ((entry = readdir(directory))) {
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9' && fd != dirfd(directory))
			act(fd, argument);
	}
	closedir(directory);
}

static int kept = -1;

static void replace(int fd, int by)
{
	if (fd != by && fd != kept)
		dup2(by, fd);
}

static void close_all(int fd, int from)
{
	if (fd >= from && fd != kept)
		close(fd);
}

/*
 * A servant goes on with Ruby, whose threads' machinery closes its own descriptors by their numbers and takes it for a bug if
 * they are not there: so each one becomes one of /dev/null. That ends what was shared with the application just as well.
 */
static void settle_descriptors(enum silent_fork_kind kind)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		null = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* a root without /dev */
	if (kind == SILENT_FORK_FROZEN) {
		kept = null;
		each_descriptor(close_all, 3);
		kept = -1;
		for (int fd = 0; fd < 3 && null >= 0; fd++)
			dup2(null, fd);
		if (null >= 3)
			close(null);
		return;
	}
	each_descriptor(null >= 0 ? replace : close_all, null >= 0 ? null : 0);
}

/* If memory gets short, this one is to go, and not the application. */
static void offer_to_oom_killer(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, "1000", 4) < 0)
		errno = 0;
	close(fd);
}

int silent_fork_settle(enum silent_fork_kind kind, const char *name, int keep)
{
	prctl(PR_SET_NAME, name);
	if (kind == SILENT_FORK_SERVANT)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	settle_signals();
	if (keep >= 0) {
		kept = fcntl(keep, F_DUPFD_CLOEXEC, KEPT_MIN);
		if (kept < 0)
			kept = keep;
	}
	settle_descriptors(kind);
	if (kind == SILENT_FORK_SERVANT)
		offer_to_oom_killer();
	return kept;
}
